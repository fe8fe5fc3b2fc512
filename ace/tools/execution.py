"""Checking a call before it runs, and running it with a time limit.

Sync and async callers share everything but the wait itself. A sync tool runs in a daemon thread: a hung one cannot keep
the process alive, and a result that comes after the time limit or a cancellation is dropped. A tool with
``isolation="process"`` is killed instead.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from ace.core import (
    CancellationToken,
    InvalidModelAction,
    RunUsage,
    SystemClock,
    ToolContext,
    ToolError,
    ToolErrorKind,
    clean_text,
    truncate,
    value_to_text,
)
from ace.core.context import current_context, entered
from ace.tasks import Outcome
from ace.tools.failure import tool_error
from ace.tools.media import observed
from ace.tools.process import ChildCall
from ace.tools.registry import ToolRegistry
from ace.tools.threads import TOOLS, Job
from ace.tools.tool import Tool

MAX_ITEMS = 1_000
"""At most this many items of an iterator that a tool returns are read."""


class ToolCall(BaseModel, frozen=True, extra="forbid"):
    """A call that the model asked for: `ToolCall(id="call-1", name="look_up", args={"key": "a"})`."""

    id: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    """As the model gave them; validated again right before the call."""


class ToolResult(BaseModel, frozen=True, extra="forbid"):
    """The result of `call_tool(look_up, call)`. `content` is the tool's own value, `text` what the model reads."""

    tool_call_id: str
    outcome: Outcome
    content: Any = None
    text: str
    error_kind: ToolErrorKind | None = None
    message: str = ""
    """For the operator; never shown to a model."""
    seconds: float = 0.0
    usage: RunUsage = RunUsage()
    """What agents that ran inside the tool spent on models."""
    raised: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)
    """What the tool raised; only in the process where it did."""


def check_call(registry: ToolRegistry, name: Any, args: Any, call_id: str, excluded: Collection[str] = ()) -> ToolCall:
    """Refuse a call that cannot run: `check_call(registry, "look_up", {"key": "a"}, "call-1")` is fine.

    Raises:
        InvalidModelAction: The tool is unknown (near names are given), the arguments are no object, or they do not fit
            the schema (each field is named with what came and what is expected).
    """
    if not isinstance(name, str) or not registry.has(name):
        shown = truncate(clean_text(name), 100) if isinstance(name, str) else value_to_text(name, 100)
        near = [name for name in registry.near(shown) if name not in excluded]
        hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else "see `tools` for the ones there are"
        raise InvalidModelAction(
            "unknown_tool", f"There is no tool {shown!r}: {hint}", tool_name=shown, received_args=args
        )
    registry.get(name).checked(args)
    return ToolCall(id=call_id, name=name, args=args)


@dataclass
class _Work:
    """One call, ready to run: the body with validated arguments, its context, and how to stop it."""

    tool: Tool
    call: ToolCall
    context: ToolContext
    body: Callable[[], Any]
    timeout: float
    kill: Callable[[], None] | None = None
    job: Job[_Outcome] | None = None
    """In the thread that it runs in, or waits for."""

    def __post_init__(self) -> None:
        self.started = time.perf_counter()

    @property
    def seconds_left(self) -> float:
        """Until its result is no longer waited for."""
        return max(0.0, self.started + self.timeout - time.perf_counter())

    def result(self, outcome: _Outcome) -> ToolResult:
        """Make the result for the run."""
        common: dict[str, Any] = {
            "tool_call_id": self.call.id,
            "seconds": time.perf_counter() - self.started,
            "usage": self.context.tally.usage,
        }
        if outcome.raised is None:
            return ToolResult(outcome="success", content=outcome.value, text=outcome.text, **common)
        failed = tool_error(outcome.raised)
        return ToolResult(
            outcome="interrupted" if outcome.cancelled else "failed",
            text=failed.model_message,
            error_kind=failed.kind,
            message=failed.message,
            raised=outcome.raised,
            **common,
        )

    def abandon(self) -> bool:
        """Signal the tool that no caller waits any longer, and kill it where that is possible; return whether it never
        began."""
        self.context.cancellation.cancel("no longer waited for")
        if self.job is not None and self.job.abandon():
            return True
        if self.kill is not None:
            self.kill()
        return False

    def given_up(self) -> _Outcome:
        """Say what a call comes to that did not answer in time."""
        unknown = "" if self.tool.read_only else "; its effect is unknown"
        late = ToolError("timeout", f"{self.call.name} did not answer within {self.timeout:g} s{unknown}.")
        return _Outcome(raised=_NO_THREAD if self.abandon() else late)

    def cancelled(self) -> _Outcome:
        """Say what a call comes to whose run was cancelled while it was out."""
        text = f"{self.call.name} was cancelled while it ran; its effect is unknown."
        return _Outcome(raised=ToolError("cancelled", text), cancelled=True)


def _work(tool: Tool, call: ToolCall, context: ToolContext | None, func: Callable[..., Any] | None = None) -> _Work:
    given = context or ToolContext(tool_call_id=call.id)
    left = given.seconds_left
    timeout = tool.timeout if left is None else min(tool.timeout, left)
    # a token of its own: that this call is no longer waited for must not cancel the run
    own = replace(given, cancellation=CancellationToken(), deadline=SystemClock().now() + timeout)
    try:
        kwargs = tool.checked(call.args)
    except InvalidModelAction as error:  # they fitted before: what they refer to, for example a file, has changed since
        refusal = ToolError("invalid_args", str(error))
        return _Work(tool, call, own, lambda: _raise(refusal), timeout)
    if tool.isolation == "process":
        child = ChildCall(tool.name, tool.func, call.args)
        return _Work(tool, call, own, child.run, timeout, child.kill)
    extra = {tool.context: own} if tool.context else {}
    return _Work(tool, call, own, lambda: (func or tool.func)(**kwargs, **extra), timeout)


