"""The run-time's promises, one behaviour a test, with the real drivers."""

import asyncio
import threading
import time

import pytest
from agent.kit import Script, call, extract, play, spec

from ace.agent import (
    Agent,
    AgentRun,
    AskModel,
    BreakerPolicy,
    CallTool,
    Done,
    ModelReply,
    NoProgress,
    OnceWithToolCatalog,
    Policy,
    RequestedTool,
    Retry,
    RetryPolicy,
    Summary,
    UpTo,
    adrive,
    drive,
)
from ace.core import (
    CancellationToken,
    ModelTransport,
    PolicyConfigInvalid,
    RunUsage,
    TokenPrices,
    ToolContext,
    ToolError,
    UsageLimits,
    check_events,
)
from ace.tasks import RunSummary
from ace.testing import FaultyTool, ManualClock
from ace.tools import Tool, tool

QUICK = RetryPolicy(initial_interval=1.0, jitter=False)


@tool(read_only=True)
def peek(key: str) -> str:
    """Look at a key."""
    return f"value of {key}"


@tool
def send(text: str) -> str:
    """Send a text."""
    return "sent"


# -- retries -----------------------------------------------------------------------------------------------------------


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


# -- breaker -----------------------------------------------------------------------------------------------------------


def breaker_run(replies, faulty, clock, **settings):
    policy = Policy(
        tool_retry=None, no_progress=None, breaker=BreakerPolicy(**{"threshold": 2, "cooldown": 60, **settings})
    )
    run = AgentRun(spec(tools=[faulty.tool, send], policy=policy, clock=clock, max_iters=20))
    model = Script(*replies)
    return drive(run, model), model


def test_a_tool_that_fails_in_a_row_leaves_the_catalogue():
    faulty = FaultyTool(peek, then="exception")
    replies = [call("peek", key=str(i)) for i in range(3)] + [call("finish", answer="x")]
    output, model = breaker_run(replies, faulty, ManualClock())
    assert [request.excluded for request in model.asked] == [(), (), ("peek",), ("peek",)]
    assert faulty.calls == 2
    last = output.structured_trace[-1]
    assert (last.outcome, last.executed, last.error.kind) == ("denied", False, "unavailable")


def test_half_open_lets_one_probe_through():
    class Advancing(ManualClock):
        def now(self):
            self.time += 10
            return self.time

    faulty = FaultyTool(peek, ["exception", "exception", "exception"])
    replies = [call("peek", key=str(i)) for i in range(40)]
    output, _ = breaker_run([*replies, call("finish", answer="x")], faulty, Advancing(), cooldown=100)
    outcomes = [step.outcome for step in output.structured_trace]
    probe = outcomes.index("failed", 2)
    assert outcomes[:2] == ["failed", "failed"]
    assert set(outcomes[2:probe]) == {"denied"}
    assert outcomes[probe + 1] == "denied"  # the probe failed: open again
    assert outcomes[-1] == "success"
    assert output.partial


def test_bad_arguments_and_refusals_do_not_open_it():
    faulty = FaultyTool(peek, ["refused"] * 5)
    replies = [call("peek", key=str(i)) for i in range(6)] + [call("finish", answer="x")]
    output, model = breaker_run(replies, faulty, ManualClock())
    assert output.structured_trace[-1].outcome == "success"
    assert model.asked[-1].excluded == ()


def test_success_closes_the_count():
    faulty = FaultyTool(peek, ["exception", None, "exception", None])
    replies = [call("peek", key=str(i)) for i in range(4)] + [call("finish", answer="x")]
    _, model = breaker_run(replies, faulty, ManualClock())
    assert model.asked[-1].excluded == ()


# -- loops -------------------------------------------------------------------------------------------------------------


def test_a_run_that_loops_gets_a_note_and_is_then_stopped():
    replies = [call("peek", key="a")] * 6 + [extract("?")]
    output, model = play(*replies, tools=[peek], max_iters=20)
    assert (output.termination_reason, output.partial, output.answer) == ("no_progress", True, "?")
    assert "gave the same result 3 times" in output.structured_trace[2].observation
    assert "same call" not in output.structured_trace[1].observation
    assert model.asked[-1].purpose == "extract"


def test_a_change_in_between_is_progress():
    replies = [call("peek", key="a"), call("peek", key="a"), call("send", text="b")] * 3
    output, _ = play(*replies, call("finish", answer="x"), tools=[peek, send], max_iters=20)
    assert output.completed


