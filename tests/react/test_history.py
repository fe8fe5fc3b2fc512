"""A conversation over several messages, in both modes."""

import asyncio
import itertools
import warnings
from itertools import pairwise

import dspy
import litellm
import pytest
from react.test_native import NativeLM

from ace import ReActGenerator
from ace.agent.history import message_groups, read_messages
from ace.core import SignatureError
from ace.react.history import HistoryReader, to_messages
from ace.react.program import OLD_REACT, REACT
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.tools import tool

CLOSING = "Respond with "  # what DSPy's adapters write under the newest request


@tool(read_only=True)
def look(name: str) -> str:
    """Look for an order."""
    return f"the order of {name}"


def talk(agent, *messages, field="task"):
    history, out = None, None
    for message in messages:
        out = agent(**{field: message}, history=history)
        history = out.history
    return out


def told(history):
    """What was asked and answered in each message."""
    entries = history.messages if isinstance(history, dspy.History) else history
    return [(*message.inputs.values(), *message.outputs.values()) for message in read_messages(entries)]


def results(entries):
    """What came back of each call."""
    return [call.result for message in read_messages(entries) for _, call in message.steps]


def scripted(*names):
    return ScriptedLM([r for n in names for r in (decision("look", name=n), decision("finish", answer=f"{n} is here"))])


@pytest.mark.parametrize("adapter", [None, dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()])
@pytest.mark.parametrize("signature", ["task -> answer", "task, history: dspy.History -> answer"])
def test_each_prompt_begins_with_the_one_before(signature, adapter):
    lm = scripted("Ana", "Ben", "Cy")
    with dspy.context(adapter=adapter):
        out = talk(ReActGenerator(signature, tools=[look], lm=lm), "Where is Ana's order?", "And Ben's?", "And Cy's?")
    prompts = [prompt.whole for prompt in lm.prompts]
    for before, after in itertools.pairwise(prompts):
        assert after.startswith(before.rpartition(CLOSING)[0].rstrip() if CLOSING in before else before)
    assert adapter is not None or CLOSING not in prompts[-1]  # our own layout asks once, in the system message
    assert told(out.history) == [
        ("Where is Ana's order?", "Ana is here"),
        ("And Ben's?", "Ben is here"),
        ("And Cy's?", "Cy is here"),
    ]
    assert results(out.history.messages) == ["the order of Ana", "the order of Ben", "the order of Cy"]
    assert prompts[-1].count("Look for an order.") == 1  # the catalog stands once


def test_native_prompts_only_grow_too():
    lm = NativeLM([[("look", {"name": "Ana"})], [("finish", {"answer": "here"})], [("finish", {"answer": "there"})]])
    agent = ReActGenerator(tools=[look], lm=lm, tool_calling="native")
    talk(agent, "Where is Ana's order?", "And Ben's?")
    prompts = ["\n".join([str(r.system), *(m.text or "" for m in r.messages)]) for r in lm.requests]
    for before, after in itertools.pairwise(prompts):
        assert after.startswith(before.rstrip())


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()])
def test_every_adapter_shows_earlier_turns(adapter):
    lm = scripted("Ana", "Ben")
    with dspy.context(adapter=adapter):
        talk(ReActGenerator(tools=[look], lm=lm), "Where is Ana's order?", "And Ben's?")
    assert "the order of Ana" in "".join(lm.prompts[-1].before)
    assert "Ana is here" in "".join(lm.prompts[-1].before)


def test_a_history_that_dspy_made_is_taken():
    lm = scripted("Ben")
    agent = ReActGenerator("question, history: dspy.History -> answer", tools=[look], lm=lm)
    plain = dspy.History(messages=[{"question": "Where is Ana's order?", "answer": "At home"}])
    out = agent(question="And Ben's?", history=plain)
    assert "At home" in lm.prompts[0].before[1]
    assert told(out.history) == [("Where is Ana's order?", "At home"), ("And Ben's?", "Ben is here")]


def test_the_history_of_dspys_own_react_is_taken_with_its_calls():
    with dspy.context(lm=ScriptedLM([decision("look", name="Ana"), decision("submit", answer="Ana is here")])):
        plain = REACT("task -> answer", tools=[look.func])(task="Where is Ana's order?")
    lm = scripted("Ben")
    out = ReActGenerator(tools=[look], lm=lm)("And Ben's?", history=plain.history)
    assert [step["observation"] for step in lm.prompts[-1].steps] == ["the order of Ben"]
    assert "the order of Ana" in "".join(lm.prompts[0].before)
    assert told(out.history) == [("Where is Ana's order?", "Ana is here"), ("And Ben's?", "Ben is here")]
    assert results(out.history.messages) == ["the order of Ana", "the order of Ben"]


