"""Runs that repeat themselves."""

from dataclasses import dataclass

import pytest
from agent.kit import Script, call, extract, payments, peek, play, send, spec

from ace.agent import (
    AgentRun,
    AppendErrorAndContinue,
    Fail,
    ForceAnswer,
    Interrupt,
    NoProgress,
    Policy,
    RunSnapshot,
    drive,
)
from ace.core import PolicyConfigInvalid, ToolError
from ace.testing import FaultyTool
from ace.tools import Tool, call_tools


def counted(*results, **options):
    """A tool that gives these results in turn, the last one for ever, and the calls that reached it."""
    made = []

    def look(key: str) -> str:
        """Look."""
        made.append(key)
        found = results[min(len(made), len(results)) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    return Tool.from_function(look, **options), made


@pytest.mark.parametrize("options", [{"read_only": True}, {}], ids=["reads", "changes"])
def test_a_call_with_a_known_result_is_not_made_a_third_time_and_then_the_answer_is_asked_for(options):
    look, made = counted("x" * 1_000, **options)
    output, model = play(*[call("look", key="a")] * 4, extract("?"), tools=[look], max_iters=20)
    assert (output.termination_reason, output.partial, output.answer) == ("no_progress", True, "?")
    assert (len(made), output.usage.tool_calls, output.usage.iterations) == (2, 2, 4)
    third, fourth = output.structured_trace[2:]
    assert (third.executed, third.outcome, fourth.executed) == (False, "success", False)
    known = "x" * 200 + "... [800 more characters] (Known: not called again.)"
    assert third.observation.startswith(f"{known} (The same call gave the same result 3 times")
    assert output.tool_usage == {"look": 2}
    assert [request.purpose for request in model.asked][-2:] == ["decide", "extract"]


def test_a_result_that_changes_is_polled_as_often_as_it_takes():
    look, made = counted("1 %", "1 %", "2 %", "3 %", "4 %", "done", read_only=True)
    output, _ = play(call("look", key="a"), call("look", key="a"), call("send", text="b"),
                     *[call("look", key="a")] * 4, call("finish", answer="x"), tools=[look, send], max_iters=20)  # fmt: skip
    assert (output.completed, len(made)) == (True, 6)


def test_a_failure_that_is_known_is_not_tried_again():
    look, made = counted(ToolError("refused", "closed"), read_only=True)
    output, _ = play(*[call("look", key="a")] * 3, call("finish", answer="x"), tools=[look], max_iters=20)
    assert (len(made), output.structured_trace[2].error.kind) == (2, "refused")
    assert output.structured_trace[2].observation.startswith("closed (Known: not called again.)")
    assert output.structured_trace[2].result == "closed"


def test_a_tool_that_fails_of_itself_is_called_until_its_breaker_opens():
    look, made = counted(ValueError("broken"), read_only=True)
    policy = Policy(tool_retry=None)
    output, _ = play(*[call("look", key="a")] * 4, extract("x"), tools=[look], max_iters=20, policy=policy)
    assert (len(made), output.structured_trace[2].executed) == (3, True)
    assert "look is out of service now; use another tool." in output.structured_trace[2].observation


def test_other_arguments_are_another_call():
    look, made = counted("no", read_only=True)
    play(*[call("look", key=key) for key in "abcab"], call("finish", answer="x"), tools=[look], max_iters=20)
    assert made == list("abcab")


def test_a_call_that_a_person_approved_is_made():
    pay, paid = payments()
    run = AgentRun(spec(tools=[pay], max_iters=20))
    script = Script(*[call("pay", amount=1)] * 3, call("finish", answer="x"))
    drive(run, script)
    for _ in range(3):
        run = AgentRun.restore(run.snapshot(), spec(tools=[pay]))
        run.resume("approve")
        drive(run, script)
    assert paid == [1, 1, 1]


def test_what_is_known_is_known_after_a_crash():
    look, made = counted("no", read_only=True)
    run = AgentRun(spec(tools=[look], max_iters=20))
    for _ in range(2):
        run.next_step()
        run.model_replied(call("look", key="a"))
        for result in call_tools([(run.tool(c), c, None) for c in run.next_step().calls]):
            run.tool_finished(result)
    stored = RunSnapshot.from_json(run.snapshot().to_json())
    again = AgentRun.restore(stored, spec(tools=[look]))
    drive(again, Script(call("look", key="a"), call("finish", answer="x")))
    assert len(made) == 2


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


assert Tool


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


def test_a_note_of_the_policy_is_part_of_the_observation():
    class Helpful(Policy):
        def on_tool_error(self, state, failed):
            return AppendErrorAndContinue("Try the other one.")

    faulty = FaultyTool(send, ["exception"])
    output, _ = play(call("send", text="a"), call("finish", answer="x"), tools=[faulty.tool], policy=Helpful())
    assert output.structured_trace[0].observation == "send failed. Try the other one."