def test_the_policy_decides_about_loops():
    output, _ = play(
        *[call("peek", key="a")] * 8,
        call("finish", answer="x"),
        tools=[peek],
        max_iters=20,
        policy=Policy(no_progress=NoProgress(note_after=2, stop_after=None)),
    )
    assert output.completed
    with pytest.raises(PolicyConfigInvalid):
        NoProgress(note_after=5, stop_after=3)


# -- reprompts ---------------------------------------------------------------------------------------------------------


def test_once_with_tool_catalog_asks_once_and_lists_the_tools():
    output, model = play(
        call("calculator", wrong=1), call("finish", answer="x"), policy=Policy(on_invalid_action=OnceWithToolCatalog())
    )
    assert (output.completed, output.usage.reprompts) == (True, 1)
    assert "Tools: calculator, finish" in model.asked[-1].trajectory
    output, _ = play(call("nope"), call("nope"), policy=Policy(on_invalid_action=OnceWithToolCatalog()))
    assert output.termination_reason == "invalid_model_action"


@pytest.mark.parametrize("n", [0, -1, 11])
def test_reprompts_are_bounded(n):
    with pytest.raises(PolicyConfigInvalid):
        UpTo(n)


def test_reprompts_may_be_free_but_never_without_bound():
    policy = Policy(on_invalid_action=UpTo(3), consume_budget=False)
    output, model = play(*[call("nope")] * 4, policy=policy, max_iters=1)
    assert (output.termination_reason, len(model.asked)) == ("invalid_model_action", 4)


# -- budgets -----------------------------------------------------------------------------------------------------------


def spend(**usage):
    return ModelReply(thought="t", tool_name="peek", tool_args={"key": "a"}, usage=RunUsage(lm_calls=1, **usage))


def endless(reply, n=30):
    return [reply] * n


@pytest.mark.parametrize(
    ("limits", "lm_calls", "reason", "partial"),
    [
        (UsageLimits(lm_calls=3), 3, "budget_exceeded", True),
        (UsageLimits(lm_calls=1), 1, "budget_exceeded", True),
        (UsageLimits(lm_calls=0), 0, "budget_exceeded", False),
        (UsageLimits(tool_calls=2), 3, "budget_exceeded", True),
        (UsageLimits(input_tokens=250), 3, "budget_exceeded", False),
        (UsageLimits(output_tokens=20), 2, "budget_exceeded", False),
        (UsageLimits(total_tokens=100), 1, "budget_exceeded", False),
        (UsageLimits(cost=0.001), 4, "budget_exceeded", False),
    ],
)
def test_limits_hold(limits, lm_calls, reason, partial):
    class Model(Script):
        def ask(self, request):
            self.asked.append(request)
            return extract("?") if request.purpose == "extract" else spend(input_tokens=100, output_tokens=10)

    run = AgentRun(
        spec(
            tools=[peek],
            limits=limits,
            max_iters=50,
            prices=TokenPrices(input=2, output=5),
            policy=Policy(no_progress=None),
        )
    )
    output = drive(run, Model())
    assert (output.usage.lm_calls, output.termination_reason, output.partial) == (lm_calls, reason, partial)
    assert output.error.kind == reason


def test_the_limit_in_seconds_bounds_tools_too():
    @tool(read_only=True)
    def slow() -> str:
        """Take long."""
        time.sleep(5)
        return "late"

    started = time.monotonic()
    output, _ = play(call("slow"), tools=[slow], limits=UsageLimits(seconds=0.3))
    assert time.monotonic() - started < 2
    assert output.termination_reason == "budget_exceeded"
    assert output.structured_trace[0].error.kind == "timeout"


def test_a_tool_knows_its_call_and_what_is_left():
    seen = []

    def look(key: str, ctx: ToolContext) -> str:
        """Look."""
        seen.append(ctx)
        return "ok"

    run = AgentRun(spec(tools=[look], limits=UsageLimits(lm_calls=5, seconds=60), max_iters=4))
    drive(run, Script(call("look", key="a"), call("finish", answer="x")))
    (context,) = seen
    assert (context.run_id, context.correlation_id, context.step_id, context.tool_call_id) == (
        run.run_id,
        "t1",
        "s1",
        "s1-c1",
    )
    assert (context.remaining.lm_calls, context.remaining.iterations) == (4, 3)
    assert 0 < context.seconds_left <= 30


# -- cancellation ------------------------------------------------------------------------------------------------------


