"""`interrupt()` inside a tool: the graph stops, goes on with the answer, and makes no finished call twice."""

import asyncio
import os
import subprocess
import sys

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from ace import ReActGenerator, graph
from ace.agent import MemoryRunStore
from ace.graph import JsonlCheckpointer, ReActAgentNode, ToolNode, WorkflowInterrupted, WorkflowState
from ace.testing import ScriptedLM, decision
from ace.testing.engine import render_reply
from ace.tools import tool

MADE: list = []


@tool
def book(seat: str) -> str:
    """Book a seat."""
    MADE.append(f"book {seat}")
    return f"{seat} is booked"


@tool
def pay(amount: int) -> str:
    """Pay, once somebody has given the card's number and the code."""
    MADE.append("pay begins")
    card = interrupt({"question": f"Which card pays {amount}?"})
    code = interrupt({"question": "And its code?"})
    MADE.append(f"pay {amount} by {card} {code}")
    return f"paid by {card}"


@tool(read_only=True)
def colour(of: str) -> str:
    """Ask what colour something has."""
    return f"{of} is {interrupt(f'Colour of {of}?')}"


@tool(requires_approval=True)
def send(text: str) -> str:
    """Send a mail."""
    MADE.append(f"send {text}")
    return "sent"


@pytest.fixture(autouse=True)
def _nothing_made():
    MADE.clear()


@pytest.fixture(params=["memory", "files"])
def saver(request, tmp_path):
    return InMemorySaver() if request.param == "memory" else JsonlCheckpointer(tmp_path)


def one_node(node, saver):
    return graph.compile(StateGraph(WorkflowState).add_node("n", node).add_edge(START, "n"), checkpointer=saver)


def answered(flow, given, answers, how):
    """The state in the end, and what was asked on the way."""

    async def run_async():
        asked, call = [], flow.ainvoke(given, thread_id="t")
        for answer in [*answers, None]:
            try:
                return await call, asked
            except WorkflowInterrupted as stop:
                asked.append(stop.interrupts[0].value)
                call = flow.aresume("t", answer)
        raise AssertionError(f"it asks more often: {asked}")

    if how == "async":
        return asyncio.run(run_async())
    asked = []
    call = lambda: flow.invoke(given, thread_id="t")  # noqa: E731
    for answer in [*answers, None]:
        try:
            return call(), asked
        except WorkflowInterrupted as stop:
            asked.append(stop.interrupts[0].value)
            call = lambda answer=answer: flow.resume("t", answer)  # noqa: E731
    raise AssertionError(f"it asks more often: {asked}")


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_tool_of_an_agent_asks_and_no_finished_call_is_made_twice(saver, how):
    lm = ScriptedLM(
        [
            decision("book", seat="4a"),
            decision("send", text="soon"),
            decision("pay", amount=3),
            decision("send", text="paid"),
            decision("submit", answer="Done."),
        ]
    )
    agent = ReActGenerator(tools=[book, pay, send], lm=lm, run_store=MemoryRunStore())
    flow = one_node(ReActAgentNode(agent), saver)
    state, asked = answered(flow, {"user_input": "Go"}, ["approve", "visa", "1234", "approve"], how)
    assert state["final_output"] == "Done."
    assert [one.get("question", one.get("kind")) for one in asked] == [
        "approval",
        "Which card pays 3?",
        "And its code?",
        "approval",
    ]
    assert [what for what in MADE if what != "pay begins"] == [
        "book 4a",
        "send soon",
        "pay 3 by visa 1234",
        "send paid",
    ]
    assert [step.observation for step in state["scratchpad"]] == ["4a is booked", "sent", "paid by visa", "sent"]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_tool_of_a_tool_node_asks_and_no_finished_call_is_made_twice(saver, how):
    calls = [
        {"id": "1", "name": "book", "args": {"seat": "4a"}},
        {"id": "2", "name": "pay", "args": {"amount": 3}},
        {"id": "3", "name": "book", "args": {"seat": "4b"}},
    ]
    flow = one_node(ToolNode([book, pay]), saver)
    state, asked = answered(flow, {"tool_calls": calls}, ["visa", "1234"], how)
    assert [one["question"] for one in asked] == ["Which card pays 3?", "And its code?"]
    assert [what for what in MADE if what != "pay begins"] == ["book 4a", "pay 3 by visa 1234", "book 4b"]
    assert [result.text for result in state["tool_results"]] == ["4a is booked", "paid by visa", "4b is booked"]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_tools_of_one_decision_that_ask_at_once_are_answered_one_after_the_other(saver, how):
    names = ["the hull", "the sail", "the flag"]
    calls = {"tool_calls": [{"name": "colour", "args": {"of": name}} for name in names]}
    replies = [render_reply(next_thought="all at once", tool_calls=calls), decision("pay", amount=3)]
    lm = ScriptedLM([*replies, decision("submit", answer="Done.")])
    agent = ReActGenerator(tools=[colour, pay], lm=lm, run_store=MemoryRunStore())
    state, asked = answered(
        one_node(ReActAgentNode(agent), saver), {"user_input": "Go"}, ["red", "white", "blue", "visa", "1234"], how
    )
    assert [step.observation for step in state["scratchpad"]][-1] == "paid by visa"
    told = dict(zip([one.removeprefix("Colour of ")[:-1] for one in asked[:3]], ["red", "white", "blue"], strict=True))
    assert [step.observation for step in state["scratchpad"]][:3] == [f"{name} is {told[name]}" for name in names]


