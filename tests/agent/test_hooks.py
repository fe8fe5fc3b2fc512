"""The five hooks of an agent."""

import asyncio

import pytest
from agent.kit import Script, call, extract, payments, peek, play, shown, spec

from ace.agent import (
    Agent,
    AgentRun,
    AskModel,
    CallTool,
    Done,
    ModelReply,
    RequestedTool,
    adrive,
    drive,
)
from ace.agent.hooks import StepView
from ace.core import RunUsage
from ace.tasks import RunSummary, TaskInput
from ace.testing import FaultyTool, check_events
from ace.tools import Tool


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
    assert shown(model.asked[0]).endswith("my own prompt")


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


assert Tool


def test_the_default_hooks():
    agent = Agent()
    view = StepView(TaskInput(inputs={"task": "x"}), (), RunUsage())
    assert (agent.initialize(view.task), agent.should_stop(view), view.last) == ({}, False, None)
    assert agent.execute_step(view) == AskModel("decide")
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


ONE = RunUsage(lm_calls=1)
HOOKS = ["initialize", "execute_step", "should_stop", "update_summary"]


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_raises_ends_the_run_as_an_output(hook, driver):
    def raises(self, *args):
        raise KeyError("mine")

    broken, events = type("Mine", (Agent,), {hook: raises})(), []
    run = AgentRun(spec(tools=[peek], agent=broken, listeners=(events.append,)))
    several = ModelReply(
        tool_name="peek", tool_args={"key": "a"}, more=(RequestedTool("peek", {"key": "b"}),), usage=ONE
    )
    model = Script(several, call("finish", answer="x"))
    output = drive(run, model) if driver == "sync" else asyncio.run(adrive(run, model))
    assert output.termination_reason == "internal_invariant"
    assert output.error.message.startswith(f"Mine.{hook} raised KeyError: ")
    assert isinstance(run.error.__cause__, KeyError)
    assert len(output.structured_trace) == (2 if hook == "update_summary" else 0)
    check_events(events)
    assert events[-1].kind == "run_error"


def test_a_hook_that_raises_when_a_run_goes_on_ends_it():
    class Tired(Agent):
        def should_stop(self, state):
            return bool(state.steps) and 1 / 0

    pay, paid = payments()
    run = AgentRun(spec(tools=[pay]))
    drive(run, Script(call("pay", amount=1)))
    again = AgentRun.restore(run.snapshot(), spec(tools=[pay], agent=Tired()))
    again.resume("deny")
    assert (drive(again, Script()).termination_reason, paid) == ("internal_invariant", [])


def test_a_hook_that_returns_nonsense_ends_the_run():
    class Odd(Agent):
        def execute_step(self, state):
            return "look around"

    output, _ = play(agent=Odd())
    assert "Odd.execute_step returned 'look around', expected AskModel, CallTool or Done" in output.error.message