def test_cancelling_while_a_tool_hangs_stops_the_run_at_once():
    token = CancellationToken()
    faulty = FaultyTool(send, ["hang"])
    threading.Timer(0.1, token.cancel, ["enough"]).start()
    events = []
    started = time.monotonic()
    output, _ = play(call("send", text="a"), tools=[faulty.tool], cancellation=token, listeners=(events.append,))
    assert time.monotonic() - started < 2
    assert (output.termination_reason, output.error.message) == ("interrupted", "enough")
    assert output.structured_trace[0].outcome == "interrupted"
    check_events(events)
    assert events[-1].kind == "run_cancelled"


def test_cancelling_an_async_run_reaches_its_tool():
    cancelled = []

    async def slow(ctx: ToolContext) -> str:
        """Wait."""
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.append(ctx.cancellation.cancelled)
        return "late"

    async def main():
        token, events = CancellationToken(), []
        run = AgentRun(spec(tools=[slow], cancellation=token, listeners=(events.append,)))
        asyncio.get_running_loop().call_later(0.05, token.cancel)
        output = await adrive(run, Script(call("slow")))
        check_events(events)
        return output

    assert asyncio.run(main()).structured_trace[0].outcome == "interrupted"
    assert len(cancelled) == 1


def test_a_late_result_changes_nothing():
    run = AgentRun(spec(tools=[send]))
    run.next_step()
    run.model_replied(call("send", text="a"))
    step = run.next_step()
    run.cancel("enough")
    before = run.output()
    from ace.tools import call_tool

    run.tool_finished(call_tool(send, step.call))
    run.model_replied(call("finish", answer="late"))
    run.model_failed(ModelTransport("late"))
    after = run.output()
    assert before.model_copy(update={"usage": after.usage}) == after


def test_a_token_that_is_set_already_stops_before_anything_happens():
    token = CancellationToken()
    token.cancel("never mind")
    output, model = play(call("send", text="a"), tools=[send], cancellation=token)
    assert (output.termination_reason, model.asked) == ("interrupted", [])


# -- several calls in one reply --------------------------------------------------------------------------------------


def several(*calls, thought="t"):
    first, *more = [RequestedTool(name, args) for name, args in calls]
    return ModelReply(
        thought=thought, tool_name=first.name, tool_args=first.args, more=tuple(more), usage=RunUsage(lm_calls=1)
    )


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_calls_that_only_read_run_side_by_side_and_come_back_in_order(driver):
    together = threading.Barrier(3, timeout=5)

    @tool(read_only=True)
    def meet(n: int) -> str:
        """Wait for the others."""
        together.wait()
        time.sleep(0.05 * (3 - n))
        return f"n{n}"

    reply = several(*[("meet", {"n": n}) for n in range(3)])
    run = AgentRun(spec(tools=[meet]))
    model = Script(reply, call("finish", answer="x"))
    output = drive(run, model) if driver == "sync" else asyncio.run(adrive(run, model))
    assert [step.observation for step in output.structured_trace] == ["n0", "n1", "n2"]
    assert [step.iteration for step in output.structured_trace] == [1, 1, 1]
    assert [step.tool_call_id for step in output.structured_trace] == ["s1-c1", "s1-c2", "s1-c3"]


def test_calls_that_change_something_run_one_after_another():
    order = []

    @tool
    def write(n: int) -> str:
        """Write."""
        order.append(("start", n))
        time.sleep(0.02)
        order.append(("end", n))
        return "ok"

    play(several(("write", {"n": 1}), ("write", {"n": 2})), call("finish", answer="x"), tools=[write])
    assert order == [("start", 1), ("end", 1), ("start", 2), ("end", 2)]


def test_one_failing_sibling_does_not_hide_the_others():
    faulty = FaultyTool(peek, ["exception"])
    output, _ = play(
        several(("peek", {"key": "a"}), ("peek", {"key": "b"})),
        call("finish", answer="x"),
        tools=[faulty.tool],
        policy=Policy(tool_retry=None),
    )
    assert sorted(step.outcome for step in output.structured_trace) == ["failed", "success"]


def test_fail_fast_waits_for_what_is_out_and_calls_nothing_more():
    faulty = FaultyTool(send, ["exception"])
    output, _ = play(
        several(("send", {"text": "a"}), ("send", {"text": "b"})),
        tools=[faulty.tool],
        policy=Policy(tool_error="fail_fast"),
    )
    assert (output.termination_reason, faulty.calls, len(output.structured_trace)) == ("tool_dispatch", 1, 1)


def test_one_bad_call_keeps_all_of_a_reply_from_running():
    output, _ = play(
        several(("send", {"text": "a"}), ("nope", {})), call("finish", answer="x"), tools=[send], policy=Policy.replay()
    )
    assert [(s.executed, s.error.kind) for s in output.structured_trace] == [
        (False, "cancelled"),
        (False, "unknown_tool"),
    ]


