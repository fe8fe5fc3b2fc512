"""The record of a run is the state that policies are given."""

from agent.kit import Script, call, peek, spec

from ace.agent import (
    AgentRun,
    AgentState,
    drive,
)
from ace.tasks import ReasoningStep


def test_a_run_is_an_agent_state():
    run: AgentState = AgentRun(spec(tools=[peek]))
    step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="peek", outcome="success", observation="seen")
    state: AgentState = run.record
    state.append_scratchpad(step)
    state.set_final_output({"answer": "x"})
    assert (state.user_input, state.correlation_id, state.step_count) == ("x", "t1", 0)
    assert "seen" in run.next_step().trajectory
    assert run.output().answer == "x"


def test_outputs_that_fit_no_longer_are_given_as_they_were_stored():
    run = AgentRun(spec())
    drive(run, Script(call("finish", answer="x")))
    stored = run.snapshot().model_copy(update={"outputs": {"answer": 7}})
    assert AgentRun.restore(stored, spec()).output().answer == 7
