"""The drivers: time limits, cancellation, calls side by side."""

import asyncio
import threading
import time

import pytest
from agent.kit import Script, call, extract, peek, play, send, spec

from ace.agent import (
    AdmissionControl,
    AgentRun,
    ModelReply,
    Policy,
    RequestedTool,
    RetryPolicy,
    adrive,
    drive,
)
from ace.core import (
    CancellationToken,
    InvalidModelAction,
    ModelTransport,
    ObserverThread,
    RunUsage,
    TokenPrices,
    ToolContext,
    UsageLimits,
)
from ace.testing import FaultyTool, check_events
from ace.tools import Tool, tool


def spend(**usage):
    return ModelReply(thought="t", tool_name="peek", tool_args={"key": "a"}, usage=RunUsage(lm_calls=1, **usage))


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


NOT_READ = [call("finish", answer="x"), call("nope"), ModelTransport("down"), InvalidModelAction("unparsable", "no")]


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("reply", NOT_READ, ids=["finish", "bad call", "transport", "unreadable"])
def test_cancelling_while_the_model_is_asked_interrupts_whatever_it_answers(driver, reply):
    class Stopping(Script):
        def ask(self, request):
            token.cancel("enough")
            return super().ask(request)

    token, events, saved = CancellationToken(), [], []
    run = AgentRun(spec(cancellation=token, listeners=(events.append,)))
    save = lambda run: saved.append(run.snapshot())  # noqa: E731
    model = Stopping(reply)
    output = drive(run, model, save) if driver == "sync" else asyncio.run(adrive(run, model, save))
    assert (output.termination_reason, output.error.message, output.usage.lm_calls) == ("interrupted", "enough", 1)
    check_events(events)
    again = AgentRun.restore(saved[-1], spec())
    again.resume()
    assert drive(again, Script(call("finish", answer="x"))).answer == "x"


def test_a_sync_run_does_not_wait_for_the_model_when_it_is_cancelled():
    class Slow(Script):
        def ask(self, request):
            leave.wait(10)
            return super().ask(request)

    token, leave = CancellationToken(), threading.Event()
    threading.Timer(0.1, token.cancel, ["enough"]).start()
    started = time.monotonic()
    output = drive(AgentRun(spec(cancellation=token)), Slow(call("finish", answer="late")))
    assert time.monotonic() - started < 2
    assert (output.termination_reason, output.answer) == ("interrupted", None)
    leave.set()


def test_a_reply_that_comes_after_a_cancellation_is_paid_for():
    token = CancellationToken()
    run = AgentRun(spec(cancellation=token))
    run.next_step()
    token.cancel("enough")
    run.model_replied(spend(input_tokens=7))
    assert (run.state.kind, run.record.usage.input_tokens) == ("interrupted", 7)


def test_a_token_that_is_set_already_stops_before_anything_happens():
    token = CancellationToken()
    token.cancel("never mind")
    output, model = play(call("send", text="a"), tools=[send], cancellation=token)
    assert (output.termination_reason, model.asked) == ("interrupted", [])


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


def test_one_bad_call_keeps_all_of_a_reply_from_running():
    output, _ = play(
        several(("send", {"text": "a"}), ("nope", {})), call("finish", answer="x"), tools=[send], policy=Policy.replay()
    )
    assert [(s.executed, s.error.kind) for s in output.structured_trace] == [
        (False, "cancelled"),
        (False, "unknown_tool"),
    ]


def test_calls_beside_finish_are_made_first_and_it_is_asked_for_again():
    reply = several(("send", {"text": "a"}), ("finish", {"answer": "done"}))
    output, model = play(reply, call("finish", answer="seen and done"), tools=[send])
    assert (output.answer, output.usage.iterations, len(model.asked)) == ("seen and done", 2, 2)
    assert output.structured_trace[0].observation.endswith("came first: 'submit'. Ask again if it is still needed.)")


assert Tool


