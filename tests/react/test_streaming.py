"""Streams of `ReActGenerator`, agents inside tools, observers."""

import asyncio
import time

import pytest

from ace import Agent, CancellationToken, Policy, ReActGenerator, Summary, TokenPrices, UsageLimits, check_events
from ace.core import ResumeError, SignatureError
from ace.testing import FaultyTool, ScriptedLM, decision
from ace.testing.engine import render_reply
from ace.tools import calculator, tool

CALC = decision("calculator", expression="6 * 7")


END = decision("finish", answer="42")


def agent(*replies, **options):
    return ReActGenerator(tools=[calculator], lm=ScriptedLM(replies), **options)


def test_a_stream_gives_the_events_and_the_pieces_of_the_replies():
    with agent(CALC, END).stream("x") as stream:
        with pytest.raises(ResumeError, match="not over"):
            assert stream.output
        events = list(stream)
    check_events(events)
    assert stream.output.answer == "42"
    streamed = "".join(e.data["text"] for e in events if e.kind == "model_request_delta")
    assert "calculator" in streamed
    assert "finish" in streamed


def test_sync_async_and_streamed_runs_are_the_same_run():
    def shape(events):
        return [(e.kind, e.step_id, e.data) for e in events if e.kind != "model_request_delta"]

    seen = [[], []]
    sync = agent(CALC, END, observers=[seen[0].append]).run("x", task_id="t")
    others = asyncio.run(agent(CALC, END, observers=[seen[1].append]).arun("x", task_id="t"))
    with agent(CALC, END).stream("x", task_id="t") as stream:
        streamed = list(stream)
    assert shape(seen[0]) == shape(seen[1]) == shape(streamed)
    plain = {"run_id": "", "usage": None, "structured_trace": None}
    assert len({str(o.model_copy(update=plain)) for o in (sync, others, stream.output)}) == 1


def test_leaving_a_stream_early_cancels_the_run():
    faulty = FaultyTool(calculator, ["hang"])
    it = ReActGenerator(tools=[faulty.tool], lm=ScriptedLM([CALC]))
    started = time.monotonic()
    with it.stream("x") as stream:
        for event in stream:
            if event.kind == "tool_call_started":
                break
    assert time.monotonic() - started < 5
    out = it.resume(event.run_id, lm=ScriptedLM([END]))
    assert (out.answer, out.structured_trace[0].outcome) == ("42", "interrupted")


def test_an_async_stream_is_read_with_async_for():
    async def main():
        async with agent(CALC, END).astream("x") as stream:
            kinds = [event.kind async for event in stream]
        return kinds, stream.output.answer

    kinds, answer = asyncio.run(main())
    assert (kinds[0], kinds[-1], answer) == ("run_started", "run_completed", "42")


def test_a_stream_raises_what_the_caller_did_wrong():
    with pytest.raises(SignatureError, match="expected the input fields"), agent().stream(nothing="x") as stream:
        list(stream)


def test_an_observer_that_raises_or_hangs_does_not_hurt_the_run():
    seen = []

    def raises(event):
        raise SystemExit

    def hangs(event):
        time.sleep(60)

    it = agent(CALC, END, CALC, END, observers=[raises, hangs, seen.append])
    started = time.monotonic()
    assert it.run("x").completed
    assert time.monotonic() - started < 2
    check_events(seen)
    started = time.monotonic()
    assert it.run("x").completed
    assert time.monotonic() - started < 0.5  # a hung observer is waited for once


