"""Runs that repeat themselves."""

from dataclasses import dataclass

import pytest
from agent.kit import call, extract, peek, play, send

from ace.agent import (
    AppendErrorAndContinue,
    Fail,
    ForceAnswer,
    Interrupt,
    NoProgress,
    Policy,
)
from ace.core import (
    PolicyConfigInvalid,
)
from ace.testing import FaultyTool
from ace.tools import Tool


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
