"""What a run tells its observers, in order.

`kind` is the field's word (``run_started``, ``tool_call_started`` ...). `seq` counts from 0 without gaps; `run_id` says
which run, `step_id` which iteration. The grammar is in ``contracts/events.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

EventKind = Literal[
    "run_started",
    "model_request_started",
    "model_request_completed",
    "model_request_error",
    "tool_call_started",
    "tool_call_completed",
    "tool_call_error",
    "run_completed",
    "run_error",
]


class Event(BaseModel):
    """One thing that happened in a run.

    Emitted by the state machine at each transition: a run starts with `run_started` and ends with exactly one of
    `run_completed` and `run_error`; each ``*_started`` is followed by its ``*_completed`` or ``*_error``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: EventKind
    seq: int
    """Position in the run's stream, from 0, without gaps."""
    run_id: str
    correlation_id: str
    """The task's id: it joins the events of several runs of one task."""
    step_id: str = ""
    """``s3`` for the third iteration; empty for events of the run as a whole."""
    data: dict[str, Any] = Field(default_factory=dict)
    """JSON values only; no secrets, no arguments of the caller's."""


Observer = Callable[[Event], None]
"""Called with every event. One that raises is dropped from the run; it cannot hurt it."""
