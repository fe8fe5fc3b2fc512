"""What a tool may know about the call it serves."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ace.core.cancellation import CancellationToken
from ace.core.clock import SystemClock
from ace.core.usage import RunUsage, UsageLimits

_OF_MODELS = {"lm_calls", "input_tokens", "output_tokens", "cost"}


class Tally:
    """What nested runs inside one tool call spent; it is added to the usage of the outer run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.usage = RunUsage()

    def add(self, usage: RunUsage) -> None:
        """Add what a nested run spent on models."""
        with self._lock:
            self.usage += RunUsage(**usage.model_dump(include=_OF_MODELS))


@dataclass(frozen=True)
class ToolContext:
    """Handed to a tool that has a parameter annotated ``ToolContext``; the model never sees that parameter.

    Examples:
        >>> from ace.tools import Tool
        >>> def wait_for(job: str, ctx: ToolContext) -> str:
        ...     "Wait for a job."
        ...     return "cancelled" if ctx.cancellation.wait(0.01) else "done"
        >>> list(Tool.from_function(wait_for).schema["properties"])
        ['job']
    """

    run_id: str = ""
    correlation_id: str = ""
    """The task's id."""
    step_id: str = ""
    """``s3`` for the third iteration."""
    tool_call_id: str = ""
    cancellation: CancellationToken = field(default_factory=CancellationToken)
    """Set when the run is cancelled or this call has run out of time."""
    deadline: float | None = None
    """`SystemClock().now()` at which the result is no longer waited for."""
    remaining: UsageLimits = field(default_factory=UsageLimits)
    """What the run has left; an agent that runs inside this tool gets no more."""
    tally: Tally = field(default_factory=Tally)
    """Where an agent that runs inside this tool reports what it spent."""

    @property
    def seconds_left(self) -> float | None:
        """Seconds until `deadline`; None when there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - SystemClock().now())


_current: contextvars.ContextVar[ToolContext | None] = contextvars.ContextVar("ace_tool_context", default=None)


def current_context() -> ToolContext | None:
    """Return the context of the tool call that this code runs in: `current_context()`; None outside of one."""
    return _current.get()


@contextmanager
def entered(context: ToolContext) -> Generator[None]:
    """Make `context` the current one while the block runs."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
