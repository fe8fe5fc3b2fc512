"""Checking a call before it runs, and running it with a time limit.

Sync and async callers share everything but the wait itself. A sync tool runs in a daemon thread: a hung one cannot keep
the process alive, and a result that comes after the time limit is dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ace.core import InvalidModelAction, ToolError, ToolErrorKind, clean_text, describe_error, truncate, value_to_text
from ace.tasks import Outcome
from ace.tools.registry import ToolRegistry
from ace.tools.tool import Tool

MAX_ITEMS = 1_000
"""So many items of an iterator that a tool returns are read."""


class ToolCall(BaseModel):
    """A call that the model asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    """As the model gave them; validated again right before the call."""


class ToolResult(BaseModel):
    """What became of a call. `content` is the tool's own value, `text` what the model reads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool_call_id: str
    outcome: Outcome
    content: Any = None
    text: str
    error_kind: ToolErrorKind | None = None
    seconds: float = 0.0


def check_call(registry: ToolRegistry, name: Any, args: Any, call_id: str) -> ToolCall:
    """Refuse a call that cannot run, before anything happens.

    Raises:
        InvalidModelAction: The tool is unknown (near names are given), the arguments are no object, or they do not fit
            the schema (each field is named with what came and what is expected).
    """
    if not isinstance(name, str) or not registry.has(name):
        shown = truncate(clean_text(name), 100) if isinstance(name, str) else value_to_text(name, 100)
        near = registry.near(shown)
        hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else "see `tools` for the ones there are"
        raise InvalidModelAction(
            "unknown_tool", f"There is no tool {shown!r}: {hint}", tool_name=shown, received_args=args
        )
    tool = registry.get(name)
    if not isinstance(args, dict):
        raise InvalidModelAction(
            "invalid_args",
            f"{name}: the arguments must be a JSON object, got {type(args).__name__} {value_to_text(args, 100)!r}; "
            f"expected {_expected(tool)}",
            tool_name=name,
            received_args=args,
        )
    named = cast(dict[str, Any], args)
    try:
        tool.args_model.model_validate(named)
    except ValidationError as error:
        raise InvalidModelAction(
            "invalid_args", _explain(tool, error), tool_name=name, received_args=named
        ) from error
    except Exception as error:  # a validator of the user's own may raise anything
        text = f"{name}: the arguments were refused: {describe_error(error)}"
        raise InvalidModelAction("invalid_args", text, tool_name=name, received_args=named) from error
    return ToolCall(id=call_id, name=name, args=named)


def _expected(tool: Tool) -> str:
    names = list(tool.schema.get("properties", {}))
    return f"an object with {', '.join(names)}" if names else "an empty object {}"


def _explain(tool: Tool, error: ValidationError) -> str:
    parts: list[str] = []
    for item in error.errors(include_url=False, include_context=False)[:5]:
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        if item["type"] == "extra_forbidden":
            parts.append(f"{where!r} is not an argument")
        elif item["type"] == "missing":
            parts.append(f"{where!r} is required and missing")
        else:
            parts.append(f"{where!r}: {item['msg']}, got {value_to_text(item['input'], 100)!r}")
    return f"{tool.name}: {'; '.join(parts)}; expected {_expected(tool)}"


def _bound(tool: Tool, call: ToolCall) -> Callable[[], Any]:
    """The call with validated arguments, ready to run."""
    model = tool.args_model.model_validate(call.args)
    if tool.args_as_model:
        return lambda: tool.func(model)
    # only what was given: the function's own defaults stay its own, mutable ones included
    kwargs = {name: getattr(model, f"p{i}") for i, name in enumerate(tool.parameters) if name in call.args}
    return lambda: tool.func(**kwargs)


def _success(call: ToolCall, value: Any, started: float) -> ToolResult:
    return ToolResult(
        tool_call_id=call.id,
        outcome="success",
        content=value,
        text=value_to_text(value),
        seconds=time.perf_counter() - started,
    )


def _failure(call: ToolCall, error: BaseException, started: float, timeout: float) -> ToolResult:
    if isinstance(error, ToolError):
        kind, text = error.kind, clean_text(error.model_message)
    elif isinstance(error, _TimedOut):
        kind, text = "timeout", f"{call.name} did not answer within {timeout:g} s; its effect is unknown."
    else:
        kind, text = "exception", describe_error(error)
    return ToolResult(
        tool_call_id=call.id, outcome="failed", text=text, error_kind=kind, seconds=time.perf_counter() - started
    )


class _TimedOut(Exception):
    """Private, so that a `TimeoutError` raised by the tool itself is an exception of the tool."""


@dataclass(frozen=True)
class _Outcome:
    """What a tool gave: a value, or what it raised. Whatever it raised is the tool's, never the caller's own."""

    value: Any = None
    raised: BaseException | None = None


def _result(call: ToolCall, outcome: _Outcome, started: float, timeout: float) -> ToolResult:
    if outcome.raised is not None:
        return _failure(call, outcome.raised, started, timeout)
    return _success(call, outcome.value, started)


def call_tool(tool: Tool, call: ToolCall) -> ToolResult:
    """Run one checked call and wait for it; never raises for what the tool did.

    Example:
        >>> from ace.tools import calculator
        >>> call_tool(calculator, ToolCall(id="c1", name="calculator", args={"expression": "2 * 21"})).text
        '42'
    """
    started = time.perf_counter()
    return _result(call, _in_thread(_bound(tool, call), tool.timeout), started, tool.timeout)


async def acall_tool(tool: Tool, call: ToolCall) -> ToolResult:
    """`call_tool` for async callers: async tools run on the loop, sync ones in a thread, so that nothing stalls."""
    started = time.perf_counter()
    body = _bound(tool, call)
    run = _on_loop if tool.is_async else _in_thread_async
    return _result(call, await run(body, tool.timeout), started, tool.timeout)


async def _settled(body: Callable[[], Any]) -> _Outcome:
    """Run an async body to its end."""
    try:
        return _Outcome(await _drained(body()))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # border to a foreign tool: not even SystemExit may tear the loop down
        return _Outcome(raised=error)


async def _on_loop(body: Callable[[], Any], timeout: float) -> _Outcome:
    task = asyncio.ensure_future(_settled(body))
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        task.cancel()  # the run was cancelled: so is its tool
        raise
    if not done:
        task.cancel()
        return _Outcome(raised=_TimedOut())
    if task.cancelled():
        return _Outcome(raised=asyncio.CancelledError())  # the tool cancelled itself
    return task.result()


async def _drained(value: Any) -> Any:
    """Wait for what can be waited for and read out iterators, inside the tool's own time limit."""
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        items: list[Any] = []
        async for item in cast(AsyncIterator[Any], value):
            items.append(item)
            if len(items) >= MAX_ITEMS:
                break
        return items
    return list(islice(cast(Iterator[Any], value), MAX_ITEMS)) if isinstance(value, Iterator) else value


