from dataclasses import dataclass, replace

import pytest
from agent.kit import Script, call, extract, payments, peek, peek_or_refuse, play, send, shown, spec
from manual_clock import ManualClock

from ace.agent import (
    AgentRun,
    AppendErrorAndContinue,
    Approve,
    AskModel,
    BreakerPolicy,
    CallTool,
    Deny,
    Done,
    ForceAnswer,
    Interrupt,
    Interrupted,
    ModelReply,
    Policy,
    Reprompt,
    RequestedTool,
    Retry,
    RetryPolicy,
    RunSnapshot,
    Summary,
    Thinking,
    drive,
)
from ace.core import (
    InternalInvariant,
    InvalidModelAction,
    ModelTransport,
    PolicyConfigInvalid,
    ResumeError,
    RunUsage,
    UsageLimits,
)
from ace.testing import FaultyTool, check_events
from ace.tools import Tool, tool


def stopped_at(n, *replies, **options):
    """A run that is stored before its nth step and never does it."""
    saved = []

    class Died(BaseException):
        pass

    def save(run):
        saved.append(run.snapshot().to_json())
        if len(saved) == n:
            raise Died

    run = AgentRun(spec(**options))
    with pytest.raises(Died):
        drive(run, Script(*replies), save)
    return RunSnapshot.from_json(saved[-1])


def dispatched(tools, *calls, **options):
    """A stored run whose calls are out."""
    run = AgentRun(spec(tools=tools, **options))
    run.next_step()
    first, *more = calls
    run.model_replied(ModelReply(tool_name=first[0], tool_args=first[1], more=tuple(RequestedTool(*c) for c in more)))
    run.next_step()
    return RunSnapshot.from_json(run.snapshot().to_json()), run


QUICK = RetryPolicy(initial_interval=0.0)


def test_a_run_asks_calls_and_completes():
    run = AgentRun(spec())
    assert isinstance(run.next_step(), AskModel)
    run.model_replied(call("calculator", expression="1+1"))
    step = run.next_step()
    assert isinstance(step, CallTool)
    from ace.tools import call_tool

    run.tool_finished(call_tool(run.tool(step.call), step.call))
    assert isinstance(run.next_step(), AskModel)
    run.model_replied(call("finish", answer="2"))
    assert isinstance(run.next_step(), Done)
    output = run.output()
    assert (output.answer, output.termination_reason, output.usage.iterations) == ("2", "completed", 2)
    assert output.structured_trace[0].observation == "2"


def test_asking_twice_changes_nothing():
    run = AgentRun(spec())
    assert run.next_step() == run.next_step()


def test_finish_with_fitting_arguments_needs_no_extract():
    output, model = play(call("finish", answer="2"))
    assert (output.answer, len(model.asked)) == ("2", 1)


def test_finish_without_arguments_asks_for_the_answer():
    output, model = play(call("finish"), extract("2"))
    assert (output.answer, output.partial, [r.purpose for r in model.asked]) == ("2", False, ["decide", "extract"])


def test_exhaustion_forces_a_partial_answer():
    output, _ = play(call("calculator", expression="1"), extract("1"), max_iters=1)
    assert (output.answer, output.partial, output.termination_reason) == ("1", True, "max_iterations")
    assert output.error.kind == "max_iterations"


def test_no_iterations_means_extract_only():
    output, model = play(extract("?"), max_iters=0)
    assert (output.usage.iterations, model.asked[0].purpose) == (0, "extract")


def test_exhaustion_keeps_its_reason_when_the_answer_cannot_be_had():
    output, _ = play(ModelTransport("down"), max_iters=0)
    assert (output.answer, output.termination_reason) == (None, "max_iterations")


def test_by_default_an_invalid_action_fails():
    output, _ = play(call("calculate", expression="1"))
    assert output.termination_reason == "invalid_model_action"
    assert "calculator" in output.error.message


