"""Any reply that a person can read, under each adapter; the rest is never guessed, and costs no time."""

import gc
import time

import dspy
import pytest
from dropin_replies import ADAPTERS, play, same
from hypothesis import given, settings, strategies as st
from react.test_native import NativeLM
from reply_shapes import CALLS, SHAPES, cut_off, hostile, readable

from ace import ReActGenerator
from ace.core import InvalidModelAction
from ace.react.reading.reader import CallReader
from ace.testing import ScriptedLM, decision
from ace.tools import tool

SCHEMAS = {
    "refund": {"type": "object", "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}}},
    "find_order": {
        "type": "object",
        "properties": {"customer": {"type": "string"}, "open_only": {"type": "boolean"}},
    },
    "send_note": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "body": {"type": "string"}, "tags": {"type": "array"}},
    },
    "list_orders": {"type": "object", "properties": {}},
    "finish": {"type": "object", "properties": {"answer": {"type": "string"}}},
}
READER = CallReader(SCHEMAS)
TAGS = "<tool_call><name>refund</name><args></tool_call>"


def first(text):
    calls = [call for call in READER.read(text).calls if READER.knows(call)]
    return (calls[0].name, calls[0].args) if calls else None


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_call_that_a_person_reads_is_made(adapter):
    missed = [r.shape for r in readable() if not same(play(ReActGenerator, r.text, ADAPTERS[adapter])[0], r)]
    assert missed == []


def test_what_is_cut_off_is_never_completed():
    for reply in cut_off(every=1):
        assert first(reply.text) in (None, reply.call), reply


