"""Chaos through `ReActGenerator`: replies that are garbage, cut off, empty or never come, and tools that fail by a seeded plan."""

from __future__ import annotations

import asyncio

import pytest
from chaos.plan import FaultPlan

from ace import CancellationToken, Policy, ReActGenerator, RetryPolicy, UsageLimits, check_events
from ace.testing import FunctionLM, decision
from ace.testing.engine import render_reply
from ace.tools import tool


@tool(read_only=True, timeout=0.2)
def look(key: str) -> str:
    """Look."""
    return f"saw {key}"


@tool(timeout=0.2)
def send(text: str) -> str:
    """Send."""
    return "sent"


def answer(prompt):
    if "tool_calls" not in prompt.wants:
        return render_reply(reasoning="", answer="forced")
    done = len(prompt.steps)
    if done >= 4:
        return decision("finish", answer="done")
    return decision("look", key=str(done)) if done % 2 else decision("send", text=str(done))


def agent(plan, observers):
    quick = RetryPolicy(initial_interval=0.001, max_interval=0.01)
    return ReActGenerator(
        tools=[plan.tool(look), plan.tool(send)],
        lm=FunctionLM("test/chaos", plan.answer(answer)),
        policy=Policy(name="chaos", on_invalid_action="observe", tool_retry=quick, model_retry=quick),
        limits=UsageLimits(lm_calls=12, seconds=20.0),
        max_iters=8,
        observers=observers,
    )


def survive(driver, seed):
    plan, events = FaultPlan(seed, tool_rate=0.3, lm_rate=0.3), []
    it = agent(plan, [events.append])
    token = CancellationToken()
    if seed % 5 == 0:
        it.observers = [events.append, lambda event: token.cancel("chaos") if event.seq == seed % 11 else None]
    if driver == "sync":
        output = it.run("x", cancellation=token)
    elif driver == "async":
        output = asyncio.run(it.arun("x", cancellation=token))
    else:
        with it.stream("x", cancellation=token) as stream:
            check_events(stream)
        output = stream.output
    check_events(events)
    assert output.termination_reason not in ("internal_invariant", "policy_runtime_violation"), output.error
    assert output.usage.lm_calls <= 12
    assert output.usage.iterations <= 8
    started = [e.data["tool_call_id"] for e in events if e.kind == "tool_call_started"]
    assert len(set(started)) == len(started) == output.usage.tool_calls


@pytest.mark.parametrize("driver", ["sync", "async", "stream"])
def test_chaos_in_replies_and_tools(driver):
    for seed in range(15):
        survive(driver, seed)


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("driver", ["sync", "async", "stream"])
def test_chaos_in_replies_and_tools_at_full_count(driver):
    for seed in range(1_000, 1_250):
        survive(driver, seed)
