"""What a run has done, as it is stored."""

from agent.kit import Script, call, spec

from ace.agent import AgentRun, drive


def test_outputs_that_fit_no_longer_are_given_as_they_were_stored():
    run = AgentRun(spec())
    drive(run, Script(call("finish", answer="x")))
    stored = run.snapshot().model_copy(update={"outputs": {"answer": 7}})
    assert AgentRun.restore(stored, spec()).output().answer == 7
