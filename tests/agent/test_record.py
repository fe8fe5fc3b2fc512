"""What a run has done, as it is stored."""

from agent.kit import Script, call, peek, shown, spec

from ace.agent import AgentRun, drive
from ace.tools import call_tool


def test_outputs_that_fit_no_longer_are_given_as_they_were_stored():
    run = AgentRun(spec())
    drive(run, Script(call("finish", answer="x")))
    stored = run.snapshot().model_copy(update={"outputs": {"answer": 7}})
    assert AgentRun.restore(stored, spec()).output().answer == 7


def test_two_runs_that_go_on_from_one_snapshot_do_not_meet():
    run, options = AgentRun(spec(tools=[peek], max_iters=20)), {"tools": [peek], "max_iters": 20}
    model = Script(call("peek", key="a"))
    run.next_step()
    run.model_replied(model.ask(None))
    for made in run.next_step().calls:
        run.tool_finished(call_tool(run.tool(made), made))
    run.next_step()
    stored, asked = run.snapshot(), []
    for replies in ([call("peek", key="b"), call("peek", key="c")], []):
        again, going_on = AgentRun.restore(stored, spec(**options)), Script(*replies, call("submit", answer="x"))
        again.resume()
        drive(again, going_on)
        asked.append([shown(request) for request in going_on.asked])
    assert asked[0][0] == asked[1][0]
    assert "value of c" in asked[0][-1]
    assert "value of b" not in asked[1][-1]
