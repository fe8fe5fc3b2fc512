"""Corners of the run-time: stops in odd moments, odd policies, odd callers."""

import asyncio
import threading
import time
from dataclasses import dataclass

import pytest
from agent.kit import Script, call, extract, play, spec

from ace.agent import (
    AdmissionControl,
    Agent,
    AgentRun,
    AgentState,
    AppendErrorAndContinue,
    Approve,
    CallTool,
    Done,
    Fail,
    FolderRunStore,
    ForceAnswer,
    Interrupt,
    MemoryRunStore,
    ModelReply,
    NoProgress,
    Policy,
    RequestedTool,
    RetryPolicy,
    RunSnapshot,
    Thinking,
    adrive,
    drive,
)
from ace.agent.hooks import StepView
from ace.agent.streaming import AsyncRunStream
from ace.core import (
    CancellationToken,
    InvalidModelAction,
    ModelTransport,
    ObserverThread,
    ResumeError,
    RunStoreError,
    RunUsage,
    ToolError,
    check_events,
)
from ace.tasks import ReasoningStep, TaskInput
from ace.testing import FaultyTool, ManualClock
from ace.tools import Tool, tool


@tool(read_only=True)
def peek(key: str) -> str:
    """Look at a key."""
    return f"value of {key}"


@tool
def send(text: str) -> str:
    """Send a text."""
    return "sent"


@dataclass(frozen=True)
class Circling(Policy):
    decision: object = None
    no_progress: NoProgress = NoProgress(note_after=2, stop_after=2)  # noqa: RUF009

    def on_no_progress(self, state, call, times):
        return self.decision


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (Fail(), "no_progress"),
        (Interrupt("look at this"), "interrupted"),
        (ForceAnswer(), "no_progress"),
        (AppendErrorAndContinue(""), "completed"),
        ("nonsense", "policy_runtime_violation"),
    ],
)
def test_every_answer_to_a_loop(decision, reason):
    end = extract("x") if isinstance(decision, ForceAnswer) else call("finish", answer="x")
    output, _ = play(
        call("peek", key="a"), call("peek", key="a"), end, tools=[peek], policy=Circling(decision=decision)
    )
    assert output.termination_reason == reason
    assert len(output.structured_trace) == 2
    if isinstance(decision, Fail):
        assert "again and again" in output.error.message


def test_a_forced_answer_after_a_dead_model():
    class Forcing(Policy):
        def on_model_error(self, state, error):
            return ForceAnswer()

    output, _ = play(ModelTransport("down"), extract("x"), policy=Forcing())
    assert (output.termination_reason, output.partial, output.answer) == ("model_transport", True, "x")
    assert output.error.message == "the answer was forced: model transport"


def test_a_note_of_the_policy_is_part_of_the_observation():
    class Helpful(Policy):
        def on_tool_error(self, state, failed):
            return AppendErrorAndContinue("Try the other one.")

    faulty = FaultyTool(send, ["exception"])
    output, _ = play(call("send", text="a"), call("finish", answer="x"), tools=[faulty.tool], policy=Helpful())
    assert output.structured_trace[0].observation == "send failed. Try the other one."


def test_a_violation_settles_what_else_is_out():
    barrier = threading.Barrier(2, timeout=5)

    @tool(read_only=True)
    def meet(n: int) -> str:
        """Meet."""
        barrier.wait()
        raise ToolError("exception", "broken")

    class Odd(Policy):
        def on_tool_error(self, state, failed):
            return ForceAnswer()

    events = []
    reply = ModelReply(
        tool_name="meet", tool_args={"n": 1}, more=(RequestedTool("meet", {"n": 2}),), usage=RunUsage(lm_calls=1)
    )
    output, _ = play(reply, tools=[meet], policy=Odd(), listeners=(events.append,))
    assert output.termination_reason == "policy_runtime_violation"
    check_events(events)


