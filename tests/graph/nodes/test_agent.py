"""`ReActAgentNode`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict

import dspy
import pytest
from graph.graphs import LookTwice, look, one, paying
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from react.test_native import NativeLM

from ace import Policy, ReActGenerator, graph, tool
from ace.agent import CallTool, Done
from ace.core import ToolError
from ace.graph import JsonlCheckpointer, NodeFailed, WorkflowInterrupted, append
from ace.graph.nodes import ReActAgentNode, ToolNode
from ace.graph.state import WorkflowState
from ace.tasks import TaskInput, TaskOutput
from ace.testing import FunctionLM, ScriptedLM, check_graph_events, decision
from ace.testing.engine import render_reply
from ace.tools import calculator


def restless() -> FunctionLM:
    """Never finishes, unless it is forced to."""
    return FunctionLM("test/restless", lambda prompt: decision("look", n=len(prompt.steps)))


def finishing(*decisions: Any) -> ScriptedLM:
    return ScriptedLM([*decisions, decision("finish", answer="done")])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_writes_its_answer_its_steps_and_its_iterations(asynchronous):
    agent = ReActGenerator(tools=[look], lm=finishing(decision("look", n=1)))
    workflow = graph.compile(one(ReActAgentNode(agent)))
    given = {"user_input": "look"}
    state = asyncio.run(workflow.ainvoke(given)) if asynchronous else workflow.invoke(given)
    assert state["final_output"] == "done"
    assert [(step.tool_name, step.observation) for step in state["scratchpad"]] == [("look", "saw 1")]
    assert state["iterations"] == 2
    assert state["run"].completed


def test_the_scratchpad_of_two_visits_is_one():
    agents = [ReActGenerator(tools=[look], lm=finishing(decision("look", n=n))) for n in (1, 2)]
    builder = one(ReActAgentNode(agents[0]), "a").add_node("b", ReActAgentNode(agents[1])).add_edge("a", "b")
    state = graph.compile(builder).invoke({"user_input": "look"})
    assert [step.observation for step in state["scratchpad"]] == ["saw 1", "saw 2"]
    assert state["iterations"] == 4


@pytest.mark.parametrize(
    ("own", "agents", "max_steps", "before", "expected"),
    [(3, None, 100, 0, 3), (None, 4, 100, 0, 4), (None, None, 100, 0, 10), (8, None, 6, 0, 6), (8, None, 6, 2, 4)],
)
def test_an_agent_takes_the_smaller_of_its_own_limit_and_what_the_graph_has_left(
    own, agents, max_steps, before, expected
):
    agent = ReActGenerator(tools=[look], lm=restless(), max_iters=agents)
    workflow = graph.compile(one(ReActAgentNode(agent, max_iters=own), before=before), max_steps=max_steps)
    state = workflow.invoke({"user_input": "look"})
    assert state["iterations"] == expected


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_limit_holds_over_a_resume(tmp_path, asynchronous):
    """Stopped for approval after two decisions, the agent has what is left of its limit, not a new one."""

    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund."""
        return f"refunded {order}"

    def reply(prompt):
        done = len(prompt.steps)
        return decision("refund", order="17") if done == 1 else decision("look", n=done)

    def workflow():
        lm = FunctionLM("test/approval", reply)
        agent = ReActGenerator(tools=[look, refund], lm=lm, run_store=tmp_path / "runs")
        saver = JsonlCheckpointer(tmp_path / "threads")
        return graph.compile(one(ReActAgentNode(agent, max_iters=9), before=1), max_steps=6, checkpointer=saver)

    def call(name, *args, **options):
        first = workflow()  # another process would build everything again
        if asynchronous:
            return asyncio.run(getattr(first, f"a{name}")(*args, **options))
        return getattr(first, name)(*args, **options)

    with pytest.raises(WorkflowInterrupted) as raised:
        call("invoke", {"user_input": "refund"}, thread_id="t")
    asked = raised.value.interrupts[0].value
    assert asked["calls"][0]["tool_args"] == {"order": "17"}
    state = call("resume", "t", "approve")
    assert state["iterations"] == 5  # min(9, 6 - 1), two of them before the stop
    assert [step.tool_name for step in state["scratchpad"]] == ["look", "refund", "look", "look", "look"]


