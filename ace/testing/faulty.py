"""Tools that fail on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast

from ace.core import CancellationToken, ToolError, ToolErrorKind, current_context
from ace.tools import Tool

ToolFault = ToolErrorKind | Literal["hang"] | BaseException | None
"""A kind of `ToolError`, a hang, an exception to raise, or None for a call that works."""


HANG = 3_600.0
"""Seconds that a hanging tool hangs, unless its call is given up first."""


class FaultyTool:
    """A tool that fails as planned, call by call, and then works; or keeps failing.

    Args:
        tool: The tool that does the work.
        faults: One per call; after the last one, `then` applies.
        then: What every later call gets.

    Examples:
        >>> from ace.tools import ToolCall, call_tool, calculator
        >>> faulty = FaultyTool(calculator, ["timeout"])
        >>> call = ToolCall(id="c", name="calculator", args={"expression": "1 + 1"})
        >>> call_tool(faulty.tool, call).error_kind, call_tool(faulty.tool, call).text
        ('timeout', '2')
    """

    def __init__(self, tool: Tool, faults: Iterable[ToolFault] = (), then: ToolFault = None) -> None:
        self._inner = tool
        self._faults: Iterator[ToolFault] = iter(list(faults))
        self._then: ToolFault = then
        self._lock = threading.Lock()
        self.calls = 0
        """How often it was called."""
        self.released = threading.Event()
        """Set it to let hanging calls go on."""

    @property
    def tool(self) -> Tool:
        """To register: same name, same schema."""
        return self._inner.bind(self._run)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            self.calls += 1
            fault = cast(ToolFault, next(self._faults, self._then))
        fail(fault, self._inner.name, self.released)
        return self._inner.func(*args, **kwargs)


def fail(fault: ToolFault, name: str, released: threading.Event | None = None) -> None:
    """Carry out a fault, in place of a tool."""
    if fault is None:
        return
    if isinstance(fault, BaseException):
        raise fault
    if fault == "hang":
        context = current_context()
        token = context.cancellation if context is not None else CancellationToken()
        until = time.monotonic() + HANG
        while time.monotonic() < until and not token.wait(0.01) and not (released is not None and released.is_set()):
            pass
        return
    raise ToolError(fault, f"{name} fails with {fault} on demand", f"{name} failed.")
