"""Graphs over LangChain's messages: earlier ones reach the model, tokens and tool events come as they happen."""

import asyncio
from typing import Annotated, TypedDict

import pytest
from graph.graphs import LookTwice, look, paying, thread
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

import ace.graph
from ace import ReActGenerator
from ace.graph import JsonlCheckpointer, NodeFailed, ReActAgentNode, WorkflowInterrupted
from ace.graph.messages import as_messages, last_message
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.testing.engine import render_reply
from ace.tools import tool

MODES = ["messages", "custom", "updates"]


def agent():
    lm = ScriptedLM(
        [decision("look", n=17), decision("finish", answer="It is at home"), decision("finish", answer="So is Ben's")]
    )
    return ReActGenerator(tools=[look], lm=lm), lm


def graph_of(node, schema=MessagesState):
    return StateGraph(schema).add_node("agent", node).add_edge(START, "agent")


def asked(text="Where is Ana's order?"):
    return {"messages": [HumanMessage(text)]}


def test_an_agent_answers_the_last_message_and_knows_the_earlier_ones(tmp_path):
    it, lm = agent()
    workflow = ace.graph.compile(graph_of(ReActAgentNode(it)), checkpointer=JsonlCheckpointer(tmp_path))
    workflow.invoke(asked(), thread_id="ana")
    again = ace.graph.compile(graph_of(ReActAgentNode(it)), checkpointer=JsonlCheckpointer(tmp_path))
    state = again.invoke(asked("And Ben's?"), thread_id="ana")
    kinds = [type(message).__name__ for message in state["messages"]]
    assert kinds == ["HumanMessage", "AIMessage", "ToolMessage", "AIMessage", "HumanMessage", "AIMessage"]
    assert state["messages"][-1].content == "So is Ben's"
    call = state["messages"][1].tool_calls[0]
    assert (call["name"], call["args"], state["messages"][2].tool_call_id) == ("look", {"n": 17}, call["id"])
    question, called, result, answer = lm.prompts[-1].before
    assert "Where is Ana's order?" in question
    assert '{"name": "look", "args": {"n": 17}}' in called
    assert "saw 17" in result
    assert "It is at home" in answer
    assert lm.prompts[-1].fields["task"] == "And Ben's?"


def check(found):
    tokens = [m for mode, (m, *_) in ((m, x if m == "messages" else [x]) for m, x in found) if mode == "messages"]
    chunks = [message for message in tokens if message.type == "AIMessageChunk"]
    assert "".join(chunk.content for chunk in chunks) == "It is at home"
    events = [event["kind"] for mode, event in found if mode == "custom"]
    assert events[0] == "run_started"
    assert events.index("tool_call_started") < events.index("tool_call_completed") < events.index("run_completed")
    [update] = [update for mode, update in found if mode == "updates"]
    assert [m.type for m in update["agent"]["messages"]] == ["ai", "tool", "ai"]
    assert update["agent"]["messages"][-1].id == chunks[0].id  # shown once
    assert [m.type for m in tokens].count("ai") == 1
    order = [mode if mode != "custom" else event["kind"] for mode, event in found]
    assert order.index("messages") < order.index("run_completed")  # while the run goes on


def test_stream_modes_carry_tokens_and_tool_events():
    it, _ = agent()
    check(list(graph_of(ReActAgentNode(it)).compile().stream(asked(), stream_mode=MODES)))
    it, _ = agent()
    check(list(ace.graph.compile(graph_of(ReActAgentNode(it))).graph.stream(asked(), stream_mode=MODES)))


def test_stream_modes_of_async_graphs():
    async def read():
        it, _ = agent()
        return [x async for x in graph_of(ReActAgentNode(it)).compile().astream(asked(), stream_mode=MODES)]

    check(asyncio.run(read()))


def test_an_agent_after_another_one_sees_what_that_answered():
    it, lm = agent()
    messages = [HumanMessage("Where is Ana's order?"), AIMessage("The depot knows", name="planner")]
    graph_of(ReActAgentNode(it)).compile().invoke({"messages": messages})
    assert "The depot knows" in lm.prompts[0].before[1]
    assert lm.prompts[0].fields["task"] == "Where is Ana's order?"