def test_each_approval_is_used_for_its_own_call(tmp_path):
    made = []

    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund."""
        made.append(order)
        return f"refunded {order}"

    lm = finishing(*(decision("refund", order=str(n)) for n in (1, 2, 3)))
    agent = ReActGenerator(tools=[refund], lm=lm, run_store=tmp_path / "runs")
    workflow = graph.compile(one(ReActAgentNode(agent)), checkpointer=JsonlCheckpointer(tmp_path / "threads"))
    with pytest.raises(WorkflowInterrupted):
        workflow.invoke({"user_input": "refund"}, thread_id="t")
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.resume("t", "perhaps")
    assert "expected 'approve' or 'deny'" in raised.value.interrupts[0].value["problem"]
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.resume("t", {"decision": "approve", "args": {"price": 1}})
    assert "do not fit" in raised.value.interrupts[0].value["problem"]
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.resume("t", {"decision": "approve", "args": {"order": "one"}})
    assert raised.value.interrupts[0].value["calls"][0]["tool_args"] == {"order": "2"}
    with pytest.raises(WorkflowInterrupted):
        workflow.resume("t", {"decision": "deny", "reason": "too late"})
    state = workflow.resume("t", "approve")
    assert made == ["one", "3"]
    assert [step.observation for step in state["scratchpad"]] == ["refunded one", "too late", "refunded 3"]


class PaysTwo(ReActGenerator):
    """Asks for two payments at once."""

    def execute_step(self, state):
        if state.steps:
            return Done({"answer": " ".join(step.outcome for step in state.steps)})
        return CallTool((*CallTool.of("pay", to="ana").calls, *CallTool.of("pay", to="eve").calls))


def test_of_two_calls_that_wait_one_is_approved_and_the_other_denied(tmp_path):
    paid = []

    agent = PaysTwo(tools=[paying(paid)], lm=finishing(), run_store=tmp_path / "runs")
    workflow = graph.compile(one(ReActAgentNode(agent)), checkpointer=JsonlCheckpointer(tmp_path / "threads"))
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.invoke({"user_input": "pay"}, thread_id="t")
    first, second = (call["tool_call_id"] for call in raised.value.interrupts[0].value["calls"])
    for answer, problem in (
        ({first: "approve"}, "expected a decision about each of"),
        ({first: "approve", second: "perhaps"}, "expected 'approve' or 'deny'"),
        ({"decision": "approve", "args": {"to": "bob"}}, "decide by their ids"),
    ):
        with pytest.raises(WorkflowInterrupted) as raised:
            workflow.resume("t", answer)
        assert problem in raised.value.interrupts[0].value["problem"]
    denied = {"decision": "deny", "reason": "not eve"}
    state = workflow.resume("t", {first: {"decision": "approve", "args": {"to": "bob"}}, second: denied})
    assert (paid, [step.observation for step in state["scratchpad"]]) == (["bob"], ["paid bob", "not eve"])


def test_an_agent_that_nobody_can_answer_fails_with_advice(tmp_path):
    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund."""
        return ""

    agent = ReActGenerator(tools=[refund], lm=finishing(decision("refund", order="1")))
    with pytest.raises(NodeFailed, match="compile the graph with a checkpointer"):
        graph.compile(one(ReActAgentNode(agent))).invoke({"user_input": "refund"})


