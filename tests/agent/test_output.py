"""The output of a run."""

from agent.kit import call, extract, peek, play

from ace.agent import (
    ForceAnswer,
    Policy,
)
from ace.core import (
    InvalidModelAction,
    ModelTransport,
)


def test_a_forced_answer_after_a_dead_model():
    class Forcing(Policy):
        def on_model_error(self, state, error):
            return ForceAnswer()

    output, _ = play(ModelTransport("down"), extract("x"), policy=Forcing())
    assert (output.termination_reason, output.partial, output.answer) == ("model_transport", True, "x")
    assert output.error.message == "the answer was forced: model transport"


def test_an_unreadable_reply_keeps_what_could_be_read():
    error = InvalidModelAction("unparsable", "broken", tool_name="peek", received_args={"key": ["a"]})
    output, _ = play(error, call("finish", answer="x"), tools=[peek], policy=Policy.replay())
    step = output.structured_trace[0]
    assert (step.tool_name, step.tool_args, step.tool_call_id) == ("peek", {"key": ["a"]}, "s1-c1")
