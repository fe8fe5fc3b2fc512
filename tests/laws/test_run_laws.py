"""Laws of a run, whatever the model and the tools answer."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from ace.agent import AgentRun, ModelReply, Policy, RunSpec, drive
from ace.core import InvalidModelAction, ModelTransport, RunUsage
from ace.tasks import TaskInput
from ace.tools import Tool, ToolRegistry

GRAMMAR = re.compile(
    r"run_started (model_request_started (model_request_error |model_request_completed "
    r"(tool_call_started (tool_call_completed |tool_call_error )|model_request_error )?))+(run_completed|run_error)$"
)


def finish(answer: str, cited_bullets: list[str] = []) -> None:  # noqa: B006
    """End."""


def echo(value: str) -> str:
    """Echo."""
    if value.startswith("!"):
        raise ValueError(value)
    return value


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters()),
    lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(), s, max_size=3),
    max_leaves=5,
)
replies = st.one_of(
    st.builds(
        ModelReply,
        thought=st.text(),
        tool_name=st.sampled_from(["echo", "ecko", "finish", "finish", None, 3]) | anything,
        tool_args=st.dictionaries(st.sampled_from(["value", "answer", "x"]), anything, max_size=2) | anything,
        usage=st.just(RunUsage(lm_calls=1)),
    ),
    st.builds(
        ModelReply,
        tool_name=st.just("echo"),
        tool_args=st.fixed_dictionaries({"value": st.text()}),
        usage=st.just(RunUsage(lm_calls=1)),
    ),
    st.just(ModelTransport("down")),
    st.just(InvalidModelAction("unparsable", "no")),
)
policies = st.sampled_from([Policy(), Policy.lenient(), Policy.replay(), Policy(tool_error="fail_fast")])


class Script:
    def __init__(self, replies):
        self.replies = replies
        self.asked = 0

    def ask(self, request):
        request.trajectory.encode("utf-8")
        reply = self.replies[self.asked % len(self.replies)]
        self.asked += 1
        if isinstance(reply, Exception):
            raise reply
        return reply


@settings(max_examples=150, deadline=None)
@given(st.lists(replies, min_size=1, max_size=8), policies, st.integers(0, 6))
def test_any_model_and_any_policy(script, policy, limit):
    events = []

    def broken(event):
        raise RuntimeError("an observer cannot hurt a run")

    run = AgentRun(
        RunSpec(
            task=TaskInput(task_id="t", inputs={"task": "x"}),
            registry=ToolRegistry([echo]),
            finish=Tool.from_function(finish),
            max_iters=limit,
            policy=policy,
            observers=(broken, events.append),
        )
    )
    model = Script(script)
    output = drive(run, model)
    # the grammar, without gaps
    assert [event.seq for event in events] == list(range(len(events)))
    assert GRAMMAR.match(" ".join(event.kind for event in events)), [event.kind for event in events]
    # every call has exactly one result
    started = [e.data["tool_call_id"] for e in events if e.kind == "tool_call_started"]
    ended = [e.data["tool_call_id"] for e in events if e.kind in ("tool_call_completed", "tool_call_error")]
    assert started == ended
    assert len(set(started)) == len(started)
    # the budget holds, and every request is in the ledger
    assert output.usage.iterations + output.usage.reprompts <= limit
    assert output.usage.lm_calls == model.asked <= limit + 2
    assert output.usage.tool_calls == sum(step.executed for step in output.structured_trace)
    # what comes out is JSON
    output.model_dump_json()