@pytest.mark.parametrize(
    "options",
    [
        {"tool_calling": "both"},
        {"output_mode": "json"},
        {"limits": UsageLimits(cost=1.0)},
        {"max_iters": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(SignatureError):
        agent(**options)


def test_the_ledger_counts_money_by_the_prices_given():
    out = agent(CALC, END, prices=TokenPrices(input=1.0, output=2.0)).run("x")
    assert out.usage.cost == pytest.approx((out.usage.input_tokens + 2 * out.usage.output_tokens) / 1e6)
    assert out.usage.total_tokens == out.usage.input_tokens + out.usage.output_tokens


def test_limits_of_a_call_can_only_be_tighter():
    it = agent(CALC, END, CALC, render_reply(reasoning="", answer="?"), limits=UsageLimits(iterations=5))
    assert it.run("x").completed
    assert it.run("x", limits=UsageLimits(iterations=1)).termination_reason == "max_iterations"


def test_a_summary_is_written_by_the_agents_own_predictor():
    wrote = render_reply(objective="o", actions="computed 42", observations="b", state="s")
    it = agent(CALC, wrote, END, summary=Summary(every=1))
    out = it.forward("x")
    assert out.summary.actions == "computed 42"
    assert "Conversation so far:" in it.lm.prompts[-1].fields["trajectory"]
    assert "summarizer" in dict(it.named_predictors())


def test_the_generator_is_an_agent():
    it = agent(END)
    assert isinstance(it, Agent)
    out = it.run("x")
    assert it.format_result(out, "simple") == "42"
    assert it.format_result(out, "structured") is out


def test_a_resumed_run_is_streamed_from_there_on():
    asked = []

    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        asked.append(amount)
        return "paid"

    it = ReActGenerator(tools=[pay], lm=ScriptedLM([decision("pay", amount=7), END]))
    waiting = it.forward("x")
    assert (waiting.termination_reason, asked) == ("interrupted", [])
    with it.stream_resume(waiting.run_id, "approve") as stream:
        kinds = [event.kind for event in stream]
    assert (kinds[0], kinds[-1], stream.output.answer, asked) == ("run_continued", "run_completed", "42", [7])
    with pytest.raises(TypeError, match="limits"):
        it.resume(waiting.run_id, "approve", limits=UsageLimits(iterations=1))


def test_a_policy_is_given_the_state_of_the_run():
    states = []

    class Watching(Policy):
        def on_model_error(self, state, error):
            states.append((state.user_input, state.step_count, state.correlation_id, state.attempt))
            return super().on_model_error(state, error)

    out = agent(decision("nothing_of_that_name"), END, policy=Watching(on_invalid_action="observe")).run(
        "x", task_id="t9"
    )
    assert out.answer == "42"
    assert states == [("x", 0, "t9", 1)]


def test_an_agent_inside_a_tool_gets_no_more_than_what_is_left():
    seen = {}

    @tool(read_only=True)
    def ask_expert(question: str) -> str:
        """Ask an expert."""
        inner = agent(CALC, render_reply(reasoning="", answer="inner"), max_iters=50, policy=Policy(no_progress=None))
        seen["inner"] = inner.run(question)
        return seen["inner"].answer

    outer = ReActGenerator(
        tools=[ask_expert],
        lm=ScriptedLM([decision("ask_expert", question="q"), END]),
        limits=UsageLimits(iterations=2, lm_calls=10),
    )
    out = outer.run("x")
    assert seen["inner"].termination_reason == "max_iterations"
    assert seen["inner"].usage.iterations == 1
    assert out.usage.lm_calls == 2 + seen["inner"].usage.lm_calls


def test_cancelling_the_outer_run_cancels_the_inner_one():
    token, ends = CancellationToken(), []
    faulty = FaultyTool(calculator, ["hang"])

    @tool(read_only=True)
    def ask_expert(question: str) -> str:
        """Ask an expert."""
        inner = ReActGenerator(tools=[faulty.tool], lm=ScriptedLM([CALC]))
        ends.append(inner.run(question).termination_reason)
        return "?"

    import threading

    threading.Timer(0.2, token.cancel).start()
    ReActGenerator(tools=[ask_expert], lm=ScriptedLM([decision("ask_expert", question="q")])).run(
        "x", cancellation=token
    )
    until = time.monotonic() + 3
    while not ends and time.monotonic() < until:
        time.sleep(0.01)
    assert ends == ["interrupted"]