def test_a_trajectory_of_plain_react_is_shown_and_its_finish_is_no_call():
    lm = scripted("Ben")
    plain = {"tool_name_0": "old_tool", "tool_args_0": {"x": 1}, "observation_0": "found", "tool_name_1": "finish"}
    messages = [{"task": "Where?", "reasoning": "so", "answer": "At home", "trajectory": plain}]
    out = ReActGenerator(tools=[look], lm=lm)("And Ben's?", history=dspy.History(messages=messages))
    assert "old_tool" in lm.prompts[0].before[1]
    assert "finish" not in "".join(lm.prompts[0].before)
    assert [step.tool_name for step in out.structured_trace] == ["look"]


def test_an_older_schema_is_text():
    reader = HistoryReader(["task"], ["answer"])
    [turn] = reader.read([{"question": "Where?", "result": None}])
    assert turn == {"task": "Where?"}
    [turn] = reader.read([{"city": "Oslo", "day": 3, "answer": "y"}])
    assert turn == {"task": "city: Oslo\nday: 3", "answer": "y"}


def test_messages_of_other_frameworks_are_taken():
    called = {"id": "c1", "function": {"name": "look", "arguments": '{"name": "Ana"}'}}
    messages = [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "Hello"},
        {"role": "user", "content": "Where is Ana's order?"},
        {"role": "assistant", "content": "I look", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "at home"},
        {"role": "assistant", "content": "At home."},
    ]
    [message] = read_messages(HistoryReader(["task"], ["answer"]).read(messages))
    assert (message.inputs, message.outputs) == ({"task": "Hello\nWhere is Ana's order?"}, {"answer": "At home."})
    [(thought, call)] = message.steps
    assert (thought, call.name, call.args, call.result) == ("I look", "look", {"name": "Ana"}, "at home")


@pytest.mark.parametrize("given", ["Hi", 3, {"task": "x"}, [3], [{"role": "robot"}], ["Hi"]])
def test_what_is_no_history_is_refused_with_what_is_one(given):
    with pytest.raises(SignatureError, match=r"expected out\.history, a dspy\.History"):
        ReActGenerator(tools=[look], lm=ScriptedLM([]))("x", history=given)


@pytest.mark.parametrize("signature", ["history, question -> answer", "history: str -> answer", "question -> history"])
def test_a_field_called_history_that_is_no_history_is_refused(signature):
    with pytest.raises(SignatureError, match="'history' of the signature is reserved; rename it"):
        ReActGenerator(signature, tools=[look])


def test_an_answer_that_is_asked_for_knows_the_conversation():
    extract = "[[ ## reasoning ## ]]\nSo\n\n[[ ## answer ## ]]\nNobody knows\n\n[[ ## completed ## ]]"
    lm = ScriptedLM([decision("finish", answer="At home"), decision("look", name="Ben"), extract])
    agent = ReActGenerator(tools=[look], lm=lm)
    first = agent("Where is Ana's order?")
    out = agent("And Ben's?", history=first.history, max_iters=1)
    assert (out.answer, out.termination_reason) == ("Nobody knows", "max_iterations")
    assert "At home" in lm.prompts[-1].before[1]
    assert told(out.history) == [("Where is Ana's order?", "At home"), ("And Ben's?", "Nobody knows")]


def test_a_history_survives_a_run_store_and_a_resume(tmp_path):
    @tool(requires_approval=True)
    def refund(order: str) -> str:
        """Refund an order."""
        return "refunded"

    lm = ScriptedLM(
        [decision("finish", answer="17"), decision("refund", order="17"), decision("finish", answer="Refunded")]
    )
    agent = ReActGenerator(tools=[refund], lm=lm, run_store=tmp_path)
    first = agent("Which order is Ana's?")
    waits = agent("Refund it", history=first.history)
    assert waits.termination_reason == "interrupted"
    fresh = ReActGenerator(tools=[refund], lm=lm, run_store=tmp_path)
    out = fresh.resume(waits.run_id, "approve")
    assert "Which order is Ana's?" in lm.prompts[-1].before[0]
    assert told(out.history) == [("Which order is Ana's?", "17"), ("Refund it", "Refunded")]


@pytest.mark.skipif(OLD_REACT is None, reason="DSPy's own ReAct takes no history field any more")
def test_saved_state_of_the_old_react_with_a_history_fits(tmp_path):
    plain = OLD_REACT("question, history: dspy.History -> answer", tools=[look.func])
    plain.react.signature = plain.react.signature.with_updated_fields("question", desc="what they want")
    plain.save(tmp_path / "p.json")
    agent = ReActGenerator("question, history: dspy.History -> answer", tools=[look])
    fresh = list(agent.agent.react.signature.fields)
    agent.load(tmp_path / "p.json")
    fields = agent.agent.react.signature.input_fields
    assert fields["question"].json_schema_extra["desc"] == "what they want"
    assert fields["playbook"].json_schema_extra["desc"] == "notes from earlier runs, best first"
    assert list(agent.agent.react.signature.fields) == fresh


