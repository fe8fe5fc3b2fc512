"""The five hooks of an agent."""

from agent.kit import call, extract, peek, play

from ace.agent import (
    Agent,
    AskModel,
    CallTool,
    Done,
)
from ace.agent.hooks import StepView
from ace.core import (
    RunUsage,
)
from ace.tasks import RunSummary, TaskInput
from ace.testing import FaultyTool
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


assert Tool


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
