"""The nodes that keep a conversation."""

from __future__ import annotations

import asyncio

import dspy
import pytest
from graph.graphs import one
from langchain_core.messages import AIMessage
from langgraph.types import interrupt

from ace import ReActGenerator, graph
from ace.graph import JsonlCheckpointer, WorkflowInterrupted
from ace.graph.nodes import (
    ConversationBufferNode,
    ConversationSummaryNode,
    ReActAgentNode,
)
from ace.graph.state import Message
from ace.testing import FunctionLM, decision


def talk(n: int) -> list[Message]:
    return [Message(role="user" if i % 2 == 0 else "assistant", content=f"turn {i}") for i in range(n)]


def words(text: str) -> int:
    return len(text.split())


def test_a_conversation_goes_on_over_turns_and_processes(tmp_path):
    def reply(prompt):
        return decision("finish", answer="you said: " + ("17" if "order 17" in prompt.text else "nothing"))

    def workflow():
        agent = ReActGenerator("conversation, task -> answer", tools=[], lm=FunctionLM("test/talk", reply))
        inputs = {"task": "user_input", "conversation": "conversation"}
        builder = one(ConversationBufferNode("user"), "hear")
        builder.add_node("agent", ReActAgentNode(agent, inputs=inputs)).add_edge("hear", "agent")
        builder.add_node("remember", ConversationBufferNode("assistant")).add_edge("agent", "remember")
        return graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path))

    first = workflow().invoke({"user_input": "I am waiting for order 17."}, thread_id="ana")
    assert first["conversation"] == ""
    second = workflow().invoke({"user_input": "Which one was it?"}, thread_id="ana")
    assert second["final_output"] == "you said: 17"
    assert [m.role for m in second["messages"]] == ["user", "assistant"] * 2
    assert workflow().invoke({"user_input": "Which one?"}, thread_id="ben")["final_output"] == "you said: nothing"


def test_a_conversation_is_cut_by_whole_messages_from_the_oldest():
    node = ConversationBufferNode("user", max_tokens=7, count=words)
    shown = node.invoke({"user_input": "next", "messages": talk(5)})["conversation"]
    assert shown == "Assistant: turn 3\nUser: turn 4"
    assert (
        ConversationBufferNode("user", max_tokens=0, count=words).invoke({"user_input": "n", "messages": talk(2)})[
            "conversation"
        ]
        == ""
    )


def test_old_turns_are_summed_up_and_none_is_lost():
    asked = []

    def summarize(prompt):
        asked.append(prompt)
        return [f"summary {len(asked)}"]

    builder = one(ConversationSummaryNode(summarize, max_tokens=10, keep=2, count=words), "sum")
    builder.add_node("hear", ConversationBufferNode("user", max_tokens=30, count=words)).add_edge("sum", "hear")
    workflow = graph.compile(builder)
    state = workflow.invoke({"user_input": "next", "messages": talk(6)})
    assert state["conversation_summary"] == "summary 1"
    assert state["summarised"] == 4
    assert len(state["messages"]) == 7
    assert state["conversation"] == ("Summary of what was said before: summary 1\nUser: turn 4\nAssistant: turn 5")
    assert "turn 3" in asked[0]
    assert "turn 4" not in asked[0]
    again = ConversationSummaryNode(summarize, max_tokens=10, keep=2, count=words)
    update = again.invoke({**state, "messages": talk(10)})
    assert update == {"conversation_summary": "summary 2", "summarised": 8}
    assert "Summary so far: summary 1" in asked[1]
    assert "turn 3" not in asked[1]


@pytest.mark.parametrize("reply", ["", "  ", None, [], 7])
def test_a_summary_that_did_not_come_leaves_everything_as_it_was(reply, caplog):
    node = ConversationSummaryNode(lambda prompt: reply, max_tokens=1, keep=0, count=words)
    assert node.invoke({"messages": talk(4)}) == {}
    assert "stays as it is: ValueError: the reply is no text" in caplog.text


@pytest.mark.parametrize("reply", ["so far", ["so far"], [{"text": "so far"}], AIMessage("so far")], ids=repr)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_summary_may_come_from_any_kind_of_model(reply, asynchronous):
    async def later(prompt):
        return reply

    node = ConversationSummaryNode(later if asynchronous else lambda prompt: reply, max_tokens=1, keep=0, count=words)
    assert node.invoke({"messages": talk(4)})["conversation_summary"] == "so far"
    assert asyncio.run(node.ainvoke({"messages": talk(4)}))["summarised"] == 4


def test_an_async_summary_comes_also_where_a_loop_runs():
    async def later(prompt):
        return f"so far {dspy.settings.ace_test}"

    async def notebook():
        return ConversationSummaryNode(later, max_tokens=1, keep=0, count=words).invoke({"messages": talk(4)})

    with dspy.context(ace_test="set"):
        assert asyncio.run(notebook())["conversation_summary"] == "so far set"


def test_a_summary_may_ask(tmp_path):
    node = ConversationSummaryNode(lambda prompt: interrupt("what was it?"), max_tokens=1, keep=0, count=words)
    flow = graph.compile(one(node, "sum"), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted):
        flow.invoke({"messages": talk(4)}, thread_id="t")
    assert flow.resume("t", "order 17")["conversation_summary"] == "order 17"


def test_a_turn_leaves_the_prompt_only_when_a_summary_holds_it():
    """The summary takes room, too: beside it, the turns that do not fit are summed up."""
    long = " ".join(["known"] * 10)
    sums = ConversationSummaryNode(lambda prompt: long, max_tokens=30, keep=1, count=words)
    hears = ConversationBufferNode("user", max_tokens=30, count=words)
    state = {"messages": [], "conversation_summary": "", "summarised": 0, "user_input": "next"}
    for turns in range(1, 20):
        state["messages"] = talk(turns)
        state |= sums.invoke(state)
        shown = hears.invoke(state)["conversation"]
        assert all(f"turn {n}" in shown for n in range(state["summarised"], turns))


def test_a_model_that_fails_leaves_everything_as_it_was_and_says_so(caplog):
    def summarize(prompt):
        raise ConnectionError("no model")

    node = ConversationSummaryNode(summarize, max_tokens=1, keep=0, count=words)
    assert node.invoke({"messages": talk(4)}) == {}
    assert "stays as it is: ConnectionError: no model" in caplog.text


def test_a_short_conversation_needs_no_summary():
    node = ConversationSummaryNode(lambda prompt: pytest.fail("asked"), max_tokens=100, count=words)
    assert node.invoke({"messages": talk(4)}) == {}