@pytest.fixture
def small_heap():
    """Without the objects of all tests before: the garbage collector would walk over them for each reply."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("small_heap")
def test_long_and_malformed_replies_are_read_within_a_second_and_raise_nothing():
    for reply in hostile():
        started = time.process_time()
        assert first(reply.text) is None, reply.shape
        assert time.process_time() - started < 1, reply.shape


def test_nothing_of_a_reply_raises_in_an_agent():
    for reply in hostile(size=20_000):
        for adapter in ADAPTERS.values():
            assert play(ReActGenerator, reply.text, adapter)[::2] == ([], ""), reply.shape


TEXT = st.text(max_size=30)
PIECES = st.one_of(
    TEXT,
    st.sampled_from(
        [
            "[[ ## next_tool_name ## ]]\n",
            "[[ ## next_tool_args ## ]]\n",
            "{",
            "}",
            '"',
            "'",
            "\\",
            "```json\n",
            "```",
            "<",
            ">",
            "<tool_call>",
            "</tool_call>\n        ",
            '{"name": "refund", ',
            '"arguments": ',
            "refund(",
            ")",
            "[",
            "]",
            "\nAction: refund\n",
            "Action Input: ",
            "<invoke name='refund'>\n        ",
            "<parameter name=order_id>",
            ":",
            ",",
            "refund",
            "null",
            "1e9",
            "\n",
        ]
    ),
)


def check_any_text(pieces):
    reading = READER.read("".join(pieces))
    assert not (reading.cut and reading.calls)


def check_written_calls(shape, name, args, end):
    text = SHAPES[shape](name, args)
    whole = first(text)
    assert first(text[:end]) in (None, whole), text[:end]


ARGS = st.fixed_dictionaries(
    {}, optional={"order_id": st.text(max_size=20), "amount": st.one_of(st.integers(), st.floats(allow_nan=False))}
)


def examine(examples):
    settings(max_examples=examples, deadline=None)(given(st.lists(PIECES, max_size=25))(check_any_text))()
    settings(max_examples=examples, deadline=None)(
        given(st.sampled_from(sorted(SHAPES)), st.sampled_from(["refund", "finish"]), ARGS, st.integers(0, 400))(
            check_written_calls
        )
    )()


def test_any_text_is_read_and_no_prefix_of_a_call_is_another_call():
    examine(250)


@pytest.mark.full
def test_any_text_is_read_and_no_prefix_of_a_call_is_another_call_at_full_count():
    examine(5_000)


def test_of_several_calls_the_first_is_made_and_the_observation_names_the_others():
    from ace.testing import FunctionLM, decision
    from ace.tools import tool

    @tool
    def look_up(key: str) -> str:
        """Look up."""
        return f"value of {key}"

    several = '[{"name": "look_up", "arguments": {"key": "a"}}, {"name": "finish", "arguments": {"answer": "early"}}]'
    replies = iter([several, '<tool_call>{"name": "finish", "arguments": {"answer": "value of a"}}</tool_call>'])
    out = ReActGenerator(tools=[look_up], lm=FunctionLM("t/list", lambda prompt: next(replies, decision("finish"))))(
        task="x"
    )
    assert (out.answer, len(out.structured_trace)) == ("value of a", 1)
    assert out.structured_trace[0].observation == (
        "value of a (Not made, because other calls of the same reply came first: 'finish'. Ask again if it is still needed.)"
    )


@pytest.mark.parametrize(
    ("text", "reason"), [("", "empty"), ("Sorry, no.", "unparsable"), ('{"name": "refund", "ar', "unparsable")]
)
def test_a_reply_without_a_call_is_an_invalid_action_by_name(text, reason):
    from ace.testing import ScriptedLM

    agent = ReActGenerator(tools=[], lm=ScriptedLM([text]), raise_on_failure=True)
    with pytest.raises(InvalidModelAction) as raised:
        agent(task="x")
    assert raised.value.reason == reason


def test_other_outputs_are_read_by_dspys_own_adapter():
    from ace.testing import ScriptedLM, decision

    with dspy.context(adapter=dspy.JSONAdapter()):
        agent = ReActGenerator(tools=[], lm=ScriptedLM([decision("finish"), '{"reasoning": "r", "answer": "42"}']))
        assert agent(task="x").answer == "42"
    assert CALLS


@pytest.mark.parametrize(
    "written", ["None, since list_orders is too dangerous", "I will not call list_orders", "do not use list_orders"]
)
def test_a_name_inside_a_sentence_is_no_call(written):
    found = READER.read(
        f"[[ ## next_tool_name ## ]]\n{written}\n\n[[ ## next_tool_args ## ]]\n{{}}\n\n[[ ## completed ## ]]"
    )
    assert [call.name for call in found.calls] == [written]
    [call] = READER.read(
        "[[ ## next_tool_name ## ]]\nI will call the list_orders tool\n\n[[ ## next_tool_args ## ]]\n{}\n"
    ).calls
    assert call.name == "list_orders"


def test_the_asked_fields_go_before_a_call_that_the_thought_tells_of():
    thought = '```\n{"action": "refund", "action_input": {"order_id": "1", "amount": 2}}\n```'
    for name, args in (("find_order", "Kerry Moore"), ("unknown_tool", "{}")):
        text = f"[[ ## next_thought ## ]]\n{thought}\n\n[[ ## next_tool_name ## ]]\n{name}\n\n[[ ## next_tool_args ## ]]\n{args}\n"
        assert [call.name for call in READER.read(f"{text}\n[[ ## completed ## ]]").calls] == [name]


def test_of_two_decisions_in_the_plain_layout_the_first_is_made_and_the_other_is_named():
    asked = []

    @tool(read_only=True)
    def find_order(customer: str) -> str:
        """Find an order."""
        asked.append(customer)
        return f"order of {customer}"

    both = decision("find_order", customer="Ana").replace("[[ ## completed ## ]]", "") + decision(
        "find_order", customer="Ben"
    )
    lm = ScriptedLM([both, decision("finish", answer="x")])
    out = ReActGenerator(tools=[find_order], lm=lm)("Where?")
    assert asked == ["Ana"]
    assert "Not made" in out.structured_trace[0].observation
    early = decision("finish", answer="early").replace("[[ ## completed ## ]]", "") + decision(
        "find_order", customer="Cy"
    )
    out = ReActGenerator(tools=[find_order], lm=ScriptedLM([early, decision("finish", answer="late")]))("Where?")
    assert (out.answer, asked) == ("late", ["Ana", "Cy"])


@pytest.mark.parametrize(
    "text",
    [
        "Nothing was cancelled. To cancel everything yourself, run:\n\n```python\ncancel_all()\n```\n",
        "To cancel everything you would call\n\ncancel_all()\n\nDo you want me to do that?",
        'The call would be {"name": "cancel_all", "arguments": {}} - shall I make it?',
    ],
)
def test_a_native_text_that_tells_of_a_call_does_not_make_it(text):
    made = []

    @tool
    def cancel_all() -> str:
        """Cancel everything."""
        made.append(1)
        return "done"

    lm = NativeLM([text, [("finish", {"answer": "ok"})]])
    out = ReActGenerator(tools=[cancel_all], lm=lm, tool_calling="native", policy="lenient")("x")
    assert (made, out.answer) == ([], "ok")
    lm = NativeLM(['<tool_call>{"name": "cancel_all", "arguments": {}}</tool_call>', [("finish", {"answer": "ok"})]])
    ReActGenerator(tools=[cancel_all], lm=lm, tool_calling="native", policy="lenient")("x")
    assert made == [1]


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("unit", ["look {\n" * 50 + '"x" ' * 200_000 + ")", TAGS * 20_000])
def test_replies_that_were_slow_once_are_read_within_a_second(unit):
    started = time.process_time()
    CallReader({**SCHEMAS, "look": SCHEMAS["refund"]}).read(unit)
    assert time.process_time() - started < 1


def seconds_of_cpu(reply):
    """The least of three: other work on the machine only adds."""
    took = []
    for _ in range(3):
        started = time.process_time()
        CallReader({**SCHEMAS, "look": SCHEMAS["refund"]}).read(reply)
        took.append(time.process_time() - started)
    return min(took)


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize(
    ("reply", "longer", "times"),
    [
        ("look {\n" + '"x" ' * 50_000 + ")", "look {\n" * 50 + '"x" ' * 50_000 + ")", 10),  # was sixty times
        (TAGS * 500, TAGS * 4_000, 10),  # was 24 times
    ],
)
def test_replies_that_were_slow_once_take_time_that_grows_with_their_length(reply, longer, times):
    """A ratio in one run, which is the same on every machine."""
    assert seconds_of_cpu(longer) < times * seconds_of_cpu(reply)