def _start(body: Callable[[], Any], deliver: Callable[[_Outcome], None]) -> None:
    """Run `body` in a daemon thread that sees the caller's context (DSPy settings among it)."""

    def work() -> None:
        try:
            value = body()
            if inspect.isawaitable(value) or inspect.isasyncgen(value):
                value = asyncio.run(_drained(value))
            elif isinstance(value, Iterator):
                value = list(islice(cast(Iterator[Any], value), MAX_ITEMS))
            outcome = _Outcome(value)
        except BaseException as error:  # border to a foreign tool: SystemExit must not kill a thread mutely
            outcome = _Outcome(raised=error)
        deliver(outcome)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True, name="ace-tool").start()


def _in_thread(body: Callable[[], Any], timeout: float) -> _Outcome:
    box: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
    _start(body, box.put)
    try:
        return box.get(timeout=timeout)
    except queue.Empty:
        return _Outcome(raised=_TimedOut())


async def _in_thread_async(body: Callable[[], Any], timeout: float) -> _Outcome:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Outcome] = loop.create_future()

    def settle(outcome: _Outcome) -> None:
        if not future.done():  # late after a time-out or a cancellation: fenced off
            future.set_result(outcome)

    def deliver(outcome: _Outcome) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, outcome)

    _start(body, deliver)
    done, _ = await asyncio.wait({future}, timeout=timeout)
    if not done:
        future.cancel()
        return _Outcome(raised=_TimedOut())
    return future.result()
