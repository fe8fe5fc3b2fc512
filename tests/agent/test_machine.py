from dataclasses import dataclass

import pytest
from agent.kit import call, extract, play, spec

from ace.agent import (
    AgentRun,
    AppendErrorAndContinue,
    AskModel,
    BreakerPolicy,
    CallTool,
    Done,
    ForceAnswer,
    Interrupt,
    ModelReply,
    Policy,
    Reprompt,
)
from ace.core import InternalInvariant, InvalidModelAction, ModelTransport, PolicyConfigInvalid


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
    assert "rejected_reply_1" in model.asked[-1].trajectory
    assert "Tools: calculator, finish" in model.asked[-1].trajectory


def test_a_good_reply_ends_the_reprompting():
    output, model = play(
        call("nope"), call("calculator", expression="1"), call("finish", answer="1"), policy=Policy.lenient()
    )
    assert (output.completed, output.usage.reprompts) == (True, 1)
    assert "rejected" not in model.asked[-1].trajectory


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

    run = AgentRun(spec())
    run.next_step()
    run.model_replied(call("calculator", expression="1"))
    run.next_step()
    with pytest.raises(InternalInvariant):
        run.tool_finished(ToolResult(tool_call_id="other", outcome="success", text=""))
    with pytest.raises(InternalInvariant):
        run.model_replied(call("finish", answer=""))


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
        (ModelTransport("down"), AppendErrorAndContinue(), "model_transport"),
        (ModelTransport("down"), Reprompt(), "model_transport"),
        (ModelTransport("down"), None, "None"),
    ],
)
def test_a_policy_that_answers_nonsense_ends_the_run(reply, decision, named):
    output, _ = play(reply, policy=Fixed(decision=decision))
    assert output.termination_reason == "policy_runtime_violation"
    assert named in output.error.message
