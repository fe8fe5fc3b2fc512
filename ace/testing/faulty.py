"""Tools and models that fail on demand, and a seeded plan that decides when."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ace.core import TOOL_ERROR_KINDS, CancellationToken, ToolError, ToolErrorKind, current_context
from ace.testing.engine import FunctionLM, Prompt
from ace.tools import Tool

ToolFault = ToolErrorKind | Literal["hang"] | BaseException | None
"""A kind of `ToolError`, a hang, an exception to raise, or None for a call that works."""

LMFault = Literal["transport", "garbage", "truncated", "empty", "hang"] | BaseException | None
"""What goes wrong with a request, or None for one that works."""

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


class FaultyLM(FunctionLM):
    """A model whose requests fail as planned, one by one; later ones work.

    Args:
        answer: The model that does the work, as for `FunctionLM`.
        faults: One per request.
        hang: Seconds that a hanging request takes before it fails.

    Examples:
        >>> from ace import Policy, ReActGenerator
        >>> from ace.testing import decision
        >>> lm = FaultyLM(lambda prompt: decision("submit", answer="42"), ["garbage"])
        >>> ReActGenerator(tools=[], lm=lm, policy=Policy.lenient()).forward("6 times 7?").usage.reprompts
        1
    """

    def __init__(self, answer: Callable[[Prompt], str], faults: Iterable[LMFault] = (), hang: float = 0.2) -> None:
        self._inner = answer
        self._faults = iter(list(faults))
        self._lock = threading.Lock()
        self.hang = hang
        self.requests = 0
        """How many requests it got."""
        super().__init__("test/faulty", self._faulty)

    def _faulty(self, prompt: Prompt) -> str:
        with self._lock:
            self.requests += 1
            fault = next(self._faults, None)
        return spoil(fault, lambda: self._inner(prompt), self.hang)


def spoil(fault: LMFault, reply: Callable[[], str], hang: float = 0.2) -> str:
    """A reply, or what a fault makes of it."""
    if isinstance(fault, BaseException):
        raise fault
    if fault == "transport":
        raise ConnectionError("the model cannot be reached, on demand")
    if fault == "hang":
        time.sleep(hang)
        raise TimeoutError("the model did not answer in time, on demand")
    if fault == "garbage":
        return "\x00 ]] {'not': 'what was asked for' [[ ## next_"
    if fault == "empty":
        return ""
    text = reply()
    return text[: len(text) // 2] if fault == "truncated" else text


_ALL_FAULTS: tuple[ToolFault, ...] = (*TOOL_ERROR_KINDS, "hang", ValueError("on demand"))


@dataclass
class FaultPlan:
    """Decides at random, by a seed, what goes wrong when; the same seed and order of calls give the same faults.

    Examples:
        >>> plan = FaultPlan(seed=1, tool_rate=0.5)
        >>> plan.tool_fault() == FaultPlan(seed=1, tool_rate=0.5).tool_fault()
        True
    """

    seed: int
    tool_rate: float = 0.3
    """Share of tool calls that go wrong."""
    lm_rate: float = 0.2
    """Share of requests that go wrong."""
    tool_faults: tuple[ToolFault, ...] = field(default_factory=lambda: _ALL_FAULTS)
    lm_faults: tuple[LMFault, ...] = ("transport", "garbage", "truncated", "empty")
    counts: dict[str, int] = field(default_factory=dict)
    """What went wrong, and how often."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()

    def tool_fault(self) -> ToolFault:
        """What the next tool call gets."""
        return self._draw(self.tool_rate, self.tool_faults)

    def lm_fault(self) -> LMFault:
        """What the next request gets."""
        return self._draw(self.lm_rate, self.lm_faults)

    def _draw(self, rate: float, faults: tuple[Any, ...]) -> Any:
        with self._lock:
            hit, index = self._random.random() < rate, self._random.randrange(len(faults))
            fault = faults[index] if hit else None
            if hit:
                name = fault if isinstance(fault, str) else type(fault).__name__
                self.counts[name] = self.counts.get(name, 0) + 1
            return fault

    def tool(self, inner: Tool) -> Tool:
        """The tool, failing by this plan."""

        def body(*args: Any, **kwargs: Any) -> Any:
            fail(self.tool_fault(), inner.name)
            return inner.func(*args, **kwargs)

        return inner.bind(body)

    def answer(self, inner: Callable[[Prompt], str]) -> Callable[[Prompt], str]:
        """A model's answer function, failing by this plan."""
        return lambda prompt: spoil(self.lm_fault(), lambda: inner(prompt))