def test_finish_beside_calls_finishes_when_they_succeed():
    reply = several(("send", {"text": "a"}), ("finish", {"answer": "done"}))
    output, model = play(reply, tools=[send])
    assert (output.answer, output.usage.iterations, len(model.asked)) == ("done", 1, 1)
    faulty = FaultyTool(send, ["exception"])
    output, _ = play(reply, call("finish", answer="failed"), tools=[faulty.tool])
    assert output.answer == "failed"


# -- summary -----------------------------------------------------------------------------------------------------------


def summary_reply(text):
    fields = {"objective": "o", "actions": text, "observations": "b", "state": "s"}
    return ModelReply(outputs=fields, usage=RunUsage(lm_calls=1))


def test_the_running_summary_is_in_the_ledger_and_in_the_prompt():
    replies = [
        call("peek", key="a"),
        call("peek", key="b"),
        summary_reply("looked at a and b"),
        call("finish", answer="x"),
    ]
    output, model = play(*replies, tools=[peek], summary=Summary(every=2, keep_last=1))
    assert [request.purpose for request in model.asked] == ["decide", "decide", "summarize", "decide"]
    assert "Conversation so far" in model.asked[-1].trajectory
    assert "looked at a and b" in model.asked[-1].trajectory
    assert "value of a" not in model.asked[-1].trajectory
    assert "value of b" in model.asked[-1].trajectory
    assert (output.usage.summaries, output.usage.lm_calls, output.summary.actions) == (1, 4, "looked at a and b")
    assert len(output.structured_trace) == 2


def test_history_stays_raw_when_its_summary_fails():
    replies = [call("peek", key="a"), ModelTransport("down"), call("finish", answer="x")]
    output, model = play(*replies, tools=[peek], summary=Summary(every=1, keep_last=1))
    assert "value of a" in model.asked[-1].trajectory
    assert (output.summary, output.completed, output.usage.lm_calls) == (None, True, 3)


# -- other agents ------------------------------------------------------------------------------------------------------


class LookFirst(Agent):
    """Looks before it asks, and needs no model at the end."""

    def initialize(self, task):
        return {"looked": "for " + task.text}

    def execute_step(self, state):
        if not state.steps:
            return CallTool.of("peek", key=state.task.text)
        if state.last.observation.startswith("value"):
            return Done({"answer": f"{state.scratch['looked']}: {state.last.observation}"})
        return AskModel("decide", "my own prompt")

    def update_summary(self, state, step):
        return RunSummary(actions=f"{len(state.steps)} steps")


def test_another_agent_gets_the_whole_run_time():
    output, model = play(tools=[peek], agent=LookFirst())
    assert (output.answer, model.asked, output.usage.iterations) == ("for x: value of x", [], 2)
    assert output.summary.actions == "1 steps"
    faulty = FaultyTool(peek, then="refused")
    _, model = play(call("finish", answer="y"), tools=[faulty.tool], agent=LookFirst())
    assert model.asked[0].trajectory.endswith("my own prompt")


def test_a_hook_that_asks_for_nonsense_ends_the_run():
    class Odd(Agent):
        def execute_step(self, state):
            return CallTool.of("nope")

    output, _ = play(tools=[peek], agent=Odd())
    assert output.termination_reason == "invalid_model_action"
    assert "Odd.execute_step" in output.error.message


def test_a_hook_may_stop_the_run():
    class Brief(Agent):
        def should_stop(self, state):
            return len(state.steps) >= 1

    output, model = play(call("peek", key="a"), extract("enough"), tools=[peek], agent=Brief())
    assert (output.answer, output.partial, [r.purpose for r in model.asked]) == ("enough", False, ["decide", "extract"])


# -- tools -------------------------------------------------------------------------------------------------------------


def test_operator_and_model_read_different_texts():
    @tool
    def pay() -> str:
        """Pay."""
        raise ToolError("refused", "card 4242 blocked in /srv/vault", "The card is blocked.")

    output, model = play(call("pay"), call("finish", answer="x"), tools=[pay])
    assert output.structured_trace[0].observation == "The card is blocked."
    assert "4242" not in model.asked[-1].trajectory


def test_every_kind_of_tool_error_has_a_row():
    from typing import get_args

    from ace.core import TOOL_ERROR_KINDS, ToolErrorKind

    assert set(get_args(ToolErrorKind)) == set(TOOL_ERROR_KINDS)


assert Tool
