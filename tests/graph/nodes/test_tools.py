"""`ToolNode`."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from graph.graphs import look, one

from ace import graph, tool
from ace.core import CancellationToken, RunUsage, ToolContext
from ace.graph import JsonlCheckpointer, NodeFailed, WorkflowInterrupted
from ace.graph.nodes import (
    ToolNode,
)
from ace.tools import ToolCall


@tool
def fails(n: int) -> str:
    """Fail."""
    raise RuntimeError("broken")


def calls(*given: tuple[str, dict]) -> dict[str, Any]:
    return {"tool_calls": [ToolCall(id=f"c{i}", name=name, args=args) for i, (name, args) in enumerate(given)]}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_calls_are_made_in_order_and_cleared(asynchronous):
    workflow = graph.compile(one(ToolNode([look, fails]), "tools"))
    given = calls(("look", {"n": 1}), ("fails", {"n": 2}), ("look", {"n": 3}))
    state = asyncio.run(workflow.ainvoke(given)) if asynchronous else workflow.invoke(given)
    assert [result.outcome for result in state["tool_results"]] == ["success", "failed", "success"]
    assert [step.observation for step in state["scratchpad"]][::2] == ["saw 1", "saw 3"]
    assert state["tool_calls"] == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_call_knows_its_own_id(asynchronous):
    seen = []

    @tool(read_only=True)
    def who(n: int, ctx: ToolContext) -> str:
        """Say which call it is."""
        seen.append((n, ctx.tool_call_id))
        ctx.tally.add(RunUsage(lm_calls=1))
        return "ok"

    workflow = graph.compile(one(ToolNode([who]), "tools"))
    given = calls(*(("who", {"n": n}) for n in range(4)))
    state = asyncio.run(workflow.ainvoke(given)) if asynchronous else workflow.invoke(given)
    assert sorted(seen) == [(n, f"c{n}") for n in range(4)]
    assert [result.usage.lm_calls for result in state["tool_results"]] == [1] * 4, "each counts what it spent itself"


def test_a_failed_tool_fails_the_node_where_that_is_asked_for():
    with pytest.raises(NodeFailed, match="broken"):
        graph.compile(one(ToolNode([fails], on_error="fail"), "tools")).invoke(calls(("fails", {"n": 1})))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_nothing_is_called_after_a_failure_and_a_resume_makes_the_failed_call_again(tmp_path, asynchronous):
    made, broken = [], [True]

    @tool
    def act(n: int) -> str:
        """Act."""
        made.append(n)
        if n == 2 and broken.pop():
            raise RuntimeError("broken")
        return "done"

    saver = JsonlCheckpointer(tmp_path)
    workflow = graph.compile(one(ToolNode([act], on_error="fail"), "tools"), checkpointer=saver)
    given = calls(*(("act", {"n": n}) for n in (1, 2, 3)))
    with pytest.raises(NodeFailed, match="broken"):
        asyncio.run(workflow.ainvoke(given, thread_id="t")) if asynchronous else workflow.invoke(given, thread_id="t")
    assert made == [1, 2]
    broken.append(False)
    state = asyncio.run(workflow.aresume("t")) if asynchronous else workflow.resume("t")
    assert made == [1, 2, 2, 3]
    assert [result.outcome for result in state["tool_results"]] == ["success"] * 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("lok", {"n": 1}), "did you mean 'look'"),
        (("look", {"n": "many"}), "n"),
        (("look", {}), "n"),
    ],
)
def test_a_malformed_call_fails_before_anything_was_called(given, says):
    made = []

    @tool
    def act() -> str:
        """Act."""
        made.append(1)
        return ""

    with pytest.raises(NodeFailed, match=says) as raised:
        graph.compile(one(ToolNode([look, act]), "tools")).invoke(calls(("act", {}), given))
    assert type(raised.value.source).__name__ == "InvalidModelAction"
    assert made == []


@pytest.mark.parametrize(("answer", "outcome"), [("approve", "success"), ("deny", "denied")])
def test_a_call_that_needs_approval_waits_for_it(tmp_path, answer, outcome):
    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund."""
        return "refunded"

    workflow = graph.compile(one(ToolNode([refund]), "tools"), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted):
        workflow.invoke(calls(("refund", {"order": "17"})), thread_id="t")
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.resume("t", "what?")
    assert "expected 'approve' or 'deny'" in raised.value.interrupts[0].value["problem"]
    assert workflow.resume("t", answer)["tool_results"][0].outcome == outcome


