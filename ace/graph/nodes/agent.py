"""`ReActAgentNode`: a whole agent as one node."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from ace.agent import Approve, ResumeDecision
from ace.agent.output import build_output, error_of
from ace.agent.record import DEFAULT_MAX_ITERS
from ace.agent.states import Acting, Interrupted
from ace.agent.streaming import AsyncRunStream, RunStream
from ace.core import Event, ToolError, current_context, value_to_text
from ace.graph.errors import GraphError
from ace.graph.messages import AnswerTokens, as_messages, instructions_of, last_message
from ace.graph.nodes.base import Answers, Node, Visit, ask, writer
from ace.graph.session import Stopped
from ace.graph.state import Message, needed, read
from ace.react.program import without_history
from ace.tasks import RequestedCall, TaskInput, TaskOutput, answer_field
from ace.tools import ToolCall, ToolRegistry, ToolResult

EXHAUSTED = ("max_iterations", "budget_exceeded", "no_progress")
"""Termination reasons that do not fail the node: the graph decides what to do about them."""


@dataclass(eq=False, repr=False)
class ReActAgentNode(Node):
    """Runs an agent on a field of the state, or on its messages.

    Where ``user_input`` is not set and the state has ``messages`` (a `MessagesState`), the agent answers the last one of the
    user's, with the others as its history and system messages as instructions; its calls, their results and the answer are
    added to them. LangGraph's ``stream_mode="messages"`` then has the answer's tokens as they come, ``"custom"`` every event
    of the agent as a dict.

    The agent may take `max_iters` decisions, and never more than the graph has steps left. An agent with a `run_store` goes
    on where it was when the process died, with the decisions that it had left; a call that needs approval stops the graph,
    and the answer that `Workflow.resume` brings (``"approve"``, ``"deny"``, ``{"decision": "approve", "args": {...}}``,
    ``{"decision": "deny", "reason": "..."}``) goes to the agent.

    Args:
        agent: A `ReActGenerator`, or anything with ``run(TaskInput) -> TaskOutput``.
        inputs: Field of the agent's signature to field of the state; its only field reads ``user_input`` by default, and
            several read the state's fields of the same names.
        output: Field for the answer.
        scratchpad: Field for the steps.
        iterations: Field for the number of decisions.
        run: Field for the whole `TaskOutput`.
        messages: Field with LangChain's messages.
        domain: Of the task, see `TaskInput`.
        tenant: Of the task.
        max_iters: The node's own limit; the agent's by default.
        raise_on_failure: Whether a run that broke off without any answer fails the node; one that used up its decisions or
            its budget does not.
        calls: Field for the calls of each decision, where a `ToolNode` is to make them and to come back here, as
            ``add_conditional_edges("agent", lambda state: "tools" if state["tool_calls"] else END)`` has it; empty: the
            agent makes them itself.
        results: Field with the results of those calls.

    Examples:
        >>> from ace import ReActGenerator
        >>> from ace.testing import ScriptedLM, decision
        >>> agent = ReActGenerator(tools=[], lm=ScriptedLM([decision("submit", answer="42")]))
        >>> update = ReActAgentNode(agent).invoke({"user_input": "What is 6 times 7?"})
        >>> update["final_output"], update["iterations"]
        ('42', 1)
    """

    agent: Any
    _: KW_ONLY
    inputs: Mapping[str, str] | None = None
    output: str = "final_output"
    scratchpad: str = "scratchpad"
    iterations: str = "iterations"
    run: str = "run"
    messages: str = "messages"
    domain: str | None = None
    tenant: str | None = None
    max_iters: int | None = None
    raise_on_failure: bool = True
    calls: str = ""
    results: str = "tool_results"

    def __post_init__(self) -> None:
        if not callable(getattr(self.agent, "run", None)):
            raise TypeError(f"agent is {self.agent!r:.200}, expected a ReActGenerator, or something with run(task)")
        if self.max_iters is not None and self.max_iters < 1:
            raise ValueError(f"max_iters must be at least 1, got {self.max_iters!r}")
        if self.calls and not hasattr(self.agent, "bound_to"):
            raise TypeError(f"calls={self.calls!r} needs a ReActGenerator, got {type(self.agent).__name__}")
        self.fields = dict(self.inputs) if self.inputs is not None else _inputs_of(self.agent)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """See the class."""
        attempt = _Attempt(self, input, config)
        for decision in attempt.parts():
            if not attempt.streams:
                attempt.output = attempt.agent.run(attempt.task)
                continue
            begun = attempt.begun(decision, attempt.agent.stream, attempt.agent.stream_resume)
            with cast("RunStream[Event, TaskOutput]", begun) as stream:
                for event in stream:
                    attempt.send(event)
                    if (piece := attempt.piece(event)) is not None:
                        attempt.tokens.send(piece) if piece else attempt.tokens.end()
                attempt.output = stream.output
        return self._update(attempt)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """See the class; the agent runs on the event loop."""
        attempt = _Attempt(self, input, config)
        for decision in attempt.parts():
            if not attempt.streams:
                attempt.output = await attempt.agent.arun(attempt.task)
                continue
            begun = attempt.begun(decision, attempt.agent.astream, attempt.agent.astream_resume)
            async with cast("AsyncRunStream[Event, TaskOutput]", begun) as stream:
                async for event in stream:
                    attempt.send(event)
                    if (piece := attempt.piece(event)) is not None:
                        await (attempt.tokens.asend(piece) if piece else attempt.tokens.aend())
                attempt.output = stream.output
        return self._update(attempt)

    def _update(self, attempt: _Attempt) -> dict[str, Any]:
        output = attempt.output
        assert output is not None
        if attempt.hands_over:
            return {self.calls: attempt.handed_over(), self.run: output}
        failed = output.error is not None and output.termination_reason not in EXHAUSTED
        if self.raise_on_failure and output.answer is None and failed:
            raise error_of(output)
        told = bool(self.calls)  # by the `ToolNode`
        return {
            self.scratchpad: [] if told else list(output.structured_trace),
            self.iterations: output.usage.iterations,
            self.output: output.answer,
            self.run: output,
            **attempt.messages(),
        }

    def task_of(self, state: Any, node: str) -> tuple[TaskInput, bool]:
        """Return the task without its limits, and whether it is out of the state's messages."""
        source = next(iter(self.fields.values()))
        told = read(state, self.messages, ())
        found = told if self.inputs is None and len(self.fields) == 1 else None
        given: dict[str, Any] = {"domain": self.domain, "tenant": self.tenant}
        if not found or read(state, source) not in (None, ""):
            where = f"the agent's node {node!r}"
            inputs = {name: needed(state, field, where) for name, field in self.fields.items()}
            return TaskInput(inputs=inputs, instructions=instructions_of(told), **given), False
        asked = next(iter(self.fields))
        text, history = last_message(found, asked, _answer_of(self.agent))
        return TaskInput(inputs={asked: text}, history=history, instructions=instructions_of(found), **given), True


