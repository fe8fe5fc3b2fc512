"""Tool calls as DSPy's own: callbacks and tracers that watch `dspy.Tool` see each call once."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import FunctionType
from typing import Any, cast

import dspy
from dspy.utils import callback as dspy_callback

from ace.core import ToolContext, describe_error
from ace.react.spans import Span, span, traced
from ace.tools import Tool, ToolCall, ToolResult, acall_tool, call_tools
from ace.tools.threads import ThreadPool

_SETTINGS: Any = dspy.settings
_OF_METHODS = frozenset({"self", "instance"})
"""Arguments that DSPy's tool cannot be given by these names: they are its own."""
_log = logging.getLogger(__name__)
_DSPYS = cast(Any, dspy_callback).with_callbacks.__code__.co_filename
_WATCHED = ThreadPool("ace-watched-call")
"""Where calls side by side are told of. Each waits for its tool, so that it must not take a thread from the tools."""


class ToolCallFailed(Exception):
    """What a tracer is told of a call that failed: `ToolCallFailed("The shop is closed.")`."""


class SeenTools:
    """Runs tool calls, each inside `dspy.Tool.__call__` when somebody listens: `SeenTools().call([(look_up, call, None)])`.

    OpenInference and other instrumentations replace `dspy.Tool.__call__`, MLflow and `dspy.streamify` are callbacks of it:
    so the call really has to be made.
    """

    def call(self, items: Sequence[tuple[Tool, ToolCall, ToolContext | None]]) -> list[ToolResult]:
        """Make calls as `call_tools` does, seen; several calls run side by side, each told of in a thread of its own."""
        if not listened_to() or any(_OF_METHODS & call.args.keys() for _, call, _ in items):
            return call_tools(items)
        if len(items) == 1:
            return [self._alone(*items[0])]
        jobs = [
            _WATCHED.submit(partial(contextvars.copy_context().run, self._alone, *item), extra=True) for item in items
        ]
        return [job.result() for job in jobs if job is not None]  # an extra job always gets a thread

    def _alone(self, tool: Tool, call: ToolCall, context: ToolContext | None) -> ToolResult:
        results: list[ToolResult] = []

        def body(**_kwargs: Any) -> Any:
            results.extend(call_tools([(tool, call, context)]))
            return _value(results[0])

        try:
            with suppress(ToolCallFailed), _span(tool, call) as open_span:
                open_span.tell(tool__call__arguments=call.args)
                # with nobody but our own span there is no need for DSPy's tool around it
                value = self._with(tool, body)(**call.args) if _SETTINGS.callbacks or replaced() else body()
                open_span.tell(tool__call__result=value)
        except Exception as error:  # a border: what watches a call must not end the run
            _blind(error)
        return results[0] if results else call_tools([(tool, call, context)])[0]

    async def acall(self, tool: Tool, call: ToolCall, context: ToolContext | None) -> ToolResult:
        """Make a call as `acall_tool` does, seen."""
        if not listened_to() or _OF_METHODS & call.args.keys():
            return await acall_tool(tool, call, context)
        results: list[ToolResult] = []

        async def body(**_kwargs: Any) -> Any:
            results.append(await acall_tool(tool, call, context))
            return _value(results[0])

        try:
            with suppress(ToolCallFailed), _span(tool, call) as open_span:
                open_span.tell(tool__call__arguments=call.args)
                value = await self._with(tool, body).acall(**call.args)
                open_span.tell(tool__call__result=value)
        except Exception as error:  # a border: what watches a call must not end the run
            _blind(error)
        return results[0] if results else await acall_tool(tool, call, context)

    def _with(self, tool: Tool, body: Callable[..., Any]) -> Any:
        """Return the tool as DSPy's, with a body for one call."""
        # without types of its own it takes the arguments as they are: they were checked already
        return dspy.Tool(body, name=tool.name, desc=tool.description, args={}, arg_types={})


def _blind(error: Exception) -> None:
    _log.warning("a tracer failed on a tool call, which is not affected: %s", describe_error(error))


def listened_to() -> bool:
    """Check whether a callback is configured, spans are wanted, or `dspy.Tool.__call__` was replaced by a tracer's."""
    return bool(_SETTINGS.callbacks) or replaced() or traced()


def _span(tool: Tool, call: ToolCall) -> AbstractContextManager[Span]:
    """Open a span of our own for a call, unless another tracer makes one."""
    callbacks = _SETTINGS.callbacks
    if replaced() or (callbacks and any(type(callback).__module__.startswith("mlflow") for callback in callbacks)):
        return nullcontext(Span())
    return span("execute_tool", tool.name, tool__name=tool.name, tool__type="function", tool__call__id=call.id)


def replaced() -> bool:
    """Check whether a tracer has put a function of its own in the place of `dspy.Tool.__call__`."""
    method = vars(dspy.Tool)["__call__"]
    # by the very type: a tracer's wrapper passes for a function
    return type(method) is not FunctionType or method.__code__.co_filename != _DSPYS


def _value(result: ToolResult) -> Any:
    if result.outcome != "success":
        raise ToolCallFailed(result.text)
    return result.content
