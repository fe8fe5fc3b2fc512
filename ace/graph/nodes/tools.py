"""`ToolNode`: makes the calls in the state."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from itertools import groupby
from typing import Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.func import task

from ace.agent import Deny
from ace.core import Pause, ToolContext, ToolError, UsageLimits
from ace.graph.events import GraphEventKind
from ace.graph.jsonl import TASK
from ace.graph.nodes.base import Node, Visit, ask, writer
from ace.graph.session import Stopped
from ace.graph.state import needed
from ace.tasks import ReasoningStep, StepError
from ace.tools import Tool, ToolCall, ToolRegistry, ToolResult, acall_tool, call_tool, call_tools, check_call


@dataclass(eq=False, repr=False)
class ToolNode(Node):
    """Makes the calls of ``tool_calls``, with validation and time limits, and clears the field.

    Successive calls of tools that only read run in parallel. A malformed call fails the node before anything was called;
    a call that needs approval stops the graph first, and takes the answers that a `ReActAgentNode` does; `interrupt` inside
    a tool stops it as well. Each call is a task of LangGraph's: with a checkpointer, a resume makes the calls that have not
    ended, and no other one again; a `RetryPolicy` begins the node anew, with all its calls. Observers and streams get
    ``tool_call_started`` and ``tool_call_completed`` or ``tool_call_error``.

    Args:
        tools: Functions, `Tool`s or `TypedTool`s.
        calls: The field with the calls: `ToolCall`s, or ``{"id", "name", "args"}``.
        results: Field for the `ToolResult`s, in the order of the calls.
        scratchpad: Field for the steps.
        on_error: ``append``: a tool that failed is a result like any other. ``fail``: it fails the node, nothing after it is
            called, and a resume makes its call again.

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
        ours = _Calls(config, self.on_error == "fail")
        calls, results = self._approved(self._calls(input))
        for group in self._groups([call for call in calls if call.id not in results]):
            ours.stop_if_cancelled()
            if ours.visit.in_graph:
                started = [_call(self.registry.get(call.name), call, ours) for call in group]
                made = [one.result() for one in started]
            else:
                found = call_tools([(self.registry.get(call.name), call, ours.context(call)) for call in group])
                made = [ours.kept(result) for result in found]
            results |= {result.tool_call_id: result for result in map(ToolResult.model_validate, made)}
            ours.stop_if_cancelled()
        return self._update(calls, results)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """See the class; async tools run on the event loop."""
        ours = _Calls(config, self.on_error == "fail")
        if not ours.visit.in_graph:
            return await asyncio.to_thread(self.invoke, input, config)
        calls, results = self._approved(self._calls(input))
        for group in self._groups([call for call in calls if call.id not in results]):
            ours.stop_if_cancelled()
            made = await asyncio.gather(*(_acall(self.registry.get(call.name), call, ours) for call in group))
            results |= {result.tool_call_id: result for result in map(ToolResult.model_validate, made)}
            ours.stop_if_cancelled()
        return self._update(calls, results)

    def _calls(self, state: Any) -> list[ToolCall]:
        """Check the calls and return them.

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

    def _approved(self, calls: list[ToolCall]) -> tuple[list[ToolCall], dict[str, ToolResult]]:
        """Ask for what needs approval, before anything is called: the calls, and the results of those that are denied."""
        waiting = [call for call in calls if self.registry.get(call.name).requires_approval]
        if not waiting:
            return calls, {}
        question = {
            "kind": "approval",
            "reason": f"{', '.join(dict.fromkeys(repr(call.name) for call in waiting))} needs approval",
            "calls": [call.model_dump(mode="json") for call in waiting],
            "choices": ["approve", "deny"],
        }
        decided, _ = ask(question, {call.id: call.name for call in waiting}, self.registry)
        denied: dict[str, ToolResult] = {}
        for number, call in enumerate(calls):
            decision = decided.get(call.id)
            if isinstance(decision, Deny):
                text = decision.reason or "The operator did not approve this call."
                denied[call.id] = ToolResult(
                    tool_call_id=call.id, outcome="denied", text=text, error_kind="permission_denied"
                )
            elif decision is not None and decision.args is not None:
                calls[number] = check_call(self.registry, call.name, decision.args, call.id)
        return calls, denied

    def _groups(self, calls: list[ToolCall]) -> list[list[ToolCall]]:
        """Group the calls that may run in parallel: successive calls of tools that only read."""
        groups: list[list[ToolCall]] = []
        for reads, successive in groupby(calls, lambda call: self.registry.get(call.name).read_only):
            found = [*successive]
            groups += [found] if reads else [[call] for call in found]
        return groups

    def _update(self, calls: list[ToolCall], results: dict[str, ToolResult]) -> dict[str, Any]:
        ordered = [results[call.id] for call in calls]
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
            changes_state=not self.registry.get(call.name).read_only,
            executed=result.outcome != "denied",
            error=None if good else StepError(kind=result.error_kind or "exception", message=result.text),
            seconds=result.seconds,
            timestamp=time.time(),
        )


class _Calls:
    """One visit to a `ToolNode`: what its calls may know, and who hears of them."""

    def __init__(self, config: RunnableConfig | None, fail: bool) -> None:
        self.visit = Visit(config)
        self._fail = fail
        self._run_id = self.visit.run_id() or uuid.uuid4().hex  # where nothing is saved, no visit goes on

    def stop_if_cancelled(self) -> None:
        """Stop in a cancelled graph; a resume makes the calls that have not ended."""
        if self.visit.cancellation.cancelled:
            raise Stopped(self.visit.cancellation.reason)

    def context(self, call: ToolCall) -> ToolContext:
        """Say who makes a call."""
        return ToolContext(
            run_id=self._run_id,
            correlation_id=self.visit.thread_id,
            step_id=self.visit.task_id,
            tool_call_id=call.id,
            cancellation=self.visit.cancellation,
            remaining=UsageLimits(iterations=self.visit.remaining_steps),
        )

    def kept(self, result: ToolResult) -> dict[str, Any]:
        """Return a result as any saver keeps it.

        Raises:
            ToolError: The tool failed, and that is to fail the node; LangGraph then keeps nothing of the call.
        """
        if result.outcome == "failed" and self._fail:
            raise ToolError(result.error_kind or "exception", result.message or result.text, result.text)
        return result.model_dump(mode="json", exclude={"content", "raised"})

    def report(self, call: ToolCall, result: ToolResult) -> dict[str, Any]:
        """Tell observers and streams of a call's result, and return it as any saver keeps it.

        Raises:
            BaseException: The tool's `Pause`, as an `interrupt` in it; or `Stopped`: nobody waited for the result.
        """
        paused = isinstance(result.raised, Pause)
        kind = "tool_call_completed" if result.outcome == "success" else "tool_call_error"
        self.tell(kind, call, outcome="interrupted" if paused else result.outcome)
        if paused:
            raise result.raised
        if result.outcome == "interrupted":
            self.stop_if_cancelled()
        return self.kept(result)

    def tell(self, kind: GraphEventKind, call: ToolCall, **data: Any) -> None:
        """Tell observers and streams of a call."""
        data = {"tool_call_id": call.id, "tool": call.name, **data}
        writer()({"node": self.visit.node, "kind": kind, "data": data})
        if self.visit.session is not None:
            self.visit.session.emit(kind, node=self.visit.node, task_id=self.visit.task_id, data=data)


@task(name=f"{TASK}call")
def _call(tool: Tool, call: ToolCall, made: _Calls) -> dict[str, Any]:
    """Make a call; LangGraph keeps what comes back, so that a resume does not make it again."""
    made.tell("tool_call_started", call)
    return made.report(call, call_tool(tool, call, made.context(call)))


@task(name=f"{TASK}call")
async def _acall(tool: Tool, call: ToolCall, made: _Calls) -> dict[str, Any]:
    """Make a call as `_call` does, on the event loop."""
    made.tell("tool_call_started", call)
    return made.report(call, await acall_tool(tool, call, made.context(call)))