class _Attempt:
    """One visit: the parts of a run between its pauses."""

    def __init__(self, node: ReActAgentNode, state: Any, config: RunnableConfig | None) -> None:
        self.node = node
        self.visit = Visit(config)
        self.output: TaskOutput | None = None
        self.streams = hasattr(node.agent, "stream") and hasattr(node.agent, "astream_resume")
        task, self._in_messages = node.task_of(state, self.visit.node)
        self.agent, self._handed = node.agent, ""
        self.turn = self.visit.session.turn if self.visit.session is not None else ""
        if node.calls:
            self._results = {result.tool_call_id: result for result in read(state, node.results, [])}
            self.agent = _handing_over(node.agent, self._results, self.turn)
            self._handed = self._waiting_run(read(state, node.run))
        self._own_kind = any(isinstance(message, Message) for message in read(state, node.messages, ()))
        self.tokens = AnswerTokens(config, value_to_text(task.inputs), type(node.agent).__name__)
        self._write = writer()
        limits = (node.max_iters, getattr(node.agent, "max_iters", None), DEFAULT_MAX_ITERS)
        limit = next(limit for limit in limits if limit is not None)
        left = self.visit.remaining_steps
        self.task = task.model_copy(
            update={
                "task_id": read(state, "task_id") or self.visit.thread_id or self.visit.task_id or "graph",
                "max_iters": limit if left is None else min(limit, left),
            }
        )
        self.run_id = self._open_run()
        self._answers = Answers(config, self.run_id)
        # a visit brings one new answer, to what the run asked last; a run that is not there has asked nothing, and an answer
        # about the calls of another one is not used
        self._known = max(0, self._answers.count - self._stored())

    @property
    def hands_over(self) -> bool:
        """Whether calls wait for a `ToolNode`."""
        request = self.output.request if self.output is not None else None
        return bool(self.node.calls) and request is not None and request.kind == "approval"

    def parts(self) -> Generator[ResumeDecision | None]:
        """Yield the decision to begin each part of the run with, until the run is over.

        Raises:
            Stopped: The graph was cancelled.
        """
        while True:
            decision = self._decision()
            if self.hands_over:
                return  # what it asked for has not come
            yield decision
            output = self.output
            if output is None or output.termination_reason != "interrupted" or self.hands_over:
                store = self.node.agent.run_store if self._stored() else None
                self._answers.ask_from(store.load(self.run_id).decisions if store is not None else 0)
                return
            if output.request is not None and not self._stored():
                raise GraphError(
                    f"the agent waits ({output.request.reason}) and gets no answer: compile the graph with a checkpointer"
                )
            if output.request is not None and output.request.raised is not None:
                raise output.request.raised  # a tool called `interrupt`
            if output.request is None:
                raise Stopped(f"the run was stopped: {output.error.message if output.error else 'cancelled'}")

    def begun(self, decision: ResumeDecision | None, stream: Callable[..., Any], resume: Callable[..., Any]) -> Any:
        """Begin the next part of the run with the agent's own method: a stream."""
        if self._stored():
            return resume(self.run_id, decision, cancellation=self.visit.cancellation)
        named = {"run_id": self.run_id} if self.run_id else {}
        return stream(self.task, cancellation=self.visit.cancellation, **named)

    def send(self, event: Event) -> None:
        """Send the agent's event as an event of the graph, and as LangGraph's stream modes have it."""
        self._write({"node": self.visit.node, **event.model_dump(mode="json")})
        if (session := self.visit.session) is not None:
            session.emit("agent_event", node=self.visit.node, task_id=self.visit.task_id, agent=event.bare())

    def piece(self, event: Event) -> str | None:
        """Return what an event adds to the answer; empty where the answer ends, None where nothing changes."""
        if event.kind == "model_request_delta":
            return event.data.get("answer")
        return ""

    def messages(self) -> dict[str, Any]:
        """Return the update of the state's messages, where the task came out of them."""
        if not self._in_messages or self.output is None:
            return {}
        made: list[Any] = as_messages(self.output, self.tokens.sent)
        if self._own_kind:
            made = [Message(role="assistant", content=value_to_text(made[-1].content))]
        return {self.node.messages: made}

    def _waiting_run(self, run: TaskOutput | None) -> str:
        """Find the run that handed calls over since the present input, and whose results have come."""
        store = self.node.agent.run_store
        if run is None or run.request is None or not store.has(run.run_id):
            return ""
        came = not {self._handed_id(run.run_id, call) for call in run.request.calls}.isdisjoint(self._results)
        return run.run_id if came and store.load(run.run_id).state.kind != "failed" else ""

    def _handed_id(self, run_id: str, call: RequestedCall) -> str:
        return _id_in_state(self.turn, run_id, call.tool_call_id)

    def handed_over(self) -> list[ToolCall]:
        """Return the calls that wait for a `ToolNode`."""
        assert self.output is not None
        calls, run_id = self.output.request.calls if self.output.request is not None else (), self.output.run_id
        return [ToolCall(id=self._handed_id(run_id, call), name=call.tool_name, args=call.tool_args) for call in calls]

    def _open_run(self) -> str:
        """Find the run of this visit; one that has failed is over, and a retry or a resume begins another."""
        if not self.streams:
            return ""
        if self._handed:
            return self._handed
        store, attempt = self.node.agent.run_store, 0
        while (
            (run_id := self.visit.run_id(attempt)) and store.has(run_id) and store.load(run_id).state.kind == "failed"
        ):
            attempt += 1
        return run_id

    def _stored(self) -> bool:
        return bool(self.run_id) and self.node.agent.run_store.has(self.run_id)

    def _decision(self) -> ResumeDecision | None:
        """Return the decision for a waiting run; stop the graph until one is given."""
        if not self.streams or not self._stored():
            return None
        stored = self.node.agent.run_store.load(self.run_id)
        request = getattr(stored.state, "request", None)
        state = stored.state.then if isinstance(stored.state, Interrupted) else stored.state
        for call in state.calls if isinstance(state, Acting) else ():
            if call.asked is not None and getattr(request, "kind", "") != "unknown_effect":  # that asks anew
                self._answers.waits(call.call.id, call.asked)
        if request is None:
            return None
        if self._handed:  # the tools of this agent give the results that have come
            if {self._handed_id(stored.run_id, call) for call in request.calls}.isdisjoint(self._results):
                self.output = build_output(stored, stored.steps, stored.usage)
            return dict.fromkeys((call.tool_call_id for call in request.calls), Approve())
        if request.kind == "paused":
            taken = max(0, self._answers.count - stored.decisions)
            return {call.tool_call_id: Approve(answers=taken) for call in request.calls}
        question = {"kind": request.kind, "reason": request.reason, "run_id": stored.run_id}
        question["calls"] = [call.model_dump(mode="json") for call in request.calls]
        question["choices"] = ["approve", "deny"]
        # LangGraph gives the answers of this visit again, from the first: skip those that the run already has
        self._known = max(stored.decisions, self._known)
        self._answers.ask_from(self._known)
        names = {call.tool_call_id: call.tool_name for call in request.calls}
        decision, answers = ask(question, names, self.node.agent.registry)
        self._known += answers
        taken = self._known - stored.decisions
        return {call_id: replace(one, answers=taken) for call_id, one in decision.items()}


