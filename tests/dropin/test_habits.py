"""What a user of DSPy's ReAct finds unchanged after replacing the class."""

import json
import logging

import dspy
import pytest
from conftest import DATA, needs_data
from loopback import openai_server

from ace import ReActGenerator, TaskInput
from ace.core import SignatureError
from ace.react.program import REACT
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.testing.engine import render_reply
from ace.tools import calculator, tool

SAYS_42 = decision("finish", "so it is 42", answer="42")


def agent(*replies, **options):
    return ReActGenerator(tools=[calculator], lm=ScriptedLM(replies), **options)


def test_a_prediction_has_the_history_of_dspys_react():
    replies = [decision("calculator", "6 times 7", expression="6*7"), decision("submit", "so it is 42", answer="42")]
    out = agent(*replies).forward("What is 6 times 7?")
    with dspy.context(lm=ScriptedLM(replies)):
        plain = REACT("task -> answer", tools=[calculator.func])(task="What is 6 times 7?")
    for history in (out.history, plain.history):
        assert isinstance(history, dspy.History)
        first, last = history.messages
        assert (first["task"], str(first["next_thought"]), last["answer"]) == ("What is 6 times 7?", "6 times 7", "42")
        calls = dspy.ToolCalls.model_validate(first["tool_calls"])
        assert [(call.name, call.args) for call in calls.tool_calls] == [("calculator", {"expression": "6*7"})]
        [result] = calls.tool_call_results.tool_call_results
        assert (result.name, str(result.value), bool(result.is_error)) == ("calculator", "42", False)
        [end] = dspy.ToolCalls.model_validate(last["tool_calls"]).tool_calls
        assert (end.name, end.args) == ("submit", {"answer": "42"})
    assert (out.termination_reason, plain.termination_reason) == ("completed", "submit")


def test_the_run_is_also_shown_as_the_old_react_showed_it():
    out = agent(decision("calculator", "6 times 7", expression="6*7"), SAYS_42).forward("What is 6 times 7?")
    assert out.trajectory == {
        "thought_0": "6 times 7",
        "tool_name_0": "calculator",
        "tool_args_0": {"expression": "6*7"},
        "observation_0": 42,
        "thought_1": "so it is 42",
        "tool_name_1": "finish",
        "tool_args_1": {"answer": "42"},
        "observation_1": "Completed.",
    }
    assert (out.reasoning, out["reasoning"], out["trajectory"]) == ("so it is 42", "so it is 42", out.trajectory)
    assert list(out.keys()) == ["answer"]
    assert out.copy().trajectory == out.trajectory


def test_the_reasoning_of_an_answer_that_was_asked_for_is_the_one_that_came_with_it():
    out = agent(decision("finish", "done"), decision("submit", "as asked", answer="42")).forward("x")
    assert (out.answer, out.reasoning, out.trajectory["tool_args_0"]) == ("42", "as asked", {"answer": "42"})


def test_a_failed_call_is_shown_in_words_and_a_run_that_never_ended_has_no_last_step():
    failing = decision("calculator", expression="1/0")
    out = agent(failing, decision("submit", answer="?")).forward("x", max_iters=1)
    assert "division" in out.trajectory["observation_0"]
    assert (out.answer, out.trajectory["tool_name_1"]) == ("?", "finish")
    out = agent(failing, RuntimeError("no route to host")).forward("x")
    assert out.termination_reason == "model_transport"
    assert list(out.trajectory) == ["thought_0", "tool_name_0", "tool_args_0", "observation_0"]


def test_inputs_that_the_signature_does_not_name_are_ignored_with_one_warning(caplog):
    generator = agent(*[SAYS_42] * 4)
    with caplog.at_level(logging.WARNING):
        assert generator(task="x", colour="red").answer == "42"
        assert generator(task="x", colour="blue").answer == "42"
        assert generator(TaskInput(inputs={"task": "x", "colour": "red"})).answer == "42"
    assert [r.message for r in caplog.records if "colour" in r.message] == [
        "ignored ['colour'], which the signature does not name; its inputs are ['task']"
    ]


@pytest.mark.parametrize(
    ("given", "meant"),
    [("max_iter", "max_iters"), ("maxiters", "max_iters"), ("tennant", "tenant"), ("limit", "limits"), ("llm", "lm")],
)
def test_a_keyword_that_is_nearly_an_option_raises_and_names_it(given, meant):
    with pytest.raises(SignatureError, match=f"no input '{given}'; did you mean '{meant}'"):
        agent(SAYS_42)(task="x", **{given: 3})


def test_a_missing_input_raises_and_names_what_was_probably_meant():
    generator = ReActGenerator("question, context -> answer", tools=[], lm=ScriptedLM([SAYS_42]))
    with pytest.raises(SignatureError, match="did you mean 'question'"):
        generator(questoin="x", context="y")
    with pytest.raises(SignatureError, match="missing: context"):
        generator(question="x")