def test_a_policy_sees_the_run_but_cannot_change_it():
    seen = []

    class Watching(Policy):
        def on_model_error(self, state, error):
            seen.append(state)
            return super().on_model_error(state, error)

    play(call("peek", key="a"), call("nope"), tools=[peek], policy=Watching())
    (state,) = seen
    assert (state.user_input, state.correlation_id, state.step_count, state.attempt, state.reprompts) == (
        "x",
        "t1",
        1,
        1,
        0,
    )
    assert state.usage.lm_calls == 2
    with pytest.raises(AttributeError):
        state.step_count = 5


def test_a_run_is_an_agent_state():
    run: AgentState = AgentRun(spec(tools=[peek]))
    step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="peek", outcome="success", observation="seen")
    state: AgentState = run.record
    state.append_scratchpad(step)
    state.set_final_output({"answer": "x"})
    assert (state.user_input, state.correlation_id, state.step_count) == ("x", "t1", 0)
    assert "seen" in run.next_step().trajectory
    assert run.output().answer == "x"


def test_the_default_hooks():
    agent = Agent()
    view = StepView(TaskInput(inputs={"task": "x"}), (), RunUsage(), "text")
    assert (agent.initialize(view.task), agent.should_stop(view), view.last) == ({}, False, None)
    assert agent.execute_step(view).trajectory == "text"
    assert agent.update_summary(view, None) is None


def test_a_hook_that_ends_without_outputs_asks_for_them():
    class Ends(Agent):
        def execute_step(self, state):
            return Done()

    output, model = play(extract("x"), agent=Ends())
    assert (output.answer, model.asked[0].purpose) == ("x", "extract")


def test_a_hook_may_make_several_calls():
    class Both(Agent):
        def execute_step(self, state):
            if state.steps:
                return Done({"answer": " ".join(s.observation for s in state.steps)})
            return CallTool((*CallTool.of("peek", key="a").calls, *CallTool.of("peek", key="b").calls))

    assert play(tools=[peek], agent=Both())[0].answer == "value of a value of b"


# -- stopping ----------------------------------------------------------------------------------------------------------


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


def test_a_stream_is_over_only_at_its_end():
    async def main():
        async def start(listener):
            run = AgentRun(spec(listeners=(listener,)))
            return await adrive(run, Script(call("finish", answer="x")))

        stream = AsyncRunStream(start, CancellationToken())
        with pytest.raises(ResumeError):
            assert stream.output
        await stream.aclose()
        kinds = [event.kind async for event in stream]
        await stream.aclose()
        return kinds, stream.output.answer

    assert asyncio.run(main())[1] == "x"


# -- resuming ----------------------------------------------------------------------------------------------------------


def dispatched(tools, *calls, **options):
    """A stored run whose calls are out."""
    run = AgentRun(spec(tools=tools, **options))
    run.next_step()
    first, *more = calls
    run.model_replied(ModelReply(tool_name=first[0], tool_args=first[1], more=tuple(RequestedTool(*c) for c in more)))
    run.next_step()
    return RunSnapshot.from_json(run.snapshot().to_json()), run


def test_a_run_that_never_began_is_resumed_from_its_start():
    run = AgentRun.restore(AgentRun(spec(tools=[peek])).snapshot(), spec(tools=[peek]))
    run.resume()
    assert drive(run, Script(call("finish", answer="x"))).completed


def test_a_probe_that_was_cut_off_may_be_sent_again():
    from ace.agent import BreakerPolicy

    policy = Policy(tool_retry=None, breaker=BreakerPolicy(threshold=1, cooldown=0))
    faulty = FaultyTool(peek, ["exception"])
    clock = ManualClock()
    run = AgentRun(spec(tools=[faulty.tool], policy=policy, clock=clock))
    model = Script(call("peek", key="a"), call("peek", key="b"))
    for _ in range(2):
        run.next_step()
        run.model_replied(model.ask(None))
        step = run.next_step()
        if _ == 0:
            from ace.tools import call_tool

            run.tool_finished(call_tool(run.tool(step.call), step.call))
    assert run.record.breakers["peek"].state == "half_open"
    again = AgentRun.restore(run.snapshot(), spec(tools=[faulty.tool], policy=policy, clock=clock))
    again.resume()
    output = drive(again, Script(call("finish", answer="x")))
    assert [s.outcome for s in output.structured_trace] == ["failed", "success"]


