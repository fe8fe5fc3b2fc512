"""Exact bookkeeping and events: charges of retries, limits inside one reply, the words of events."""

import dataclasses
import inspect

import pytest
from agent.kit import Script, call, extract, play, spec

from ace.agent import (
    AgentRun,
    BreakerPolicy,
    ModelReply,
    OnceWithToolCatalog,
    Policy,
    RequestedTool,
    Retry,
    RetryPolicy,
    Summary,
    drive,
    states,
)
from ace.agent.breaker import Breaker
from ace.core import (
    InvalidModelAction,
    ModelTransport,
    PolicyConfigInvalid,
    RunUsage,
    TokenPrices,
    ToolError,
    UsageLimits,
)
from ace.testing import FaultyTool, ManualClock
from ace.tools import tool

QUICK = RetryPolicy(initial_interval=0.0)


@tool(read_only=True)
def peek_or_refuse(key: str) -> str:
    """Look up a key."""
    if key == "bad":
        raise ToolError("refused", "no such key")
    return f"value of {key}"


def test_a_retry_of_the_model_spends_an_iteration_by_default():
    assert Retry().consume_budget
    replies = (ModelTransport("down"), call("peek_or_refuse", key="a"), call("peek_or_refuse", key="b"), extract("x"))
    output, model = play(*replies, tools=[peek_or_refuse], max_iters=2, policy=Policy(model_retry=QUICK))
    assert [request.purpose for request in model.asked] == ["decide", "decide", "extract"]
    assert (output.usage.iterations, output.usage.retries, output.termination_reason) == (1, 1, "max_iterations")


def test_calls_of_one_reply_stop_at_the_limit_of_tool_calls():
    several = ModelReply(
        thought="t",
        tool_name="peek_or_refuse",
        tool_args={"key": "a"},
        more=(RequestedTool("peek_or_refuse", {"key": "b"}), RequestedTool("peek_or_refuse", {"key": "c"})),
        usage=RunUsage(lm_calls=1),
    )
    output, _ = play(several, extract("x"), tools=[peek_or_refuse], limits=UsageLimits(tool_calls=2))
    assert [step.outcome for step in output.structured_trace] == ["success", "success", "denied"]
    assert output.usage.tool_calls == 2
    assert "all 2 tool calls" in output.structured_trace[2].observation


def test_events_name_the_kind_of_an_error_and_only_of_an_error():
    events = []
    run = AgentRun(spec(tools=[peek_or_refuse], listeners=(events.append,)))
    drive(run, Script(call("peek_or_refuse", key="bad"), call("peek_or_refuse", key="a"), call("finish", answer="x")))
    errors = {event.kind: event.data.get("error") for event in events if event.kind.startswith("tool_call_")}
    assert errors == {"tool_call_started": None, "tool_call_error": "refused", "tool_call_completed": None}


def test_every_state_and_every_word_between_driver_and_machine_is_frozen():
    made = [c for _, c in inspect.getmembers(states, inspect.isclass) if c.__module__ == states.__name__]
    kinds = [c for c in made if dataclasses.is_dataclass(c)]
    assert len(kinds) > 10
    assert all(c.__dataclass_params__.frozen for c in kinds)
    with pytest.raises(ValueError, match="frozen"):
        Breaker().failures = 1


def test_the_documented_defaults():
    assert (BreakerPolicy().threshold, BreakerPolicy().cooldown, BreakerPolicy().exclude) == (3, 60.0, True)
    retry = RetryPolicy()
    assert (retry.initial_interval, retry.backoff_factor, retry.max_interval, retry.max_attempts) == (0.5, 2.0, 30.0, 3)
    assert OnceWithToolCatalog().n == 1
    assert RetryPolicy(max_attempts=100).max_attempts == 100
    with pytest.raises(PolicyConfigInvalid, match="100"):
        RetryPolicy(max_attempts=101)
    assert TokenPrices(input=0, output=0).cost(10, 10) == 0
    with pytest.raises(TypeError):
        OnceWithToolCatalog(n=2)


def test_what_is_thrown_away_takes_no_number():
    summary = ModelReply(outputs={"objective": "x"}, usage=RunUsage(lm_calls=1))
    replies = (InvalidModelAction("unparsable", "?"), call("peek_or_refuse", key="a"), summary, call("finish", answer="x"))
    output, _ = play(*replies, tools=[peek_or_refuse], policy=Policy.lenient(), summary=Summary(every=1), max_iters=5)
    assert [(step.iteration, step.tool_call_id) for step in output.structured_trace] == [(1, "s1-c1")]
    assert (output.usage.iterations, output.usage.reprompts, output.usage.summaries) == (2, 1, 1)


@pytest.mark.parametrize(("limit", "summaries"), [(3, 0), (4, 1)])
def test_a_summary_leaves_room_for_a_decision_and_the_answer(limit, summaries):
    summary = ModelReply(outputs={"objective": "x"}, usage=RunUsage(lm_calls=1))
    replies = [call("peek_or_refuse", key="a"), *[summary] * summaries, call("finish", answer="x")]
    output, _ = play(*replies, tools=[peek_or_refuse], summary=Summary(every=1), limits=UsageLimits(lm_calls=limit))
    assert (output.usage.summaries, output.answer) == (summaries, "x")


def test_a_call_that_a_crash_cut_off_is_not_an_attempt_that_failed():
    policy = Policy(tool_retry=RetryPolicy(initial_interval=0.0, max_attempts=2))
    faulty, clock = FaultyTool(peek_or_refuse, ["timeout", "timeout"]), ManualClock()
    run = AgentRun(spec(tools=[faulty.tool], policy=policy, clock=clock))
    run.next_step()
    run.model_replied(call("peek_or_refuse", key="a"))
    run.next_step()  # the call is out, and the process dies
    again = AgentRun.restore(run.snapshot(), spec(tools=[faulty.tool], policy=policy, clock=clock))
    again.resume()
    output = drive(again, Script(call("finish", answer="x")))
    assert faulty.calls == 2  # both attempts of the policy, besides the one that was cut off
    assert [(e.retries, e.iteration) for e in output.error_history] == [(1, 1)]