def test_the_stream_holds_the_agents_own_events(tmp_path):
    agent = ReActGenerator(tools=[look], lm=finishing(decision("look", n=1)))
    workflow = graph.compile(one(ReActAgentNode(agent)), checkpointer=JsonlCheckpointer(tmp_path))
    with workflow.stream({"user_input": "look"}, thread_id="t") as stream:
        events = list(stream)
    check_graph_events(events)
    kinds = [event.agent.kind for event in events if event.agent is not None]
    assert kinds[0] == "run_started"
    assert {"tool_call_started", "tool_call_completed", "model_request_delta"} <= set(kinds)
    assert kinds[-1] == "run_completed"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_parts_of_a_run_that_stopped_obey_the_grammar(tmp_path, asynchronous):
    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund."""
        return ""

    agent = ReActGenerator(tools=[refund], lm=finishing(decision("refund", order="1")))
    workflow = graph.compile(one(ReActAgentNode(agent)), checkpointer=JsonlCheckpointer(tmp_path))
    for given in ({"user_input": "refund"}, Command(resume="approve")):
        events = []

        def sync(given=given, events=events):
            with workflow.stream(given, thread_id="t") as stream:
                events.extend(stream) if isinstance(given, Command) else [events.append(e) for e in stream]

        async def later(given=given, events=events):
            async with workflow.astream(given, thread_id="t") as stream:
                async for event in stream:
                    events.append(event)

        try:
            asyncio.run(later()) if asynchronous else sync()
        except WorkflowInterrupted:
            assert not isinstance(given, Command)
        check_graph_events(events)
    assert events[-1].kind == "graph_completed"


def test_any_generator_will_do():
    class Plain:
        def run(self, task: TaskInput) -> TaskOutput:
            assert task.max_iters == 7
            return TaskOutput(
                task_id=task.task_id, run_id="r", task=task, answer=task.text[::-1], termination_reason="completed"
            )

    state = graph.compile(one(ReActAgentNode(Plain(), max_iters=7))).invoke({"user_input": "abc"})
    assert state["final_output"] == "cba"


def test_a_signature_with_several_inputs_reads_the_states_fields():
    class Shop(TypedDict, total=False):
        question: str
        conversation: str
        reply: str
        scratchpad: Annotated[list, append]

    lm = ScriptedLM([decision("finish", reply="yes")])
    agent = ReActGenerator("conversation, question -> reply", tools=[], lm=lm)
    workflow = graph.compile(one(ReActAgentNode(agent, output="reply"), schema=Shop))
    assert workflow.invoke({"question": "Open?", "conversation": ""})["reply"] == "yes"
    with pytest.raises(NodeFailed, match="'conversation', which is not set"):
        workflow.invoke({"question": "Open?"})


def test_a_run_without_an_answer_fails_its_node_unless_it_may_not():
    def agent():
        return ReActGenerator(tools=[look], lm=ScriptedLM(["gibberish"] * 9))

    with pytest.raises(NodeFailed) as raised:
        graph.compile(one(ReActAgentNode(agent()))).invoke({"user_input": "look"})
    assert type(raised.value.source).__name__ == "InvalidModelAction"
    state = graph.compile(one(ReActAgentNode(agent(), raise_on_failure=False))).invoke({"user_input": "look"})
    assert state["run"].termination_reason == "invalid_model_action"


def test_a_failed_tool_that_ends_the_run_is_named_with_what_it_told_its_operator():
    @tool
    def refund(order: str) -> str:
        """Refund."""
        raise ToolError("refused", "ticket 17", "the shop is closed")

    def node(**options):
        lm = ScriptedLM([decision("refund", order="o-1")])
        agent = ReActGenerator(tools=[refund], lm=lm, policy=Policy(tool_error="fail_fast"))
        return one(ReActAgentNode(agent, **options))

    with pytest.raises(NodeFailed, match="the shop is closed") as raised:
        graph.compile(node()).invoke({"user_input": "go"})
    error = raised.value.source
    assert (error.tool, error.error_kind, error.operator_message) == ("refund", "refused", "ticket 17")
    state = graph.compile(node(raise_on_failure=False)).invoke({"user_input": "go"})
    assert [(step.tool_name, step.outcome) for step in state["scratchpad"]] == [("refund", "failed")]


def test_a_bad_call_that_ends_the_run_is_named_with_its_arguments():
    agent = ReActGenerator(tools=[look], lm=ScriptedLM([decision("look", n="many")]), policy=Policy())
    with pytest.raises(NodeFailed) as raised:
        graph.compile(one(ReActAgentNode(agent))).invoke({"user_input": "go"})
    error = raised.value.source
    assert (error.reason, error.tool_name, error.received_args) == ("invalid_args", "look", {"n": "many"})


@pytest.mark.parametrize("retried", [False, True])
def test_an_agent_whose_model_was_away_runs_again(tmp_path, retried):
    away = [True]

    def reply(prompt):
        if away and away.pop():
            raise ConnectionError("down")
        return decision("finish", answer="up")

    agent = ReActGenerator(tools=[], lm=FunctionLM("test/away", reply), run_store=tmp_path / "runs")
    builder = StateGraph(WorkflowState)
    policy = RetryPolicy(initial_interval=0.001, retry_on=Exception) if retried else None
    builder.add_node("agent", ReActAgentNode(agent), retry_policy=policy).add_edge(START, "agent")
    workflow = graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path / "threads"))
    if retried:
        assert workflow.invoke({"user_input": "go"}, thread_id="t")["final_output"] == "up"
        return
    with pytest.raises(NodeFailed, match="ModelTransport"):
        workflow.invoke({"user_input": "go"}, thread_id="t")
    assert workflow.resume("t")["final_output"] == "up"


def test_what_is_no_agent_is_refused():
    with pytest.raises(TypeError, match="expected a ReActGenerator"):
        ReActAgentNode(lambda task: task)
    with pytest.raises(ValueError, match="at least 1"):
        ReActAgentNode(ReActGenerator(tools=[]), max_iters=0)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_follows_the_plan_of_a_lesson_inside_a_node(asynchronous):
    lm = finishing(decision("plan_look", n=1, look_n=2))
    agent = ReActGenerator(tools=[look], lm=lm, playbook=LookTwice(), plans="approved")
    workflow = graph.compile(one(ReActAgentNode(agent)))
    given = {"user_input": "look twice"}
    state = asyncio.run(workflow.ainvoke(given)) if asynchronous else workflow.invoke(given)
    assert [(step.tool_args["n"], step.plan) for step in state["scratchpad"]] == [(1, "b-1"), (2, "b-1")]
    assert state["final_output"] == "done"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_calls_can_be_handed_to_a_tool_node(tmp_path, asynchronous):
    made = []

    @tool
    def book(seat: str) -> str:
        """Book a seat."""
        made.append(seat)
        if seat == "9z":
            raise ValueError("there is no such seat")
        return f"{seat} is booked"

    lm = ScriptedLM(
        [
            render_reply(next_thought="two", tool_calls={"tool_calls": [seat("4a"), seat("4b")]}),
            decision("book", seat="9z"),
            decision("submit", answer="Two seats."),
        ]
    )
    agent = ReActGenerator(tools=[book], lm=lm, policy="forgiving")
    builder = StateGraph(WorkflowState).add_node("agent", ReActAgentNode(agent, calls="tool_calls"))
    builder.add_node("tools", ToolNode([book])).add_edge(START, "agent").add_edge("tools", "agent")
    builder.add_conditional_edges("agent", lambda state: "tools" if state["tool_calls"] else END, ["tools", END])
    flow = graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path))
    given = {"user_input": "Two seats", "tool_calls": []}
    state = asyncio.run(flow.ainvoke(given, thread_id="t")) if asynchronous else flow.invoke(given, thread_id="t")
    assert (state["final_output"], made) == ("Two seats.", ["4a", "4b", "9z"])
    assert [step.tool_args["seat"] for step in state["scratchpad"]] == ["4a", "4b", "9z"]
    assert [step.outcome for step in state["run"].structured_trace] == ["success", "success", "failed"]
    assert [info.node for info in reversed(flow.checkpointer.history("t"))][2:] == [
        "agent", "tools", "agent", "tools", "agent",
    ]  # fmt: skip


@pytest.mark.parametrize("stop", [None, "tools", "agent"])
def test_a_new_task_is_answered_with_results_of_its_own_calls(tmp_path, stop):
    """Also where the run before it was left while its calls waited, or while their results did."""

    @tool
    def book(seat: str) -> str:
        """Book a seat."""
        return f"{seat} is booked"

    replies = [decision("book", seat="4a"), decision("submit", answer="4a.")]
    again = [decision("book", seat="7c"), decision("submit", answer="7c.")]
    agent = ReActGenerator(tools=[book], lm=ScriptedLM([*(replies[:1] if stop else replies), *again]))
    builder = StateGraph(WorkflowState).add_node("agent", ReActAgentNode(agent, calls="tool_calls"))
    builder.add_node("tools", ToolNode([book])).add_edge(START, "agent").add_edge("tools", "agent")
    builder.add_conditional_edges("agent", lambda state: "tools" if state["tool_calls"] else END, ["tools", END])
    saver = JsonlCheckpointer(tmp_path)
    given = {"user_input": "Book 4a", "tool_calls": []}
    if stop is None:
        graph.compile(builder, checkpointer=saver).invoke(given, thread_id="t")
    else:
        with pytest.raises(WorkflowInterrupted):
            graph.compile(builder, checkpointer=saver, interrupt_before=["tools"]).invoke(given, thread_id="t")
        if stop == "agent":
            with pytest.raises(WorkflowInterrupted):
                graph.compile(builder, checkpointer=saver, interrupt_after=["tools"]).resume("t")
    state = graph.compile(builder, checkpointer=saver).invoke({**given, "user_input": "Book 7c"}, thread_id="t")
    assert state["final_output"] == "7c."
    assert [step.observation for step in state["run"].structured_trace] == ["7c is booked"]


def test_system_messages_are_instructions_also_where_the_task_is_a_field_of_its_own():
    lm = ScriptedLM([decision("submit", answer="Oui.")])
    agent = ReActGenerator("task -> answer", tools=[look], lm=lm)

    class Chat(MessagesState):
        user_input: str
        final_output: Any

    state = {"user_input": "Well?", "messages": [SystemMessage("Answer in French.")]}
    graph.compile(one(ReActAgentNode(agent), schema=Chat)).invoke(state)
    assert "Answer in French." in lm.prompts[0].system


@pytest.mark.parametrize("calls", ["", "tool_calls"])
def test_an_agent_whose_model_is_called_natively_works_in_a_node(calls):
    lm = NativeLM([[("calculator", {"expression": "6 * 7"})], "42"])
    agent = ReActGenerator(tools=[calculator], lm=lm, tool_calling="native")
    builder = StateGraph(WorkflowState).add_node("agent", ReActAgentNode(agent, calls=calls)).add_edge(START, "agent")
    builder.add_node("tools", ToolNode([calculator])).add_edge("tools", "agent")
    builder.add_conditional_edges("agent", lambda state: "tools" if state.get("tool_calls") else END, ["tools", END])
    state = graph.compile(builder).invoke({"user_input": "What is 6 times 7?"})
    assert state["final_output"] == "42"
    assert [(step.tool_name, step.observation) for step in state["scratchpad"]] == [("calculator", "42")]
    assert lm.requests[0].tools, "its tools were sent as the model's own"


def handing(agent, **options):
    """An agent whose calls a `ToolNode` makes."""
    builder = StateGraph(options.pop("schema", WorkflowState))
    builder.add_node("agent", ReActAgentNode(agent, calls="tool_calls", **options))
    builder.add_node("tools", ToolNode(agent.registry)).add_edge(START, "agent").add_edge("tools", "agent")
    return builder.add_conditional_edges("agent", lambda s: "tools" if s.get("tool_calls") else END, ["tools", END])


@pytest.mark.parametrize("signature", ["task -> answer", "with a default"])
def test_calls_are_handed_over_in_a_conversation_and_beside_defaults(signature):
    class Chat(MessagesState):
        tool_calls: list[Any]
        tool_results: list[Any]
        run: Any

    class Asked(dspy.Signature):
        task: str = dspy.InputField()
        tone: str = dspy.InputField(default="kind")
        answer: str = dspy.OutputField()

    made = []

    @tool
    def find(n: int) -> str:
        """Find."""
        made.append(n)
        return f"found {n}"

    lm = ScriptedLM([decision("find", n=1), decision("submit", answer="Here.")])
    if signature == "task -> answer":
        agent = ReActGenerator(signature, tools=[find], lm=lm)
        said = [HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("Where is it?")]
        state = graph.compile(handing(agent, schema=Chat), max_steps=8).invoke({"messages": said})
        assert state["messages"][-1].content == "Here."
    else:
        agent = ReActGenerator(Asked, tools=[find], lm=lm)
        flow = graph.compile(handing(agent, inputs={"task": "user_input"}), max_steps=8)
        assert flow.invoke({"user_input": "Where is it?"})["final_output"] == "Here."
    assert made == [1]


def test_calls_that_were_refused_are_not_made_in_a_later_turn(tmp_path):
    made = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        made.append(amount)
        return "paid"

    lm = ScriptedLM([decision("pay", amount=1_000), decision("submit", answer="2")])
    node = ReActAgentNode(ReActGenerator(tools=[pay], lm=lm), calls="tool_calls")
    builder = StateGraph(WorkflowState).add_node("gate", lambda state: interrupt("go on?") and {})
    builder.add_node("agent", node).add_node("tools", ToolNode([pay])).add_edge(START, "gate").add_edge("gate", "agent")
    allowed = []
    route = lambda state: "tools" if state["tool_calls"] and allowed else END  # noqa: E731
    builder.add_conditional_edges("agent", route, ["tools", END]).add_edge("tools", "agent")
    flow = graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path), max_steps=9)
    for text in ("Pay 1000 to Eve", "What is one and one?"):
        with pytest.raises(WorkflowInterrupted):
            flow.invoke({"user_input": text, "tool_calls": []}, thread_id="t")
        state = flow.resume("t", "yes")
        allowed.append(True)
    assert (state["final_output"], made) == ("2", [])


def test_a_task_that_takes_the_place_of_refused_calls_is_answered():
    lm = ScriptedLM([decision("look", n=1_000), decision("submit", answer="refused")])
    builder = StateGraph(WorkflowState)
    builder.add_node("agent", ReActAgentNode(ReActGenerator(tools=[look], lm=lm), calls="tool_calls"))
    builder.add_node("screen", lambda state: {"user_input": "It is refused; say so.", "tool_calls": []})
    route = lambda state: "screen" if state["tool_calls"] else END  # noqa: E731
    builder.add_edge(START, "agent").add_edge("screen", "agent").add_conditional_edges("agent", route, ["screen", END])
    assert graph.compile(builder, max_steps=9).invoke({"user_input": "go"})["final_output"] == "refused"


def test_a_run_that_handed_calls_over_and_then_failed_begins_again(tmp_path):
    replies = [decision("look", n=1), ConnectionError("down"), decision("look", n=2), decision("submit", answer="up")]

    def reply(prompt):
        found = replies.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    agent = ReActGenerator(tools=[look], lm=FunctionLM("test/away", reply))
    flow = graph.compile(handing(agent), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(NodeFailed):
        flow.invoke({"user_input": "go"}, thread_id="t")
    assert flow.resume("t")["final_output"] == "up"


def test_of_several_failed_calls_the_one_that_ended_the_run_is_named():
    @tool(read_only=True)
    def shut(n: int) -> str:
        """Be shut."""
        raise ToolError("refused", "ticket 1", "it is shut")

    @tool(read_only=True)
    def gone(n: int) -> str:
        """Be gone."""
        raise ToolError("not_found", "ticket 2", "it is gone")

    calls = {"tool_calls": [{"name": name, "args": {"n": 1}} for name in ("shut", "look", "gone")]}
    lm = ScriptedLM([render_reply(next_thought="all", tool_calls=calls)])
    agent = ReActGenerator(tools=[shut, gone, look], lm=lm, policy=Policy(tool_error="fail_fast"))
    with pytest.raises(NodeFailed) as raised:
        graph.compile(one(ReActAgentNode(agent))).invoke({"user_input": "go"})
    error = raised.value.source
    named = {"shut": ("refused", "ticket 1"), "gone": ("not_found", "ticket 2")}[error.tool]
    assert (error.error_kind, error.operator_message) == named
    assert str(error).startswith(f"{error.tool}: ")


def seat(name):
    return {"name": "book", "args": {"seat": name}}


def test_system_messages_are_instructions_of_the_run():
    lm = ScriptedLM([decision("submit", answer="Oui."), decision("submit", answer="Yes.")])
    agent = ReActGenerator("task -> answer", tools=[look], lm=lm)
    flow = graph.compile(StateGraph(MessagesState).add_node("agent", ReActAgentNode(agent)).add_edge(START, "agent"))
    said = [SystemMessage("Answer in French."), HumanMessage("Is it open?")]
    assert flow.invoke({"messages": said})["messages"][-1].content == "Oui."
    assert "Answer in French." in lm.prompts[0].system
    flow.invoke({"messages": said[1:]})
    assert "French" not in lm.prompts[1].system + lm.prompts[1].text