def test_inputs_with_a_default_or_that_may_be_none_can_be_left_out():
    class Asked(dspy.Signature):
        question: str = dspy.InputField()
        tone: str = dspy.InputField(default="polite")
        hint: str | None = dspy.InputField()
        answer: str = dspy.OutputField()

    generator = ReActGenerator(Asked, tools=[], lm=ScriptedLM([SAYS_42]))
    assert generator("why?").answer == "42"
    assert "polite" in generator.lm.prompts[0].text


def test_the_model_is_the_one_that_dspy_sees():
    generator, other = agent(SAYS_42), ScriptedLM([SAYS_42])
    assert generator.get_lm() is generator.lm
    generator.set_lm(other)
    assert generator.get_lm() is other
    assert (generator(task="x").answer, len(other.prompts)) == ("42", 1)
    with dspy.context(lm=ScriptedLM([decision("finish", answer="from the context")])):
        assert ReActGenerator(tools=[])(task="x").answer == "from the context"


@pytest.mark.parametrize("kind", [dspy.BestOfN, dspy.Refine])
def test_best_of_n_and_refine_sample_the_agents_own_model(kind):
    asked = []

    class Sampled(FunctionLM):
        def copy(self, **kwargs):
            asked.append(kwargs["rollout_id"])
            return super().copy(**kwargs)

    def answer(prompt):
        if "advice" in prompt.wants:
            return render_reply(discussion="d", advice={"agent.react": "another"})
        return decision("finish", answer=str(len(asked)))

    lm = Sampled("sampled", answer)
    best = kind(
        ReActGenerator(tools=[], lm=lm), N=3, reward_fn=lambda args, out: float(out.answer == "2"), threshold=1.0
    )
    with dspy.context(lm=lm, trace=[]):
        assert best(task="x").answer == "2"
    assert asked == [0, 1]


def test_config_reaches_the_model(monkeypatch):
    generator, seen = agent(SAYS_42, SAYS_42), []
    complete = type(generator.lm.engine).complete

    def watched(engine, request):
        seen.append(request.config.temperature)
        return complete(engine, request)

    monkeypatch.setattr(type(generator.lm.engine), "complete", watched)
    generator(task="x", config={"temperature": 0.7, "rollout_id": 3})
    generator(task="x")
    assert seen == [0.7, None]


def test_without_a_model_an_error_that_names_the_remedy_comes_at_once():
    def look_up(key: str) -> str:
        """Look up."""
        return key

    with (
        dspy.context(lm=None),
        pytest.raises(ValueError, match=r"no language model is configured; use dspy\.configure\(lm="),
    ):
        ReActGenerator(tools=[look_up])(task="x")
    with dspy.context(lm=None), pytest.raises(ValueError, match="BaseLM"):
        ReActGenerator(tools=[look_up])(task="x", lm=42)


@pytest.mark.filterwarnings("ignore:Implementing custom LMs through BaseLM:DeprecationWarning")
def test_a_model_of_the_users_own_may_reply_with_objects_of_any_class():
    from types import SimpleNamespace

    class Own(dspy.BaseLM):
        supports_function_calling = True

        def forward(self, prompt=None, messages=None, **kwargs):
            function = {"name": "submit", "arguments": '{"answer": "ok"}'}
            call = {"id": "c1", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
            reply = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage, "model": "own"}
            return json.loads(json.dumps(reply), object_hook=lambda fields: SimpleNamespace(**fields))

    out = ReActGenerator("q -> answer", tools=[], lm=Own(model="own/model"), tool_calling="native")(q="x")
    assert out.answer == "ok", out.error
    assert out.output.usage.input_tokens == 7


@needs_data
def test_dspys_own_tests_of_react_pass_with_the_class_replaced():
    from benchmarks.dropin import dspy_tests as dropin_dspy

    source = (DATA / "dspy_tests" / "test_react_v2.py").read_text(encoding="utf-8")
    theirs, ours = dropin_dspy.outcomes(source), dropin_dspy.outcomes(dropin_dspy.replaced(source))
    counted = [name for name, outcome in theirs.items() if outcome == "passed"]
    assert len(counted) == 10
    assert sum(ours[name] == "passed" for name in counted) >= 9, ours


def test_a_prompt_is_measured_before_it_is_sent_where_dspy_knows_the_window():
    from dspy.clients import model_metadata

    model_metadata.source_info()  # what a first request loads
    sent = []

    @tool(read_only=True)
    def read(page: int) -> str:
        """Read."""
        return "figures " * 1_500

    def answer(prompt):
        sent.append(len(prompt.whole) // 8)  # `figures ` is one token
        done = len(sent)
        return decision("read", page=done) if done < 9 else decision("finish", answer="done")

    with openai_server(answer) as (url, _):
        lm = dspy.LM("openai/gpt-4", api_base=url, api_key="none", cache=False, num_retries=0)
        out = ReActGenerator(tools=[read], lm=lm)(task="Read all.")
    assert (out.answer, out.usage.lm_calls) == ("done", 9)
    assert max(sent) < 8_192
    assert out.metadata["context_overflow"]["shortened"]