def _raise(error: Exception) -> Any:
    raise error


_NO_THREAD = ToolError(
    "unavailable",
    "not called: every thread for tools is taken by a call that hangs (ace.tools.threads.TOOLS.size)",
    "Not called: too many other calls hang. Go on without this tool, or finish.",
)


@dataclass(frozen=True)
class _Outcome:
    """What a tool returned, or the exception that the tool itself raised."""

    value: Any = None
    raised: BaseException | None = None
    text: str = ""
    """The value as the model reads it; made where the tool ran, because rendering a foreign object is foreign code."""
    cancelled: bool = False


def call_tool(tool: Tool, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
    """Run one checked call and wait for it; never raises for what the tool did.

    Args:
        tool: The tool.
        call: A call that `check_call` let pass.
        context: Who calls; its cancellation and deadline are obeyed.

    Examples:
        >>> from ace.tools import calculator
        >>> call_tool(calculator, ToolCall(id="c1", name="calculator", args={"expression": "2 * 21"})).text
        '42'
    """
    return call_tools([(tool, call, context)])[0]


def call_tools(calls: Sequence[tuple[Tool, ToolCall, ToolContext | None]]) -> list[ToolResult]:
    """Run calls side by side, `call_tools([(look_up, call, None)])`; results in the order of the calls.

    Args:
        calls: Each tool, its checked call, and who calls.
    """
    works = [_work(*item) for item in calls]
    token = calls[0][2].cancellation if calls[0][2] is not None else CancellationToken()
    outcomes: dict[int, _Outcome] = {}
    jobs: list[Future[_Outcome]] = []
    ended: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    try:
        with token.calling(lambda: ended.put(None)):
            for index, work in enumerate(() if token.cancelled else works):
                jobs.append(_start(work, contextvars.copy_context()))
                jobs[-1].add_done_callback(lambda _, index=index: ended.put(index))
            while len(outcomes) < len(works):
                waiting = [index for index in range(len(works)) if index not in outcomes]
                try:
                    index = ended.get(timeout=min(works[index].seconds_left for index in waiting))
                except queue.Empty:
                    late = [index for index in waiting if not works[index].seconds_left]
                    outcomes |= {index: works[index].given_up() for index in late}
                    continue
                if index is None:
                    break
                if index not in outcomes:  # else late after a time-out: ignored
                    outcomes[index] = jobs[index].result()
    finally:  # cancelled, or Ctrl-C: running tools are signalled, and killed where that is possible
        for index, work in enumerate(works):
            if index not in outcomes:
                work.abandon()
    return [work.result(outcomes.get(index) or work.cancelled()) for index, work in enumerate(works)]


async def acall_tool(tool: Tool, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
    """Make a call as `call_tool` does, for async callers: `asyncio.run(acall_tool(look_up, call))`.

    A sync tool runs in a thread, so that the loop does not stall.
    Cancelling the task cancels the tool.
    """
    work = _work(tool, call, context, tool.afunc)
    if tool.is_async or tool.afunc is not None:
        future = asyncio.ensure_future(_on_loop(work))
    else:
        future = asyncio.wrap_future(_start(work, contextvars.copy_context()))
    try:
        done, _ = await asyncio.wait({future}, timeout=work.timeout)
    except asyncio.CancelledError:  # the run was cancelled: so is its tool
        work.abandon()
        raise
    else:
        outcome = future.result() if done else work.given_up()
    finally:
        future.cancel()
    return work.result(outcome)


async def _on_loop(work: _Work) -> _Outcome:
    """Run an async body to its end."""
    try:
        with entered(work.context):
            value = work.tool.checked_result(await _drained(work.body()))
            plain = value is None or isinstance(value, (str, bool, int, float))
            text = observed(value) if plain else await asyncio.to_thread(observed, value)
            return _Outcome(value, text=text)
    except BaseException as error:  # border to a foreign tool: not even SystemExit may tear the loop down
        return _Outcome(raised=error)


def _start(work: _Work, context: contextvars.Context) -> Future[_Outcome]:
    """Run the body in a daemon thread that sees a context (DSPy settings among it)."""

    def run() -> _Outcome:
        try:
            with entered(work.context):
                value = work.body()
                waited = inspect.isawaitable(value) or inspect.isasyncgen(value)
                value = work.tool.checked_result(asyncio.run(_drained(value)) if waited else _listed(value))
                return _Outcome(value, text=observed(value))
        except BaseException as error:  # border to a foreign tool: SystemExit must not end the thread without a result
            return _Outcome(raised=error)

    # a tool inside a tool is waited for by a thread of the same pool
    work.job = TOOLS.submit(lambda: context.run(run), extra=current_context() is not None)
    if work.job is not None:
        return work.job
    refused: Future[_Outcome] = Future()
    refused.set_result(_Outcome(raised=_NO_THREAD))
    return refused


async def _drained(value: Any) -> Any:
    """Wait for what can be waited for and read out iterators, inside the tool's own time limit."""
    if inspect.isawaitable(value):
        value = await value
    if not inspect.isasyncgen(value):
        return _listed(value)
    items: list[Any] = []
    async for item in cast(AsyncIterator[Any], value):
        items.append(item)
        if len(items) >= MAX_ITEMS:
            break
    return items


def _listed(value: Any) -> Any:
    return list(islice(cast(Iterator[Any], value), MAX_ITEMS)) if isinstance(value, Iterator) else value