@pytest.mark.parametrize("asynchronous", [False, True])
def test_calls_that_were_not_made_when_the_graph_was_cancelled_are_made_by_a_resume(tmp_path, asynchronous):
    token, made = CancellationToken(), []

    @tool(read_only=True)
    def slow() -> str:
        """Look for long."""
        token.cancel("enough")
        return "seen"

    @tool
    def act() -> str:
        """Act."""
        made.append(1)
        return "done"

    workflow = graph.compile(one(ToolNode([slow, act]), "tools"), checkpointer=JsonlCheckpointer(tmp_path))
    given = calls(("slow", {}), ("act", {}))
    run = (
        (lambda **o: asyncio.run(workflow.ainvoke(given, **o)))
        if asynchronous
        else (lambda **o: workflow.invoke(given, **o))
    )
    with pytest.raises(WorkflowInterrupted) as raised:
        run(thread_id="t", cancellation=token)
    assert (raised.value.when, made) == ("cancelled", [])
    state = workflow.resume("t")
    assert [result.outcome for result in state["tool_results"]] == ["success", "success"]
    assert made == [1]


def test_calls_of_a_tool_node_are_decided_one_by_one(tmp_path):
    paid = []

    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    workflow = graph.compile(one(ToolNode([pay, look]), "tools"), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted):
        workflow.invoke(calls(("pay", {"amount": 1}), ("look", {"n": 1}), ("pay", {"amount": 2})), thread_id="t")
    for wrong, says in [
        ({"calls": "approve"}, r"each of \['c0', 'c2'\]"),
        ({"c0": "approve"}, r"each of \['c0', 'c2'\]"),
        ({"c0": {"decision": "approve", "args": {"amount": "much"}}, "c2": "deny"}, "the new arguments do not fit"),
        ({"decision": "approve", "args": {"amount": 3}}, "`args` fit one call, and 2 wait"),
    ]:
        with pytest.raises(WorkflowInterrupted) as raised:
            workflow.resume("t", wrong)
        assert re.search(says, raised.value.interrupts[0].value["problem"])
    decided = {
        "c0": {"decision": "approve", "args": {"amount": 3}},
        "c2": {"decision": "deny", "reason": "not this month"},
    }
    state = workflow.resume("t", decided)
    assert paid == [3]
    assert [(result.outcome, result.text) for result in state["tool_results"]] == [
        ("success", "paid"),
        ("success", "saw 1"),
        ("denied", "not this month"),
    ]
    assert [step.tool_args for step in state["scratchpad"]] == [{"amount": 3}, {"n": 1}, {"amount": 2}]


def test_ids_of_calls_may_look_like_those_of_questions(tmp_path):
    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    names = ["a" * 32, "b" * 32]
    flow = graph.compile(one(ToolNode([pay]), "tools"), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted):
        flow.invoke(
            {"tool_calls": [{"id": name, "name": "pay", "args": {"amount": 1}} for name in names]}, thread_id="t"
        )
    state = flow.resume("t", dict(zip(names, ["approve", "deny"], strict=True)))
    assert [result.outcome for result in state["tool_results"]] == ["success", "denied"]


def test_a_stop_after_a_tool_node_names_that_node(tmp_path):
    flow = graph.compile(
        one(ToolNode([look]), "tools"), checkpointer=JsonlCheckpointer(tmp_path), interrupt_after=["tools"]
    )
    with pytest.raises(WorkflowInterrupted) as raised:
        flow.invoke(calls(("look", {"n": 1})), thread_id="t")
    assert raised.value.nodes == ("tools",)
