"""The running summary."""

import pytest
from agent.kit import call, peek, peek_or_refuse, play, shown

from ace.agent import (
    ModelReply,
    Summary,
)
from ace.core import (
    ModelTransport,
    RunUsage,
    UsageLimits,
)


def summary_reply(text):
    fields = {"objective": "o", "actions": text, "observations": "b", "state": "s"}
    return ModelReply(outputs=fields, usage=RunUsage(lm_calls=1))


def test_the_running_summary_is_in_the_usage_and_in_the_prompt():
    replies = [
        call("peek", key="a"),
        call("peek", key="b"),
        summary_reply("looked at a and b"),
        call("finish", answer="x"),
    ]
    output, model = play(*replies, tools=[peek], summary=Summary(every=2, keep_last=1))
    assert [request.purpose for request in model.asked] == ["decide", "decide", "summarize", "decide"]
    assert "Conversation so far" in shown(model.asked[-1])
    assert "looked at a and b" in shown(model.asked[-1])
    assert "value of a" not in shown(model.asked[-1])
    assert "value of b" in shown(model.asked[-1])
    assert (output.usage.summaries, output.usage.lm_calls, output.summary.actions) == (1, 4, "looked at a and b")
    assert len(output.structured_trace) == 2


def test_history_stays_raw_when_its_summary_fails():
    replies = [call("peek", key="a"), ModelTransport("down"), call("finish", answer="x")]
    output, model = play(*replies, tools=[peek], summary=Summary(every=1, keep_last=1))
    assert "value of a" in shown(model.asked[-1])
    assert (output.summary, output.completed, output.usage.lm_calls) == (None, True, 3)


@pytest.mark.parametrize(("limit", "summaries"), [(3, 0), (4, 1)])
def test_a_summary_leaves_room_for_a_decision_and_the_answer(limit, summaries):
    summary = ModelReply(outputs={"objective": "x"}, usage=RunUsage(lm_calls=1))
    replies = [call("peek_or_refuse", key="a"), *[summary] * summaries, call("finish", answer="x")]
    output, _ = play(*replies, tools=[peek_or_refuse], summary=Summary(every=1), limits=UsageLimits(lm_calls=limit))
    assert (output.usage.summaries, output.answer) == (summaries, "x")