def test_lenient_asks_twice_again_and_then_fails():
    output, model = play(*[call("nope")] * 3, policy=Policy.lenient())
    assert (output.termination_reason, output.usage.reprompts, output.usage.iterations) == (
        "invalid_model_action",
        2,
        0,
    )
    assert shown(model.asked[-1]).count("Tools: calculator, submit") == 2  # one note for each reply that was rejected


def test_a_good_reply_ends_the_reprompting():
    output, model = play(
        call("nope"), call("calculator", expression="1"), call("finish", answer="1"), policy=Policy.lenient()
    )
    assert (output.completed, output.usage.reprompts) == (True, 1)
    assert "Tools:" not in str(model.asked[-1].said)
    assert shown(model.asked[-1]).startswith(shown(model.asked[1]))  # what was rejected stays where it stood


def test_reprompts_spend_the_budget():
    output, _ = play(call("nope"), call("nope"), extract("?"), policy=Policy.lenient(), max_iters=2)
    assert output.termination_reason == "max_iterations"


def test_replay_makes_a_bad_call_an_observation():
    output, _ = play(call("nope", a=1), call("finish", answer="1"), policy=Policy.replay())
    step = output.structured_trace[0]
    assert (step.tool_name, step.tool_args, step.executed, step.error.kind) == ("nope", {"a": 1}, False, "unknown_tool")
    assert output.usage.iterations == 2


def test_replay_does_not_hide_a_dead_model():
    output, _ = play(ModelTransport("down"), policy=Policy.replay())
    assert output.termination_reason == "model_transport"


def test_an_unparsable_reply_keeps_its_count():
    error = InvalidModelAction("unparsable", "no fields", raw_response="junk")
    output, _ = play(error, call("finish", answer="1"), policy=Policy.replay())
    assert (output.usage.lm_calls, output.error_history[0].kind) == (2, "unparsable")


def test_a_failed_tool_is_an_observation_or_ends_the_run():
    replies = (call("calculator", expression="1/0"), call("calculator", expression="1"), call("finish", answer="?"))
    output, _ = play(*replies)
    assert output.completed
    assert output.error_history[0].recovered
    output, _ = play(*replies, policy=Policy(tool_error="fail_fast"))
    assert output.termination_reason == "tool_dispatch"


def test_only_injected_bullets_count_as_cited():
    reply = ModelReply(
        thought="as [b-1] and [b-9] say", tool_name="finish", tool_args={"answer": "x", "cited_bullets": ["b-2", "b-8"]}
    )
    output, _ = play(reply, injected_bullets=("b-1", "b-2", "b-3"))
    assert output.cited_bullets == ("b-1", "b-2")


def test_a_result_for_another_call_is_our_bug():
    from ace.tools import ToolResult

    events = []
    run = AgentRun(spec(listeners=(events.append,)))
    run.next_step()
    run.model_replied(call("calculator", expression="1"))
    run.next_step()
    run.tool_finished(ToolResult(tool_call_id="other", outcome="success", text=""))
    assert isinstance(run.next_step(), Done)
    assert isinstance(run.error, InternalInvariant)
    output = run.output()
    assert output.termination_reason == "internal_invariant"
    assert "'other', which was never sent out, in Acting(" in output.error.message
    check_events(events)


def test_the_call_that_ends_a_run_stands_in_its_trace():
    for reply, name, kind in (
        (call("nope", a=1), "nope", "unknown_tool"),
        (call("calculator", a=1), "calculator", "invalid_args"),
        (InvalidModelAction("unparsable", "?", tool_name="calculator", received_args={"a": 1}), None, "unparsable"),
    ):
        if isinstance(reply, ModelReply):
            reply = replace(reply, raw="what it wrote")
        else:
            reply.raw_response, name = "what it wrote", "calculator"
        run = AgentRun(spec())
        output = drive(run, Script(reply))
        (step,) = output.structured_trace
        assert (step.tool_name, step.tool_args, step.executed, step.outcome) == (name, {"a": 1}, False, "failed")
        assert (step.tool_call_id, step.error.kind, step.error.raw_response) == ("s1-c1", kind, "what it wrote")
        assert [(e.tool, e.kind) for e in output.error_history] == [(name, kind)]
        assert (run.error.step_id, run.error.raw_response) == ("s1", "what it wrote")
        assert (output.usage.iterations, output.tool_usage) == (0, {})