def test_messages_without_a_question_are_refused():
    it, _ = agent()
    with pytest.raises(ValueError, match="none of the user's"):
        graph_of(ReActAgentNode(it)).compile().invoke({"messages": [AIMessage("Hello")]})


def test_a_run_without_an_answer_says_so():
    it, _ = agent()
    output = it.run("x", max_iters=0)
    assert output.answer is None
    assert as_messages(output)[-1].content.startswith("No answer: ")


def test_the_last_message_may_have_come_in_parts():
    messages = [HumanMessage("Hi"), HumanMessage([{"type": "text", "text": "Where is it?"}])]
    assert last_message(messages, "task", "answer") == ("Hi\nWhere is it?", ())


class Loose(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]


class Bare(TypedDict):
    messages: Annotated[list, add_messages]


@pytest.mark.parametrize("schema", [MessagesState, Loose, Bare])
def test_the_saver_keeps_langchains_messages(tmp_path, schema):
    def node(state):
        usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        call = {"name": "look", "args": {"n": 1}, "id": "c1"}
        told = ToolMessage("x", tool_call_id="c1", artifact={"k": (1, 2)}, status="error")
        said = AIMessage([{"type": "text", "text": "done"}], usage_metadata=usage, tool_calls=[call])
        return {"messages": [said, told, RemoveMessage(state["messages"][0].id)]}

    workflow = ace.graph.compile(graph_of(node, schema), checkpointer=JsonlCheckpointer(tmp_path))
    state = workflow.invoke({"messages": [HumanMessage("Hi", id="h"), HumanMessage("x")]}, thread_id="t")
    again = ace.graph.compile(graph_of(node, schema), checkpointer=JsonlCheckpointer(tmp_path))
    assert again.graph.get_state(thread("t")).values["messages"] == state["messages"]
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool"]