def test_a_conversation_as_messages_of_other_frameworks():
    from langchain_core.messages import convert_to_messages
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    lm = scripted("Ana")
    history = ReActGenerator(tools=[look], lm=lm)("Where is Ana's order?").history
    reader = HistoryReader(["task"], ["answer"])
    messages = to_messages(history)
    for form in (messages, convert_to_messages(messages)):
        entries = reader.read(form)
        assert told(entries) == [("Where is Ana's order?", "Ana is here")]
        assert results(entries) == ["the order of Ana"]
    model = FunctionModel(lambda messages, info: ModelResponse([TextPart("At home")]))
    result = asyncio.run(Agent(model).run("And Ben's?"))
    out = ReActGenerator(tools=[look], lm=(lm := scripted("Cy")))("And Cy's?", history=result.all_messages())
    assert "At home" in lm.prompts[0].before[-1]
    assert len(message_groups(out.history.messages)) == 2


def test_a_field_called_role_is_a_field():
    agent = ReActGenerator("role, question -> answer", tools=[], lm=ScriptedLM([decision("finish", answer="x")] * 2))
    out = agent(role="CEO", question="Who?", history=agent(role="CEO", question="Where?").history)
    assert [turn["role"] for turn in out.history.messages] == ["CEO", "CEO"]


def test_an_image_is_named_in_later_messages():
    image = dspy.Image("data:image/png;base64," + "A" * 9_000)
    lm = ScriptedLM([decision("finish", answer="x")] * 2)
    agent = ReActGenerator("picture: dspy.Image, question -> answer", tools=[], lm=lm)
    first = agent(picture=image, question="What is it?")
    agent(picture=image, question="And now?", history=first.history)
    assert "[Image of an earlier message]" in lm.prompts[-1].before[0]
    assert "AAAA" not in lm.prompts[-1].before[0]


@pytest.mark.parametrize("name", ["chat", "history"])
def test_a_history_field_has_two_names(name):
    lm = scripted("Ben")
    agent = ReActGenerator("question, chat: dspy.History -> answer", tools=[look], lm=lm)
    agent(question="And Ben's?", **{name: [{"question": "Where?", "answer": "At home"}]})
    assert "At home" in lm.prompts[0].before[1]


def test_a_model_without_an_async_way_can_be_streamed():
    class Plain(dspy.BaseLM):
        def forward(self, prompt=None, messages=None, **options):
            message = {"role": "assistant", "content": decision("finish", answer="42")}
            choices = [{"message": message, "finish_reason": "stop", "index": 0}]
            return litellm.ModelResponse(
                choices=choices, usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # DSPy's, about models of this kind
        with ReActGenerator(tools=[], lm=Plain("test/plain")).stream("x") as stream:
            list(stream)
    assert stream.output.answer == "42"


def test_two_inputs_are_the_users_and_come_back_so():
    lm = ScriptedLM([decision("finish", reply="B"), decision("finish", reply="C")])
    agent = ReActGenerator("customer, question -> reply", tools=[], lm=lm)
    history = agent(customer="Ana", question="Q?").history
    assert to_messages(history)[0] == {"role": "user", "content": "Ana\nQ?"}
    [turn] = HistoryReader(["task"], ["answer"]).read(to_messages(history))
    assert (turn["task"], turn["answer"]) == ("Ana\nQ?", "B")
    [same] = HistoryReader(["task"], ["answer"]).read(to_messages([turn]))
    assert same == turn


def test_a_known_window_is_cut_once_in_several_messages(monkeypatch):
    monkeypatch.setattr("ace.react.model._window", lambda lm: 3_000)
    lm = FunctionLM("test/window", lambda prompt: decision("finish", answer=f"{len(prompt.before)} " + "word " * 60))
    chat = ReActGenerator(tools=[], lm=lm).chat()
    shown = [int(chat.send("Please say " + "something " * 60).answer.split()[0]) for _ in range(30)]
    cuts = [n for n, (before, after) in enumerate(pairwise(shown)) if after <= before]
    assert 1 <= len(cuts) <= 8
    assert max(shown) >= 16  # most of the window is used
    history = [{"task": "Please " + "word " * 20, "answer": "x"}] * 25
    reader = ReActGenerator(
        tools=[], lm=FunctionLM("t/t", lambda prompt: decision("finish", answer=str(len(prompt.before))))
    )
    assert reader("And?", history=history).answer == "50"