def _id_in_state(turn: str, run_id: str, call_id: str) -> str:
    """Return the id of a call in the state: no other input's run has a call of this name."""
    return f"{turn}/{run_id}/{call_id}"


def _handing_over(agent: Any, results: Mapping[str, ToolResult], turn: str) -> Any:
    """Return the agent with tools that wait for a person before each call, and then give the results that are there."""

    def told(**_: Any) -> str:
        context = current_context()
        result = results.get(_id_in_state(turn, context.run_id, context.tool_call_id)) if context is not None else None
        if result is None:
            raise ToolError("unavailable", "the graph brought no result of this call")
        if result.outcome != "success":
            raise ToolError(result.error_kind or "exception", result.message or result.text, result.text)
        return result.text

    waiting = {"requires_approval": True, "isolation": "thread", "output": None}
    tools = (replace(tool.bind(told), **waiting) for tool in agent.registry)
    return agent.bound_to(ToolRegistry(tools), playbook=agent.playbook)


def _inputs_of(agent: Any) -> dict[str, str]:
    names: list[str] = []
    with suppress(AttributeError):
        names = list(without_history(agent.signature).input_fields)
    if len(names) <= 1:
        return {names[0] if names else "task": "user_input"}
    return {name: name for name in names}


def _answer_of(agent: Any) -> str:
    """Name the output that is the answer."""
    with suppress(AttributeError):
        return answer_field(agent.signature.output_fields)
    return "answer"