def test_an_approval_is_not_spent_on_a_call_that_nobody_saw(tmp_path):
    made = []

    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund an order."""
        made.append(order)
        return "refunded"

    def started(*replies, **options):
        it = ReActGenerator(tools=[refund], lm=ScriptedLM(replies), **options)
        return ace.graph.compile(graph_of(ReActAgentNode(it)), checkpointer=JsonlCheckpointer(tmp_path / "threads"))

    with pytest.raises(WorkflowInterrupted):
        started(decision("refund", order="1")).invoke(asked("Refund order 1"), thread_id="t")
    other = started(decision("refund", order="999"), decision("finish", answer="ok"))  # as after a restart
    with pytest.raises(WorkflowInterrupted) as asks_again:
        other.resume("t", "approve")
    assert made == []
    assert asks_again.value.interrupts[0].value["calls"][0]["tool_args"] == {"order": "999"}
    assert other.resume("t", "approve")["messages"][-1].content == "ok"
    assert made.pop() == "999"  # seen, and approved
    runs = tmp_path / "runs"
    with pytest.raises(WorkflowInterrupted):
        started(decision("refund", order="1"), run_store=runs).invoke(asked("Refund order 1"), thread_id="u")
    state = started(decision("finish", answer="ok"), run_store=runs).resume("u", "approve")
    assert (made, state["messages"][-1].content) == (["1"], "ok")


def test_an_answer_to_another_node_is_none_to_the_agent():
    def more(state):
        return {"messages": [HumanMessage(interrupt("more?"))]}

    @tool(requires_approval=True)
    def refund() -> str:
        """Refund."""
        return "refunded"

    def chain(it):
        return (
            StateGraph(MessagesState)
            .add_sequence([("more", more), ("agent", ReActAgentNode(it))])
            .add_edge(START, "more")
        )

    config = {"configurable": {"thread_id": "t"}}
    plain = ReActGenerator(tools=[], lm=ScriptedLM([decision("finish", answer="ok")]))
    outer = graph_of(chain(plain).compile()).compile(checkpointer=InMemorySaver())
    outer.invoke(asked(), config)
    assert outer.invoke(Command(resume="and more"), config)["messages"][-1].content == "ok"
    careful = ReActGenerator(tools=[refund], lm=ScriptedLM([decision("refund"), decision("finish", answer="done")]))
    outer = graph_of(chain(careful).compile()).compile(checkpointer=InMemorySaver())
    outer.invoke(asked(), config)
    waits = outer.invoke(Command(resume="approve"), config)  # meant for `more`
    assert waits["__interrupt__"][0].value["calls"][0]["tool_name"] == "refund"
    assert outer.invoke(Command(resume="approve"), config)["messages"][-1].content == "done"


def test_a_long_message_and_a_long_answer_stay_whole():
    said = []

    def echo(prompt):
        said.append(prompt.fields["task"])
        return decision("finish", answer="word " * 6_000 + "end")

    it = ReActGenerator(tools=[], lm=FunctionLM("test/echo", echo))
    state = graph_of(ReActAgentNode(it)).compile().invoke(asked("word " * 6_000 + "What is the last word?"))
    assert said[0].endswith("What is the last word?")
    assert state["messages"][-1].content.endswith("end")


def test_an_answer_that_was_rejected_gives_way_to_the_right_one():
    it = ReActGenerator(
        "task -> answer: int",
        tools=[],
        lm=ScriptedLM(
            [
                decision("finish", answer="wrong"),
                "[[ ## reasoning ## ]]\nr\n\n[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]",
            ]
        ),
    )
    found = list(graph_of(ReActAgentNode(it)).compile().stream(asked(), stream_mode="messages"))
    assert found[-1][0].content == "42"


def test_the_field_called_answer_is_the_answer():
    it = ReActGenerator(
        "task -> why, answer", tools=[], lm=ScriptedLM([decision("finish", why="because", answer="42")])
    )
    found = list(graph_of(ReActAgentNode(it)).compile().stream(asked(), stream_mode="messages"))
    assert [message.content for message, _ in found if message.type == "AIMessageChunk"] == ["42"]


def test_what_is_no_text_is_named_and_what_is_empty_refused():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": "What is this?"}, image]
    assert last_message([HumanMessage(parts)], "task", "answer")[0] == "What is this?\n[image_url]"
    with pytest.raises(ValueError, match="last message is empty"):
        last_message([HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("")], "task", "answer")


# -- what an agent can do, over a `MessagesState` -------------------------------------------------------------------------


def test_an_agent_follows_the_plan_of_a_lesson_over_messages():
    lm = ScriptedLM([decision("plan_look", n=1, look_n=2), decision("submit", answer="Both seen.")])
    it = ReActGenerator(tools=[look], lm=lm, playbook=LookTwice(), plans="approved")
    state = ace.graph.compile(graph_of(ReActAgentNode(it))).invoke(asked("look twice"))
    assert [message.content for message in state["messages"]][-1] == "Both seen."
    assert [m.content for m in state["messages"] if isinstance(m, ToolMessage)] == ["saw 1", "saw 2"]


@pytest.mark.parametrize(("policy", "ends"), [("forgiving", "It is at home"), ("default", None)])
def test_the_agents_policy_decides_about_a_bad_call_over_messages(policy, ends):
    lm = ScriptedLM([decision("look", n="many"), decision("look", n=17), decision("submit", answer="It is at home")])
    it = ReActGenerator(tools=[look], lm=lm, policy=policy)
    flow = ace.graph.compile(graph_of(ReActAgentNode(it)))
    if ends is None:
        with pytest.raises(NodeFailed, match="n"):
            flow.invoke(asked())
    else:
        assert flow.invoke(asked())["messages"][-1].content == ends


def test_calls_are_approved_by_their_ids_over_messages(tmp_path):
    paid = []

    both = {"tool_calls": [{"name": "pay", "args": {"to": to}} for to in ("ann", "eve")]}
    lm = ScriptedLM([render_reply(next_thought="both", tool_calls=both), decision("submit", answer="Ann is paid.")])
    it = ReActGenerator(tools=[paying(paid)], lm=lm, run_store=tmp_path / "runs")
    flow = ace.graph.compile(graph_of(ReActAgentNode(it)), checkpointer=JsonlCheckpointer(tmp_path / "threads"))
    with pytest.raises(WorkflowInterrupted) as stop:
        flow.invoke(asked("Pay both"), thread_id="t")
    first, second = (call["tool_call_id"] for call in stop.value.interrupts[0].value["calls"])
    messages = flow.resume("t", {first: "approve", second: {"decision": "deny", "reason": "not eve"}})["messages"]
    assert (paid, messages[-1].content) == (["ann"], "Ann is paid.")
    assert [m.content for m in messages if isinstance(m, ToolMessage)] == ["paid ann", "not eve"]
