"""Law of the adapter: what it reads from a reply is what DSPy's own chat adapter reads, whatever the reply."""

from __future__ import annotations

from typing import Any, Literal

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from hypothesis import Phase, given, settings, strategies as st

from ace.react import adapter as _adapter
from ace.react.adapter import CachedChatAdapter

OURS, DSPYS = CachedChatAdapter(), dspy.ChatAdapter(use_json_adapter_fallback=False)
SIGNATURES = [
    dspy.Signature("trajectory: str -> next_thought: str, next_tool_name: str, next_tool_args: dict[str, Any]"),
    dspy.Signature("question -> answer"),
    dspy.Signature({"q": (str, dspy.InputField()), "n": (int, dspy.OutputField()), "s": (str, dspy.OutputField())}),
    dspy.Signature({"q": (str, dspy.InputField()), "c": (Literal["a", "b"], dspy.OutputField(default="a"))}),
]
SPACES = st.text(" \t", max_size=2)
ENDS = st.sampled_from(["\n", "\n\n", "\r\n", "\x0b", "\x1c", "\u2028", "\x85"])
VALUES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["{}", '{"a": 1}', "{'a': 1}", '{"a": [1, {"b": null}]}\n', '{"a": NaN}', "[1]", '{"a": 1,}', "7"]),
    st.sampled_from(["a", "null", "```json\n{}\n```", '{"a": 1} {"b": 2}', '{"a": 1, "a": 2}', '{"[[ ## n ## ]]": 1}']),
)


@st.composite
def replies(draw: Any, names: tuple[str, ...]) -> str:
    """Mostly headings with a value under each; now and then one is missing, comes twice, or is none of ours."""
    text = draw(st.sampled_from(["", "", "Sure:\n", " "]))
    order = draw(st.one_of(st.just(names), st.lists(st.sampled_from([*names, "other", "not a name"]), max_size=6)))
    for name in [*order, "completed"]:
        heading = f"{draw(SPACES)}[[ ## {name} ## ]]{draw(SPACES)}"
        text += f"{heading}{draw(ENDS | SPACES)}{draw(VALUES)}{draw(ENDS)}"
    return text


def read(adapter: dspy.ChatAdapter, signature: Any, reply: str) -> str:
    try:
        return repr(adapter.parse(signature, reply))
    except AdapterParseError as error:
        return f"refused: {error}"


def check(data: st.DataObject) -> None:
    signature = data.draw(st.sampled_from(SIGNATURES))
    reply = data.draw(replies(tuple(signature.output_fields)))
    assert read(OURS, signature, reply) == read(DSPYS, signature, reply)


@settings(deadline=None, max_examples=500)
@given(st.data())
def test_replies_are_read_as_dspy_reads_them(data: st.DataObject):
    check(data)


@pytest.mark.full
@settings(deadline=None, max_examples=10_000)
@given(st.data())
def test_replies_are_read_as_dspy_reads_them_at_full_count(data: st.DataObject):
    check(data)


def test_the_law_sees_a_reader_that_differs(monkeypatch: pytest.MonkeyPatch):
    """One that takes the last of two equal fields instead of the first."""
    whole = _adapter._sections
    monkeypatch.setattr(_adapter, "_sections", lambda text: reversed([*whole(text)]))
    with pytest.raises(AssertionError):
        settings(deadline=None, max_examples=5_000, phases=[Phase.generate], database=None)(given(st.data())(check))()


def test_callbacks_hear_of_each_reply_once():
    """Also of one that is handed on to DSPy's own reader."""
    heard: list[str] = []

    class Ear(dspy.utils.callback.BaseCallback):
        def on_adapter_parse_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            heard.append(inputs["completion"])

    adapter = CachedChatAdapter(callbacks=[Ear()])
    for reply in ("[[ ## answer ## ]]\nfour", "[[ ## n ## ]]\n4\n[[ ## s ## ]]\nx"):
        adapter.parse(SIGNATURES[1 if "answer" in reply else 2], reply)
    assert len(heard) == 2