def test_several_calls_that_were_cut_off_are_asked_about_together():
    stored, _ = dispatched([send, peek], ("send", {"text": "a"}), ("send", {"text": "b"}))
    run = AgentRun.restore(stored, spec(tools=[send, peek]))
    run.resume()
    assert [c.tool_call_id for c in run.state.request.calls] == ["s1-c1"]  # the second had not gone out
    run.resume("deny")
    output = drive(run, Script(call("finish", answer="x")))
    assert [s.outcome for s in output.structured_trace] == ["interrupted", "success"]


def test_changed_arguments_fit_one_call_only():
    pay = Tool.from_function(send.func, name="pay", requires_approval=True)
    run = AgentRun(spec(tools=[pay]))
    run.next_step()
    run.model_replied(ModelReply(tool_name="pay", tool_args={"text": "a"}, more=(RequestedTool("pay", {"text": "b"}),)))
    assert len(run.state.request.calls) == 2
    with pytest.raises(ResumeError, match="2 wait"):
        run.resume(Approve(args={"text": "c"}))
    run.resume(Approve())
    assert [s.outcome for s in drive(run, Script(call("finish", answer="x"))).structured_trace] == [
        "success",
        "success",
    ]


def test_outputs_that_fit_no_longer_are_given_as_they_were_stored():
    run = AgentRun(spec())
    drive(run, Script(call("finish", answer="x")))
    stored = run.snapshot().model_copy(update={"outputs": {"answer": 7}})
    assert AgentRun.restore(stored, spec()).output().answer == 7


def test_a_result_that_was_settled_by_the_crash_is_fenced():
    stored, run = dispatched([peek], ("peek", {"key": "a"}))
    before = run.output()
    from ace.tools import ToolResult

    run.tool_finished(ToolResult(tool_call_id="s1-c1", outcome="success", text="one"))
    run.tool_finished(ToolResult(tool_call_id="s1-c1", outcome="success", text="two"))
    assert run.output().structured_trace[0].observation == "one"
    assert before.structured_trace == ()
    assert isinstance(run.state, Thinking)
    assert stored.state.calls[0].status == "out"


# -- stores ------------------------------------------------------------------------------------------------------------


def test_a_store_that_cannot_write_keeps_what_was_there(tmp_path, monkeypatch):
    store = FolderRunStore(tmp_path)
    run = AgentRun(spec(), "r1")
    store.save(run.snapshot())

    def broken(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", broken)
    drive(run, Script(call("finish", answer="x")))
    with pytest.raises(OSError, match="disk full"):
        store.save(run.snapshot())
    assert store.load("r1").state.kind == "idle"
    assert store.run_ids() == ("r1",)
    assert not list(tmp_path.glob("*.tmp"))
    with pytest.raises(RunStoreError, match="no run 'r2'"):
        store.load("r2")


def test_the_store_in_memory_forgets_the_oldest():
    store = MemoryRunStore(size=2)
    for name in ("r1", "r2", "r3"):
        store.save(AgentRun(spec(), name).snapshot())
    with pytest.raises(RunStoreError):
        store.load("r1")
    assert store.load("r3").run_id == "r3"
    with store.claim("r3"):
        pass


def test_an_unreadable_reply_keeps_what_could_be_read():
    error = InvalidModelAction("unparsable", "broken", tool_name="peek", received_args={"key": ["a"]})
    output, _ = play(error, call("finish", answer="x"), tools=[peek], policy=Policy.replay())
    step = output.structured_trace[0]
    assert (step.tool_name, step.tool_args, step.tool_call_id) == ("peek", {"key": ["a"]}, "s1-c1")
