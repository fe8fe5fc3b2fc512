"""What the policy decides: reprompts, limits, siblings, texts for operator and model."""

import threading

import pytest
from agent.kit import Script, call, extract, peek, play, send, shown, spec

from ace.agent import (
    AgentRun,
    BreakerPolicy,
    ForceAnswer,
    ModelReply,
    OnceWithToolCatalog,
    Policy,
    RequestedTool,
    RetryPolicy,
    UpTo,
    drive,
)
from ace.core import (
    InvalidModelAction,
    PolicyConfigInvalid,
    RunUsage,
    TokenPrices,
    ToolDispatch,
    ToolError,
)
from ace.tasks import ReasoningStep
from ace.testing import FaultyTool, check_events
from ace.tools import Tool, tool


def test_once_with_tool_catalog_asks_once_and_lists_the_tools():
    output, model = play(
        call("calculator", wrong=1), call("finish", answer="x"), policy=Policy(on_invalid_action=OnceWithToolCatalog())
    )
    assert (output.completed, output.usage.reprompts) == (True, 1)
    assert "Tools: calculator, submit" in shown(model.asked[-1])
    output, _ = play(call("nope"), call("nope"), policy=Policy(on_invalid_action=OnceWithToolCatalog()))
    assert output.termination_reason == "invalid_model_action"


@pytest.mark.parametrize("n", [0, -1, 11, 2.5, "3", True, None])
def test_reprompts_are_bounded(n):
    with pytest.raises(PolicyConfigInvalid):
        UpTo(n)


def test_reprompts_may_be_free_but_never_without_bound():
    policy = Policy(on_invalid_action=UpTo(3), consume_budget=False)
    output, model = play(*[call("nope")] * 4, policy=policy, max_iters=1)
    assert (output.termination_reason, len(model.asked)) == ("invalid_model_action", 4)


def several(*calls, thought="t"):
    first, *more = [RequestedTool(name, args) for name, args in calls]
    return ModelReply(
        thought=thought, tool_name=first.name, tool_args=first.args, more=tuple(more), usage=RunUsage(lm_calls=1)
    )


def test_fail_fast_waits_for_what_is_out_and_calls_nothing_more():
    faulty = FaultyTool(send, ["exception"])
    output, _ = play(
        several(("send", {"text": "a"}), ("send", {"text": "b"})),
        tools=[faulty.tool],
        policy=Policy(tool_error="fail_fast"),
    )
    assert (output.termination_reason, faulty.calls, len(output.structured_trace)) == ("tool_dispatch", 1, 1)


def test_operator_and_model_read_different_texts(caplog):
    @tool
    def pay() -> str:
        """Pay."""
        raise ToolError("refused", "card 4242 blocked in /srv/vault", "The card is blocked.")

    output, model = play(call("pay"), call("finish", answer="x"), tools=[pay])
    (step,), (record,), operator = output.structured_trace, output.error_history, "card 4242 blocked in /srv/vault"
    assert (step.observation, step.error.message, record.message) == ("The card is blocked.",) * 3
    assert (step.error.operator_message, record.operator_message) == (operator, operator)
    assert [line.getMessage().partition(": ")[2] for line in caplog.records] == [f"pay failed: {operator}"]
    assert "4242" not in shown(model.asked[-1])


def test_a_failed_tool_that_ends_a_run_keeps_what_it_raised():
    vault = OSError("the vault is shut")

    @tool
    def pay() -> str:
        """Pay."""
        raise ToolError("refused", "card 4242 blocked", "The card is blocked.", source=vault)

    run = AgentRun(spec(tools=[pay], policy=Policy(tool_error="fail_fast")))
    output = drive(run, Script(call("pay")))
    assert (output.error.message, output.error.operator_message) == (
        "pay: The card is blocked.",
        "card 4242 blocked (caused by OSError: the vault is shut)",
    )
    error = run.error
    assert isinstance(error, ToolDispatch)
    assert (error.tool, error.error_kind, str(error)) == ("pay", "refused", "pay: The card is blocked.")
    assert error.source.source is vault
    assert error.__cause__ is error.source


