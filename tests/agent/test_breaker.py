"""Circuit breakers of tools."""

from agent.kit import Script, call, peek, send, spec
from manual_clock import ManualClock

from ace.agent import (
    AgentRun,
    BreakerPolicy,
    Policy,
    drive,
)
from ace.testing import FaultyTool


def breaker_run(replies, faulty, clock, **settings):
    policy = Policy(
        tool_retry=None, no_progress=None, breaker=BreakerPolicy(**{"threshold": 2, "cooldown": 60, **settings})
    )
    run = AgentRun(spec(tools=[faulty.tool, send], policy=policy, clock=clock, max_iters=20))
    model = Script(*replies)
    return drive(run, model), model


def test_a_tool_that_fails_in_a_row_leaves_the_catalog():
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
