"""What is booked and told, to the unit: charges of retries, limits inside one reply, the words of events."""

from agent.kit import Script, call, extract, play, spec

from ace.agent import AgentRun, ModelReply, Policy, RequestedTool, Retry, RetryPolicy, drive
from ace.core import ModelTransport, RunUsage, ToolError, UsageLimits
from ace.tools import tool

QUICK = RetryPolicy(initial_interval=0.0)


@tool(read_only=True)
def peek(key: str) -> str:
    """Look up a key."""
    if key == "bad":
        raise ToolError("refused", "no such key")
    return f"value of {key}"


def test_a_retry_of_the_model_spends_an_iteration_by_default():
    assert Retry().consume_budget
    replies = (ModelTransport("down"), call("peek", key="a"), call("peek", key="b"), extract("x"))
    output, model = play(*replies, tools=[peek], max_iters=2, policy=Policy(model_retry=QUICK))
    assert [request.purpose for request in model.asked] == ["decide", "decide", "extract"]
    assert (output.usage.iterations, output.usage.retries, output.termination_reason) == (1, 1, "max_iterations")


def test_calls_of_one_reply_stop_at_the_limit_of_tool_calls():
    several = ModelReply(
        thought="t",
        tool_name="peek",
        tool_args={"key": "a"},
        more=(RequestedTool("peek", {"key": "b"}), RequestedTool("peek", {"key": "c"})),
        usage=RunUsage(lm_calls=1),
    )
    output, _ = play(several, extract("x"), tools=[peek], limits=UsageLimits(tool_calls=2))
    assert [step.outcome for step in output.structured_trace] == ["success", "success", "denied"]
    assert output.usage.tool_calls == 2
    assert "all 2 tool calls" in output.structured_trace[2].observation


def test_events_name_the_kind_of_an_error_and_only_of_an_error():
    events = []
    run = AgentRun(spec(tools=[peek], listeners=(events.append,)))
    drive(run, Script(call("peek", key="bad"), call("peek", key="a"), call("finish", answer="x")))
    told = {event.kind: event.data.get("error") for event in events if event.kind.startswith("tool_call_")}
    assert told == {"tool_call_started": None, "tool_call_error": "refused", "tool_call_completed": None}