def test_every_kind_of_tool_error_has_a_row():
    from typing import get_args

    from ace.core import TOOL_ERROR_KINDS, ToolErrorKind

    assert set(get_args(ToolErrorKind)) == set(TOOL_ERROR_KINDS)


assert Tool


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


def write_a_step(state):
    step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="peek", outcome="success", observation="seen")
    state.append_scratchpad(step)


WRITES = {
    "append_scratchpad is not for policies": write_a_step,
    "set_final_output is not for policies": lambda state: state.set_final_output({"answer": "mine"}),
    "cannot assign to field 'usage'": lambda state: setattr(state, "usage", None),
}


@pytest.mark.parametrize("problem", WRITES)
@pytest.mark.parametrize("reply", [call("nope"), call("calculator", expression="1/0")], ids=["reply", "tool"])
def test_a_policy_that_writes_into_the_state_ends_the_run_and_changes_nothing(problem, reply):
    class Writing(Policy):
        def on_model_error(self, state, error):
            return WRITES[problem](state)

        def on_tool_error(self, state, failed):
            return WRITES[problem](state)

    output, _ = play(reply, policy=Writing())
    assert output.termination_reason == "policy_runtime_violation"
    assert problem in output.error.message
    assert (output.outputs, len(output.structured_trace), output.usage.lm_calls) == ({}, 1, 1)


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


def test_a_forgiving_run_reads_what_fits_and_goes_on():
    policy = Policy.named("forgiving")
    assert (policy, policy.name) == (Policy.forgiving(), "forgiving")
    output, model = play(call("nope"), call("peek", key="a"), call("finish", answer="x"), tools=[peek], policy=policy)
    first, second = output.structured_trace
    assert (output.completed, output.usage.iterations, output.usage.reprompts) == (True, 3, 0)
    assert (first.executed, first.error.kind, second.observation) == (False, "unknown_tool", "value of a")
    assert "There is no tool 'nope'" in shown(model.asked[1])


@pytest.mark.parametrize("bad", [call("nope"), call("send", txt="a"), InvalidModelAction("unparsable", "no reply")])
def test_three_bad_replies_in_a_row_end_a_forgiving_run(bad):
    good, policy = call("send", text="a"), Policy.forgiving()
    output, model = play(bad, bad, good, bad, bad, bad, tools=[send], policy=policy, max_iters=20)
    assert (output.termination_reason, len(model.asked)) == ("invalid_model_action", 6)
    assert [step.executed for step in output.structured_trace] == [False, False, True, False, False, False]


def test_bad_replies_spend_the_budget_of_a_forgiving_run():
    output, _ = play(call("nope"), call("nope"), extract("?"), policy=Policy.forgiving(), max_iters=2)
    assert (output.termination_reason, output.answer, output.usage.iterations) == ("max_iterations", "?", 2)


def test_an_argument_that_a_reading_tool_does_not_have_is_left_out_and_the_trace_says_so():
    wrong = call("peek", key="a", warehouse=1, shelf=2)
    output, _ = play(wrong, call("finish", answer="x"), tools=[peek], policy=Policy.forgiving())
    (step,) = output.structured_trace
    assert (step.tool_args, step.executed) == ({"key": "a"}, True)
    assert step.observation == "value of a (`warehouse`, `shelf` are no arguments of peek; left out.)"


@pytest.mark.parametrize(
    ("wrong", "policy"),
    [
        (call("send", text="a", to="eve"), Policy.forgiving()),
        (call("peek", kye="a"), Policy.forgiving()),
        (call("peek", key="a", shelf=1), Policy.replay()),
        (call("peek", key=["a"], shelf=1), Policy.forgiving()),
    ],
    ids=["changes", "nothing fits", "not forgiving", "another misfit"],
)
def test_no_other_argument_is_left_out(wrong, policy):
    output, _ = play(wrong, call("finish", answer="x"), tools=[peek, send], policy=policy)
    assert [(step.executed, step.error.kind) for step in output.structured_trace] == [(False, "invalid_args")]
