"""Retries: back-off, jitter, budget, and calls that may not be repeated."""

import pytest
from agent.kit import Script, call, extract, peek, play, send, spec
from manual_clock import ManualClock

from ace.agent import (
    AgentRun,
    Policy,
    Retry,
    RetryPolicy,
    drive,
)
from ace.core import (
    ModelTransport,
    PolicyConfigInvalid,
)
from ace.testing import FaultyTool

QUICK = RetryPolicy(initial_interval=1.0, jitter=False)


def test_a_tool_that_may_be_called_twice_is_retried_with_back_off():
    faulty, clock = FaultyTool(peek, ["timeout", "network"]), ManualClock()
    output, _ = play(
        call("peek", key="a"),
        call("finish", answer="x"),
        tools=[faulty.tool],
        clock=clock,
        policy=Policy(tool_retry=QUICK),
    )
    step = output.structured_trace[0]
    assert (step.outcome, step.attempts, faulty.calls) == ("success", 3, 3)
    assert clock.slept == [1.0, 2.0]
    assert (output.usage.retries, output.usage.tool_calls, output.tool_usage) == (2, 3, {"peek": 3})
    (record,) = output.error_history
    assert (record.retries, record.recovered, record.kind) == (1, True, "network")


def test_a_tool_that_may_have_done_its_work_is_not_called_twice():
    faulty = FaultyTool(send, ["timeout"])
    output, _ = play(call("send", text="a"), call("finish", answer="x"), tools=[faulty.tool])
    assert (faulty.calls, output.structured_trace[0].outcome) == (1, "failed")


def test_a_policy_may_approve_an_unsafe_replay_in_so_many_words():
    class Bold(Policy):
        approve = True

        def on_tool_error(self, state, failed):
            return Retry(QUICK, approve_unsafe_replay=self.approve)

    class Careless(Bold):
        approve = False

    for policy, calls, reason in ((Bold(), 3, "completed"), (Careless(), 1, "policy_runtime_violation")):
        faulty = FaultyTool(send, then="timeout")
        output, _ = play(
            call("send", text="a"), call("finish", answer="x"), tools=[faulty.tool], policy=policy, clock=ManualClock()
        )
        assert (faulty.calls, output.termination_reason) == (calls, reason)


def test_retries_spend_budget_unless_told_otherwise():
    for consume, limit_hit in ((True, True), (False, False)):
        faulty = FaultyTool(peek, ["timeout", "timeout"])
        policy = Policy(tool_retry=QUICK, consume_budget=consume)
        output, _ = play(
            call("peek", key="a"),
            call("finish", answer="x") if not limit_hit else extract("?"),
            tools=[faulty.tool],
            policy=policy,
            max_iters=3,
            clock=ManualClock(),
        )
        assert (output.termination_reason == "max_iterations") == limit_hit


def test_a_retry_needs_budget_left():
    faulty = FaultyTool(peek, then="timeout")
    output, _ = play(call("peek", key="a"), extract("?"), tools=[faulty.tool], max_iters=1, clock=ManualClock())
    assert (faulty.calls, output.termination_reason) == (1, "max_iterations")


def test_a_message_may_be_what_makes_a_failure_worth_a_retry():
    faulty = FaultyTool(peek, [ValueError("connection refused by peer"), ValueError("no such key")])
    policy = Policy(tool_retry=RetryPolicy(patterns=("connection refused",), initial_interval=0))
    output, _ = play(call("peek", key="a"), call("finish", answer="x"), tools=[faulty.tool], policy=policy)
    assert (faulty.calls, output.structured_trace[0].outcome) == (2, "failed")


def test_a_model_that_cannot_be_reached_may_be_asked_again():
    clock = ManualClock()
    output, _ = play(ModelTransport("down"), call("finish", answer="x"), clock=clock, policy=Policy(model_retry=QUICK))
    assert (output.completed, output.usage.retries, output.usage.lm_calls, clock.slept) == (True, 1, 2, [1.0])
    output, _ = play(*[ModelTransport("down")] * 3, clock=ManualClock(), policy=Policy(model_retry=QUICK))
    assert (output.termination_reason, output.usage.lm_calls) == ("model_transport", 3)


def test_jitter_is_between_nothing_and_the_back_off_and_the_same_for_a_replay():
    def waits(run_id):
        run = AgentRun(spec(clock=ManualClock(), policy=Policy(model_retry=RetryPolicy(initial_interval=8.0))), run_id)
        drive(run, Script(ModelTransport("down"), call("finish", answer="x")))
        return run.spec.clock.slept

    assert waits("a") == waits("a") != waits("b")
    assert 0 <= waits("a")[0] <= 8


@pytest.mark.parametrize("options", [{"initial_interval": 5, "max_interval": 1}, {"patterns": ("(",)}])
def test_a_retry_policy_that_makes_no_sense_is_refused(options):
    with pytest.raises((PolicyConfigInvalid, ValueError)):
        RetryPolicy(**options)


def test_back_off_never_overflows():
    assert RetryPolicy(max_attempts=100, backoff_factor=1e300, jitter=False).delay(99) == 30.0