def test_of_a_fatal_reply_every_call_stands_in_the_trace():
    reply = ModelReply(tool_name="peek", tool_args={"key": "a"}, more=(RequestedTool("nope", [1]),))
    output, _ = play(reply, tools=[peek])
    assert [(s.tool_name, s.error.kind, s.error.received_args) for s in output.structured_trace] == [
        ("peek", "cancelled", {"key": "a"}),
        ("nope", "unknown_tool", [1]),
    ]


def test_a_reply_that_was_not_not_asked_for_is_our_bug():
    run = AgentRun(spec(tools=[peek]))
    run.next_step()
    run.model_replied(call("peek", key="a"))
    run.model_replied(call("finish", answer=""))
    assert (run.output().termination_reason, run.output().answer) == ("internal_invariant", None)


@pytest.mark.parametrize(
    "options",
    [
        {"on_invalid_action": "reprompt"},
        {"on_invalid_action": 2},
        {"tool_error": "ignore"},
        {"tool_error": "fail_fast", "breaker": BreakerPolicy(threshold=1)},
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(options):
    with pytest.raises(PolicyConfigInvalid):
        Policy(**options)


def test_every_error_that_can_end_a_run_has_its_reason():
    from typing import get_args

    from ace.tasks import TerminationReason

    assert {e.kind for e in (ModelTransport, InvalidModelAction, InternalInvariant)} <= set(get_args(TerminationReason))


def test_arguments_nested_too_deeply_are_an_invalid_action():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    output, _ = play(call("calculator", expression=deep), call("finish", answer="x"), policy=Policy.replay())
    assert output.error_history[0].kind == "invalid_args"


@pytest.mark.parametrize("args", [None, "text", [1], {}])
def test_finish_with_any_odd_argument_asks_for_the_answer(args):
    output, _ = play(ModelReply(tool_name="finish", tool_args=args), extract("2"))
    assert (output.answer, output.termination_reason) == ("2", "completed")


@dataclass(frozen=True)
class Fixed(Policy):
    decision: object = None

    def on_model_error(self, state, error):
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    def on_tool_error(self, state, failed):
        return self.on_model_error(state, None)


def test_a_policy_may_interrupt():
    for reply in (call("nope"), call("calculator", expression="1/0")):
        output, _ = play(reply, policy=Fixed(decision=Interrupt("ask a person")))
        assert (output.termination_reason, output.error.message) == ("interrupted", "ask a person")


@pytest.mark.parametrize(
    ("reply", "decision", "named"),
    [
        (call("calculator", expression="1/0"), Reprompt(), "Reprompt"),
        (call("calculator", expression="1/0"), ForceAnswer(), "ForceAnswer"),
        (call("calculator", expression="1/0"), "go on", "go on"),
        (call("calculator", expression="1/0"), KeyError("x"), "KeyError"),
        (ModelTransport("down"), AppendErrorAndContinue(), "a model that cannot be asked"),
        (ModelTransport("down"), Reprompt(), "a model that cannot be asked"),
        (ModelTransport("down"), None, "None"),
    ],
)
def test_a_policy_that_answers_nonsense_ends_the_run(reply, decision, named):
    output, _ = play(reply, policy=Fixed(decision=decision))
    assert output.termination_reason == "policy_runtime_violation"
    assert named in output.error.message


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


def test_what_is_thrown_away_takes_no_number():
    summary = ModelReply(outputs={"objective": "x"}, usage=RunUsage(lm_calls=1))
    replies = (
        InvalidModelAction("unparsable", "?"),
        call("peek_or_refuse", key="a"),
        summary,
        call("finish", answer="x"),
    )
    output, _ = play(*replies, tools=[peek_or_refuse], policy=Policy.lenient(), summary=Summary(every=1), max_iters=5)
    assert [(step.iteration, step.tool_call_id) for step in output.structured_trace] == [(1, "s1-c1")]
    assert (output.usage.iterations, output.usage.reprompts, output.usage.summaries) == (2, 1, 1)


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


def test_a_crash_inside_a_tool_that_may_be_repeated_repeats_it():
    stored = stopped_at(2, call("peek", key="a"), tools=[peek])
    events = []
    run = AgentRun.restore(stored, spec(tools=[peek], listeners=(events.append,)))
    run.resume()
    output = drive(run, Script(call("finish", answer="x")))
    assert (output.completed, output.structured_trace[0].outcome, output.structured_trace[0].attempts) == (
        True,
        "success",
        2,
    )
    assert [e.kind for e in events][:3] == ["run_continued", "tool_call_error", "tool_call_started"]
    assert events[0].seq == stored.seq


def test_a_crash_inside_another_tool_stops_and_asks():
    sent = []

    @tool
    def send(text: str) -> str:
        """Send."""
        sent.append(text)
        return "sent"

    stored = stopped_at(2, call("send", text="a"), tools=[send])
    for decided, expected, observation in (("approve", ["a"], "sent"), ("deny", [], "The process died")):
        sent.clear()
        run = AgentRun.restore(stored, spec(tools=[send]))
        run.resume()
        output = drive(run, Script())
        assert (output.termination_reason, output.request.kind, sent) == ("interrupted", "unknown_effect", [])
        assert output.structured_trace[0].outcome == "interrupted"
        run = AgentRun.restore(RunSnapshot.from_json(run.snapshot().to_json()), spec(tools=[send]))
        run.resume(decided)
        output = drive(run, Script(call("finish", answer="x")))
        assert (output.completed, sent) == (True, expected)
        assert output.structured_trace[-1].observation.startswith(observation)


def test_a_crash_while_the_model_thinks_asks_again_and_books_the_lost_request():
    stored = stopped_at(1, tools=[peek])
    run = AgentRun.restore(stored, spec(tools=[peek]))
    run.resume()
    output = drive(run, Script(call("finish", answer="x")))
    assert (output.completed, output.usage.lm_calls) == (True, 2)


def test_every_stop_of_a_run_leads_to_the_same_end():
    replies = [call("peek", key="a"), call("peek", key="b"), call("nope"), call("finish"), extract("x")]
    policy = Policy.lenient()
    whole = drive(AgentRun(spec(tools=[peek], policy=policy)), Script(*replies))
    for n in range(1, 9):
        model = Script(*replies)
        saved = []

        class Died(BaseException):
            pass

        def save(run, saved=saved, n=n, died=Died):
            saved.append(run.snapshot().to_json())
            if len(saved) == n:
                raise died

        with pytest.raises(Died):
            drive(AgentRun(spec(tools=[peek], policy=policy)), model, save)
        run = AgentRun.restore(RunSnapshot.from_json(saved[-1]), spec(tools=[peek], policy=policy))
        run.resume()
        output = drive(run, model)
        assert output.answer == whole.answer
        assert [(s.tool_name, s.observation) for s in output.structured_trace] == [
            (s.tool_name, s.observation) for s in whole.structured_trace
        ]


def test_an_interrupted_state_says_what_it_waits_for():
    pay, _ = payments()
    run = AgentRun(spec(tools=[pay, peek]))
    drive(run, Script(call("pay", amount=1)))
    assert isinstance(run.state, Interrupted)
    assert run.state.resume().calls[0].status == "waiting"


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


def test_arguments_that_no_longer_fit_are_a_failed_call(tmp_path):
    from pydantic import FilePath

    file = tmp_path / "x"
    file.write_text("x")

    def remove(path: FilePath) -> str:
        """Remove."""
        path.unlink()
        raise ConnectionError("lost")

    rm = Tool.from_function(remove, idempotent=True)
    output, _ = play(
        call("remove", path=str(file)),
        call("finish", answer="x"),
        tools=[rm],
        clock=ManualClock(),
        policy=Policy(tool_retry=RetryPolicy(initial_interval=0)),
    )
    assert (output.completed, output.structured_trace[0].error.kind) == (True, "invalid_args")


def test_a_retry_leaves_a_request_for_the_last_answer():
    policy = Policy(model_retry=RetryPolicy(initial_interval=0))
    output, model = play(ModelTransport("down"), extract("forced"), policy=policy, limits=UsageLimits(lm_calls=2))
    assert (output.answer, output.usage.lm_calls, model.asked[-1].purpose) == ("forced", 2, "extract")


def test_going_on_does_not_go_over_the_limits():
    class Stops(Policy):
        def on_no_progress(self, state, call, times):
            return Interrupt("look")

    def one(policy=None):
        return spec(tools=[peek], max_iters=3, policy=policy or Stops())

    run = AgentRun(one())
    drive(run, Script(*[call("peek", key="a")] * 3))
    again = AgentRun.restore(run.snapshot(), one())
    again.resume()
    output = drive(again, Script(extract("x")))
    assert (output.usage.iterations, output.termination_reason) == (3, "max_iterations")


def test_a_retry_needs_a_tool_call_left():
    faulty = FaultyTool(peek, then="network")
    output, _ = play(
        call("peek", key="a"), extract("x"), tools=[faulty.tool], limits=UsageLimits(tool_calls=1), clock=ManualClock()
    )
    step = output.structured_trace[0]
    assert (step.outcome, step.error.kind, step.executed) == ("failed", "network", True)


def two_payments():
    """A run that waits for a decision about two payments, and what was paid."""
    pay, paid = payments()
    run = AgentRun(spec(tools=[pay, peek]))
    first, *more = [
        RequestedTool("pay", {"amount": 1}),
        RequestedTool("peek", {"key": "a"}),
        RequestedTool("pay", {"amount": 2}),
    ]
    drive(run, Script(ModelReply(tool_name=first.name, tool_args=first.args, more=tuple(more))))
    assert [c.tool_call_id for c in run.output().request.calls] == ["s1-c1", "s1-c3"]
    return AgentRun.restore(RunSnapshot.from_json(run.snapshot().to_json()), spec(tools=[pay, peek])), paid


@pytest.mark.parametrize(
    ("decisions", "amounts", "outcomes"),
    [
        ({"s1-c1": "approve", "s1-c3": "deny"}, [1], ["success", "success", "denied"]),
        ({"s1-c3": Approve(), "s1-c1": Deny("not him")}, [2], ["denied", "success", "success"]),
        ({"s1-c1": Approve(args={"amount": 7}), "s1-c3": Approve(args={"amount": 8})}, [7, 8], ["success"] * 3),
        ("approve", [1, 2], ["success"] * 3),
    ],
)
def test_each_call_that_waits_is_decided_by_its_id(decisions, amounts, outcomes):
    run, paid = two_payments()
    run.resume(decisions)
    output = drive(run, Script(call("finish", answer="x")))
    assert (paid, [step.outcome for step in output.structured_trace]) == (amounts, outcomes)
    assert run.snapshot().decisions == 1


@pytest.mark.parametrize(
    ("decisions", "named"),
    [
        ({"s1-c1": "approve"}, r"missing: \['s1-c3'\]"),
        ({"s1-c1": "approve", "s1-c3": "deny", "s1-c2": "deny"}, r"no call that waits: \['s1-c2'\]"),
        ({}, r"missing: \['s1-c1', 's1-c3'\]"),
        ({"s1-c1": "approve", "s1-c3": "perhaps"}, "'perhaps'"),
        ({"s1-c1": "approve", "s1-c3": None}, "None"),
        ({"s1-c1": "approve", "s1-c3": Approve(args={"amount": "much"})}, "'s1-c3' do not fit"),
        (Approve(args={"amount": 1}), "by their ids"),
        ([Approve(), Deny()], "must be"),
    ],
)
def test_decisions_that_do_not_fit_the_calls_change_nothing(decisions, named):
    run, paid = two_payments()
    before = run.snapshot()
    with pytest.raises(ResumeError, match=named):
        run.resume(decisions)
    assert run.snapshot().model_copy(update={"usage": before.usage}) == before
    assert paid == []