def test_ctrl_c_leaves_a_saved_run_that_goes_on():
    saved = []

    class Interrupted(Script):
        def ask(self, request):
            raise KeyboardInterrupt

    run = AgentRun(spec(tools=[peek]))
    with pytest.raises(KeyboardInterrupt):
        drive(run, Interrupted(), lambda run: saved.append(run.snapshot()))
    assert saved[-1].state.kind == "interrupted"
    with pytest.raises(KeyboardInterrupt):
        drive(AgentRun(spec(tools=[peek])), Interrupted())
    again = AgentRun.restore(saved[-1], spec(tools=[peek]))
    again.resume()
    assert drive(again, Script(call("finish", answer="x"))).answer == "x"


@pytest.mark.parametrize("stored", [True, False])
def test_cancelling_the_task_cancels_the_run(stored):
    saved = []

    class Slow(Script):
        async def aask(self, request):
            await asyncio.sleep(30)

    async def main():
        events = []
        run = AgentRun(spec(tools=[peek], listeners=(events.append,)))
        save = (lambda run: saved.append(run.snapshot())) if stored else None
        task = asyncio.create_task(adrive(run, Slow(), save))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        check_events(events)
        return run

    run = asyncio.run(main())
    assert (run.state.kind, run.state.cause) == ("interrupted", "cancelled")
    assert run.record.usage.lm_calls == 1
    if stored:
        assert saved[-1].state == run.state


def test_a_task_that_is_cancelled_while_it_saves_has_saved():
    saved, entered = [], threading.Event()

    def slow_save(run):
        entered.set()
        time.sleep(0.1)
        saved.append(run.snapshot().state.kind)

    async def main():
        task = asyncio.create_task(adrive(AgentRun(spec(tools=[peek])), Script(call("finish", answer="x")), slow_save))
        await asyncio.to_thread(entered.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert saved == ["thinking", "interrupted"]


def test_cancelling_the_token_from_a_thread_stops_an_async_wait():
    async def main():
        token = CancellationToken()
        faulty = FaultyTool(peek, then="timeout")
        patient = Policy(
            tool_retry=RetryPolicy(initial_interval=20.0, jitter=False)
        )  # the retry waits for its back-off
        run = AgentRun(spec(tools=[faulty.tool], cancellation=token, policy=patient))
        threading.Timer(0.1, token.cancel, ["enough"]).start()
        return await adrive(run, Script(call("peek", key="a")))

    started = time.monotonic()
    output = asyncio.run(main())
    assert time.monotonic() - started < 5
    assert output.error.message == "enough"


def test_a_token_set_after_the_end_does_not_reach_the_caller():
    async def main():
        token = CancellationToken()
        output = await adrive(AgentRun(spec(cancellation=token)), Script(call("finish", answer="x")))
        token.cancel("too late")
        await asyncio.sleep(0.02)
        return output

    assert asyncio.run(main()).completed


def test_cancelling_before_the_first_step():
    events = []
    run = AgentRun(spec(listeners=(events.append,)))
    run.cancel("never mind")
    check_events(events)
    assert [e.kind for e in events] == ["run_started", "run_cancelled"]


def test_observers_of_async_runs_are_waited_for():
    seen = []
    relay = ObserverThread(lambda event: seen.append(event.kind))
    asyncio.run(adrive(AgentRun(spec(observers=(relay,))), Script(call("finish", answer="x"))))
    assert seen[-1] == "run_completed"


def test_the_pacer_lets_everybody_in_and_forgets_who_left():
    async def main():
        admission, order = AdmissionControl(), []

        async def one(n):
            await admission.turn()
            order.append(n)
            time.sleep(0.004)  # the loop is never calm: patience lets the next one in

        tasks = [asyncio.create_task(one(n)) for n in range(6)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.1)
        await admission.turn()
        return order

    assert asyncio.run(main()) == [0, 1, 2, 4, 5]
