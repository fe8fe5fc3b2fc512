"""`ToolNode`: makes the calls in the state."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, cast

import anyio
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from ace.core import CancellationToken, ToolContext, ToolError
from ace.core.context import Tally
from ace.graph.nodes.base import Node, Visit
from ace.graph.session import Stopped
from ace.graph.state import needed
from ace.tasks import ReasoningStep, StepError
from ace.tools import Tool, ToolCall, ToolRegistry, ToolResult, acall_tool, call_tools, check_call


@dataclass(eq=False, repr=False)
class ToolNode(Node):
    """Makes the calls of ``tool_calls``, with validation and time limits, and clears the field.

    Successive calls of tools that only read run in parallel. A malformed call fails the node before anything was called;
    a call that needs approval stops the graph first (answers: ``"approve"``, ``"deny"``). When the process dies inside the
    node, or the graph is cancelled there, a resume makes all of its calls again: tools with effects belong in a
    `ReActAgentNode` with a ``run_store``, which makes none twice.

    Args:
        tools: Functions, `Tool`s or `TypedTool`s.
        calls: The field with the calls: `ToolCall`s, or ``{"id", "name", "args"}``.
        results: Field for the `ToolResult`s, in the order of the calls.
        scratchpad: Field for the steps.
        on_error: ``append``: a tool that failed is a result like any other. ``fail``: it fails the node.

    Examples:
        >>> from ace.tools import calculator
        >>> call = {"id": "c1", "name": "calculator", "args": {"expression": "6 * 7"}}
        >>> ToolNode([calculator]).invoke({"tool_calls": [call]})["tool_results"][0].text
        '42'
    """

    tools: Iterable[Any] | ToolRegistry
    _: KW_ONLY
    calls: str = "tool_calls"
    results: str = "tool_results"
    scratchpad: str = "scratchpad"
    on_error: Literal["append", "fail"] = "append"

    def __post_init__(self) -> None:
        if self.on_error not in ("append", "fail"):
            raise ValueError(f"on_error is {self.on_error!r}, expected 'append' or 'fail'")
        self.registry = self.tools if isinstance(self.tools, ToolRegistry) else ToolRegistry(self.tools)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """See the class."""
        calls, context = self._calls(input), _context(config)
        results = self._denied(calls)
        for group in self._groups([call for call in calls if call.id not in results]):
            _stop_if_cancelled(context)
            made = call_tools([(self.registry.get(call.name), call, _for_call(context, call)) for call in group])
            results |= {result.tool_call_id: result for result in made}
            _stop_if_cancelled(context)
        return self._update(calls, results)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """See the class; async tools run on the event loop."""
        calls, context = self._calls(input), _context(config)
        results = self._denied(calls)

        async def make(call: ToolCall) -> None:
            results[call.id] = await acall_tool(self.registry.get(call.name), call, _for_call(context, call))

        for group in self._groups([call for call in calls if call.id not in results]):
            _stop_if_cancelled(context)
            async with anyio.create_task_group() as tasks:
                for call in group:
                    tasks.start_soon(make, call)
            _stop_if_cancelled(context)
        return self._update(calls, results)

    def _calls(self, state: Any) -> list[ToolCall]:
        """The calls, checked.

        Raises:
            InvalidModelAction: A tool is unknown, or arguments do not fit.
            ValueError: Two calls have one id.
        """
        found: list[ToolCall] = []
        for number, given in enumerate(needed(state, self.calls, "ToolNode")):
            raw = given if isinstance(given, ToolCall) else cast("dict[str, Any]", given)
            call_id = str(raw.id if isinstance(raw, ToolCall) else raw.get("id") or f"call-{number}")
            name, args = (raw.name, raw.args) if isinstance(raw, ToolCall) else (raw.get("name"), raw.get("args", {}))
            found.append(check_call(self.registry, name, args, call_id))
        if len({call.id for call in found}) < len(found):
            raise ValueError(f"{self.calls!r} has two calls of one id: {[call.id for call in found]}")
        return found

    def _denied(self, calls: list[ToolCall]) -> dict[str, ToolResult]:
        """Ask for what needs approval, before anything is called."""
        waiting = [call for call in calls if self.registry.get(call.name).requires_approval]
        if not waiting:
            return {}
        question = {
            "kind": "approval",
            "reason": f"{', '.join(dict.fromkeys(repr(call.name) for call in waiting))} needs approval",
            "calls": [call.model_dump(mode="json") for call in waiting],
            "choices": ["approve", "deny"],
        }
        problem = ""
        while (answer := interrupt({**question, "problem": problem})) not in ("approve", "deny"):
            problem = f"the answer is {answer!r:.100}, expected 'approve' or 'deny'"
        if answer == "approve":
            return {}
        text = "The operator did not approve this call."
        return {
            call.id: ToolResult(tool_call_id=call.id, outcome="denied", text=text, error_kind="permission_denied")
            for call in waiting
        }

    def _groups(self, calls: list[ToolCall]) -> list[list[ToolCall]]:
        """Groups that may run in parallel: successive calls of tools that only read."""
        groups: list[list[ToolCall]] = []
        reading = False
        for call in calls:
            reads = self._tool(call).read_only
            if groups and reads and reading:
                groups[-1].append(call)
            else:
                groups.append([call])
            reading = reads
        return groups

    def _tool(self, call: ToolCall) -> Tool:
        return self.registry.get(call.name)

    def _update(self, calls: list[ToolCall], results: dict[str, ToolResult]) -> dict[str, Any]:
        ordered = [results[call.id].model_copy(update={"content": None}) for call in calls]
        failed = next((result for result in ordered if result.outcome == "failed"), None)
        if failed is not None and self.on_error == "fail":
            raise ToolError(failed.error_kind or "exception", failed.message or failed.text, failed.text)
        return {
            self.results: ordered,
            self.scratchpad: [self._step(call, result) for call, result in zip(calls, ordered, strict=True)],
            self.calls: [],
        }

    def _step(self, call: ToolCall, result: ToolResult) -> ReasoningStep:
        good = result.outcome == "success"
        return ReasoningStep(
            iteration=1,
            tool_call_id=call.id,
            tool_name=call.name,
            tool_args=call.args,
            outcome=result.outcome,
            observation=result.text,
            changes_state=not self._tool(call).read_only,
            executed=result.outcome != "denied",
            error=None if good else StepError(kind=result.error_kind or "exception", message=result.text),
            seconds=result.seconds,
            timestamp=time.time(),
        )


def _stop_if_cancelled(context: ToolContext) -> None:
    """Stop in a cancelled graph: no part of the node is saved, and a resume makes all of its calls again."""
    if context.cancellation.cancelled:
        raise Stopped(context.cancellation.reason)


def _for_call(context: ToolContext, call: ToolCall) -> ToolContext:
    return replace(context, tool_call_id=call.id, tally=Tally())


def _context(config: RunnableConfig | None) -> ToolContext:
    visit = Visit(config)
    token = visit.session.cancellation if visit.session is not None else CancellationToken()
    return ToolContext(run_id=visit.run_id(), correlation_id=visit.thread_id, step_id=visit.task_id, cancellation=token)
