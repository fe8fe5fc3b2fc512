"""What a run tells its observers, in order.

`kind` is a common name (``run_started``, ``tool_call_started`` ...). `seq` counts from 0 without gaps; `run_id` names
the run, `step_id` the iteration. The grammar is in ``contracts/events.md``; `ace.testing.check_events` checks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, Field

EventKind = Literal[
    "run_started",
    "run_continued",
    "memory_unavailable",
    "model_request_started",
    "model_request_delta",
    "model_request_completed",
    "model_request_error",
    "tool_call_started",
    "tool_call_completed",
    "tool_call_error",
    "run_completed",
    "run_error",
    "run_paused",
    "run_cancelled",
]
"""What an event may say; `contracts/events.md` has the order that they come in."""

TERMINAL_KINDS: frozenset[EventKind] = frozenset({"run_completed", "run_error", "run_paused", "run_cancelled"})
"""The last event of a run, or of the part of it up to a pause."""


class Event(BaseModel, frozen=True, extra="forbid"):
    """One thing that happened in a run: `agent.stream("x")` gives each.

    Emitted by the state machine at each transition: a run starts with `run_started` (or `run_continued`) and ends with
    exactly one terminal event; each ``*_started`` is followed by its ``*_completed`` or ``*_error``.
    """

    kind: EventKind
    seq: int
    """Position in the run's stream, from 0, without gaps; it goes on over a pause."""
    run_id: str
    correlation_id: str
    """The task's id: it joins the events of several runs of one task."""
    step_id: str = ""
    """``s3`` for the third iteration; empty for events of the run as a whole."""
    timestamp: float = 0.0
    """Seconds since 1970."""
    data: dict[str, Any] = Field(default_factory=dict)
    """JSON values only; no secrets, no arguments of the caller's."""
    args: dict[str, Any] | None = None
    """Of a call, as it is made; only in a stream, whose reader is the caller, and never for observers."""
    result: str | None = None
    """Of a call, as the model reads it; only in a stream."""
    answer: str | None = None
    """Of a run that has completed, as text; only in a stream."""

    def bare(self) -> Event:
        """Return the event as observers get it."""
        return self.model_copy(update={"args": None, "result": None, "answer": None})


Observer = Callable[[Event], None]
"""Called with every event, in a thread of its own. One that raises or hangs cannot hurt the run."""