@pytest.mark.parametrize("asks", [True, False])
def test_an_agent_in_a_graph_inside_a_node_asks_its_own_question_after_another_was_answered(saver, asks):
    lm = ScriptedLM(
        [decision("pay", amount=3) if asks else decision("send", text="x"), decision("submit", answer="Done.")]
    )
    agent = ReActGenerator(tools=[pay, send], lm=lm, run_store=MemoryRunStore())
    inner = StateGraph(WorkflowState).add_node("gate", lambda state: {"task_id": interrupt({"question": "Go on?"})})
    inner.add_node("agent", ReActAgentNode(agent)).add_edge(START, "gate").add_edge("gate", "agent")
    answers = ["yes", "visa", "1234"] if asks else ["yes", "approve"]
    state, asked = answered(one_node(inner.compile(), saver), {"user_input": "Go"}, answers, "sync")
    questions = [one.get("question", one.get("kind")) for one in asked]
    assert questions == ["Go on?", *(["Which card pays 3?", "And its code?"] if asks else ["approval"])]
    assert [step.observation for step in state["scratchpad"]] == ["paid by visa" if asks else "sent"]


def test_an_agent_inside_a_tool_asks_once(saver):
    @tool
    def helper(amount: int) -> str:
        """Let another agent pay."""
        lm = ScriptedLM([decision("pay", amount=amount), decision("submit", answer="x")])
        out = ReActGenerator(tools=[pay], lm=lm).run("pay")
        if out.request is not None and out.request.raised is not None:
            raise out.request.raised
        return out.structured_trace[0].observation

    lm = ScriptedLM([decision("book", seat="4a"), decision("helper", amount=3), decision("submit", answer="Done.")])
    agent = ReActGenerator(tools=[book, helper], lm=lm, run_store=MemoryRunStore())
    state, asked = answered(one_node(ReActAgentNode(agent), saver), {"user_input": "Go"}, ["visa", "1234"], "sync")
    assert len(asked) == 2
    assert [step.observation for step in state["scratchpad"]] == ["4a is booked", "paid by visa"]


def test_a_node_may_ask_after_an_agent_that_it_calls(saver):
    lm = ScriptedLM([decision("pay", amount=3), decision("submit", answer="Done.")])
    node = ReActAgentNode(ReActGenerator(tools=[pay], lm=lm, run_store=MemoryRunStore()))

    def then_ask(state, config):
        return {**node.invoke(state, config), "context": interrupt({"question": "Really?"})}

    state, asked = answered(one_node(then_ask, saver), {"user_input": "Go"}, ["visa", "1234", "yes"], "sync")
    assert [one["question"] for one in asked] == ["Which card pays 3?", "And its code?", "Really?"]
    assert (state["final_output"], state["context"]) == ("Done.", "yes")


def test_a_question_may_be_none(saver):
    flow = one_node(lambda state: {"context": interrupt(None)}, saver)
    assert answered(flow, {"user_input": "Go"}, ["yes"], "sync")[0]["context"] == "yes"


DIES = """
import os, sys
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from ace import ReActGenerator, graph, tool
from ace.graph import JsonlCheckpointer, ReActAgentNode, WorkflowInterrupted, WorkflowState
from ace.testing import ScriptedLM, decision

folder, *answers = sys.argv[1:]
dies = answers[:1] == ["dies"]

@tool
def transfer(amount: int) -> str:
    \"\"\"Transfer.\"\"\"
    heard = [interrupt("which account?"), interrupt("which code?")]
    if dies:
        os._exit(9)
    return " ".join(heard)

script = [decision("transfer", amount=3), decision("submit", answer="Done.")][0 if dies else 1:]
agent = ReActGenerator(tools=[transfer], lm=ScriptedLM(script), run_store=f"{folder}/runs")
builder = StateGraph(WorkflowState).add_node("agent", ReActAgentNode(agent)).add_edge(START, "agent")
flow = graph.compile(builder, checkpointer=JsonlCheckpointer(f"{folder}/threads"))
call = (lambda: flow.invoke({"user_input": "Go"}, thread_id="t")) if dies else (lambda: flow.resume("t"))
for answer in [*answers, ""]:
    try:
        print(call()["scratchpad"][0].observation)
        break
    except WorkflowInterrupted as stop:
        asked = stop.interrupts[0].value
        print(asked if isinstance(asked, str) else asked["kind"])
        given = {"which account?": "A-1", "which code?": "0000"}.get(str(asked), answer)
        call = lambda given=given: flow.resume("t", given)
"""


def test_a_call_of_unknown_effect_is_asked_about_and_asks_anew_itself(tmp_path):
    """Its process died when it had its answers: none of them is taken for the one about calling it again."""

    def told(*answers):
        command = [sys.executable, "-c", DIES, str(tmp_path), *answers]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        return done.returncode, done.stdout.split("\n")[:-1], done.stderr

    assert told("dies", "", "")[:2] == (9, ["which account?", "which code?"])
    code, asked, errors = told("approve", "", "")
    assert (code, asked) == (0, ["unknown_effect", "which account?", "which code?", "A-1 0000"]), errors
