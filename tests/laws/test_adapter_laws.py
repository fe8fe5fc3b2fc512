"""Law of prompts: each request of a run begins with the whole one before, byte for byte, whatever the model answers.

Text mode in our own form and under each of DSPy's adapters, and native mode; DSPy's trailer of the last message aside.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest import mock

import dspy
import pytest
from dspy import lm15
from hypothesis import strategies as st
from laws.examine import examine, must_break

from ace import Policy, ReActGenerator
from ace.agent.history import RunTurns
from ace.core import ToolError
from ace.evaluation.memories import FixedBullets
from ace.playbook import PlaybookBullet
from ace.react.adapter import TurnsAdapter
from ace.testing.engine import AsyncEngine, FunctionEngine, render_reply
from ace.tools import tool

SHORT, FULL, MOST = 12, 400, 200
TRAILER = re.compile(r"Respond with (the corresponding output fields|a JSON object in the following order of fields)")
ADAPTERS: dict[str, Any] = {
    "own": None,
    "chat": dspy.ChatAdapter,
    "json": dspy.JSONAdapter,
    "xml": dspy.XMLAdapter,
    "native": None,
}
POLICIES = (Policy.lenient(), Policy(on_invalid_action="observe"))

Call = tuple[str, Any]


@tool(read_only=True)
def look(key: str) -> str:
    """Look."""
    if key == "bad":
        raise ToolError("refused", "no such key")
    return f"saw {key}\n[[ ## result ## ]]"


@tool
def put(n: int) -> list[int]:
    """Put."""
    return list(range(n))


@dataclass(frozen=True)
class Said:
    """A reply: a thought and calls; without calls, a text that says nothing of them."""

    thought: str
    calls: tuple[Call, ...] = ()

    def text(self, form: int) -> str:
        """In one of two forms of text."""
        if not self.calls:
            return self.thought
        made = [{"name": name, "args": args} for name, args in self.calls]
        if form:
            return "\n".join([self.thought, *map(json.dumps, made)])
        return render_reply(next_thought=self.thought, tool_calls={"tool_calls": made})

    def parts(self) -> list[Any]:
        """As an API gives it."""
        calls = [lm15.ToolCallPart(id=f"p{i}", name=name, input=args) for i, (name, args) in enumerate(self.calls)]
        return [lm15.TextPart(self.thought), *calls]


class RecordingLM(dspy.LM):
    """Plays replies and keeps each request; in the end it submits."""

    def __init__(self, replies: list[Said], form: int, native: bool) -> None:
        self.requests: list[Any] = []
        left, requests = list(replies), self.requests

        class Engine(FunctionEngine):
            supports_function_calling = native
            supports_response_schema = False
            supports_reasoning = False
            supported_params = frozenset({"tools", "tool_choice"} if native else ())

            def complete(self, request: Any) -> Any:
                requests.append(request)
                said = left.pop(0) if left else Said("Done.", (("submit", {"answer": "found"}),))
                parts = said.parts() if native else [lm15.TextPart(said.text(form))]
                usage = lm15.Usage(input_tokens=3, output_tokens=2, total_tokens=5)
                message = lm15.Message.assistant(parts)
                return lm15.Response(id=None, model="m", message=message, finish_reason="stop", usage=usage)

        engine = Engine(str)
        asynchronous = AsyncEngine(engine)
        super().__init__("test/recording", engine=engine, async_engine=asynchronous, cache=False, num_retries=0)


def shown(request: Any) -> list[tuple[str, str]]:
    """The messages of a request as role and text, without the trailer of the last."""
    found = [("system", str(request.system))]
    for message in request.messages:
        parts = [part.text if isinstance(part, lm15.TextPart) else repr(part) for part in message.parts]
        found.append((message.role, "\n".join(parts)))
    role, text = found.pop()
    rest = TRAILER.split(text)[0].rstrip()
    return [*found, (role, rest)] if rest or rest == text else found


def check_prefix(requests: list[Any]) -> None:
    for before, now in pairwise(map(shown, requests)):
        *same, (role, text) = before
        assert now[: len(same)] == same
        assert len(now) > len(same)
        assert (now[len(same)][0], now[len(same)][1][: len(text)]) == (role, text)


def converse(mode: str, messages: list[list[Said]], form: int, policy: int, max_iters: int, lessons: bool) -> list[Any]:
    """The requests of one agent over the messages of a conversation."""
    lm = RecordingLM([said for message in messages for said in message], form, mode == "native")
    notes = [PlaybookBullet(id="b-1", section="Strategies", content="Look [[ ## first ## ]].")] if lessons else []
    agent = ReActGenerator(
        tools=[look, put],
        lm=lm,
        playbook=FixedBullets(notes),
        policy=POLICIES[policy],
        tool_calling="native" if mode == "native" else "text",
        max_iters=max_iters,
    )
    make, history = ADAPTERS[mode], None
    with dspy.context(adapter=make() if make else None):
        for number in range(len(messages)):
            history = agent(task=f"Find it, {number}\nplease", history=history).history
    return lm.requests


texts = st.text(st.sampled_from("ab{}<[#\n é"), max_size=8).map(str.strip)
good_calls: st.SearchStrategy[Call] = st.one_of(
    st.tuples(st.just("look"), st.fixed_dictionaries({"key": st.sampled_from(["a", "b", "bad"])})),
    st.tuples(st.just("put"), st.fixed_dictionaries({"n": st.integers(0, 3)})),
)
odd_calls: st.SearchStrategy[Call] = st.sampled_from(
    [("lock", {"key": "a"}), ("put", {"n": "x"}), ("submit", {}), ("submit", {"reply": "a"}), ("look", {})]
)
good = st.builds(Said, texts, st.lists(good_calls, min_size=1, max_size=3).map(tuple))
odd = st.builds(Said, texts, st.lists(good_calls | odd_calls, max_size=2).map(tuple))
runs = st.lists(st.one_of(good, good, odd), max_size=6)
calm = st.lists(good, max_size=3).map(lambda replies: [*replies, Said("Done.", (("submit", {"answer": "found"}),))])


def law_of_a_run(mode: str) -> Any:
    def law(replies: list[Said], form: int, policy: int, max_iters: int, lessons: bool) -> None:
        check_prefix(converse(mode, [replies], form, policy, max_iters, lessons))

    return law, (runs, st.integers(0, 1), st.integers(0, 1), st.integers(1, 8), st.booleans())


def law_of_a_conversation(mode: str) -> Any:
    def law(messages: list[list[Said]], form: int, lessons: bool) -> None:
        check_prefix(converse(mode, messages, form, 0, 8, lessons))

    return law, (st.lists(calm, min_size=2, max_size=4), st.integers(0, 1), st.booleans())


LAWS = [
    pytest.param(law, mode, id=f"{law.__name__[7:]}-{mode}")
    for law in (law_of_a_run, law_of_a_conversation)
    for mode in ADAPTERS
]


@pytest.mark.parametrize(("law", "mode"), LAWS)
def test_each_request_begins_with_the_one_before(law: Any, mode: str) -> None:
    examine(*law(mode), SHORT, derandomize=True)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("law", "mode"), LAWS)
def test_each_request_begins_with_the_one_before_at_full_count(law: Any, mode: str) -> None:
    examine(*law(mode), FULL)


@pytest.mark.parametrize("mode", ADAPTERS)
def test_twenty_steps_begin_with_the_one_before(mode: str) -> None:
    steps = [Said(f"Step {n}", (("look", {"key": f"k{n}"}),)) for n in range(20)]
    requests = converse(mode, [steps], 0, 0, 25, True)
    assert len(requests) == 21
    check_prefix(requests)


@pytest.mark.parametrize("mode", ADAPTERS)
def test_twenty_messages_begin_with_the_one_before(mode: str) -> None:
    ends = Said("Done.", (("submit", {"answer": "found"}),))
    messages = [[Said("I look", (("look", {"key": f"k{n}"}),)), ends] for n in range(20)]
    requests = converse(mode, messages, 0, 0, 5, True)
    assert len(requests) == 40
    check_prefix(requests)


@pytest.mark.parametrize("mode", ADAPTERS)
def test_a_message_without_an_answer_keeps_what_the_run_time_said_last(mode: str) -> None:
    again = Said("", (("look", {"key": "a"}),))
    ends = Said("Done.", (("submit", {"answer": "found"}),))
    requests = converse(mode, [[again] * 5 + [ends], [ends]], 0, 0, 8, False)
    assert "Now end with what is there" in str(shown(requests[-1]))
    check_prefix(requests)


def _tools_in_the_last_message(self: Any, signature: Any, inputs: Any, *args: Any, **kwargs: Any) -> str:
    text = _OWN_CONTENT(self, signature, inputs, *args, **kwargs)
    return f"{text}\n{self.catalog}" if kwargs.get("main_request") else text


_OWN_CONTENT = TurnsAdapter.format_user_message_content


def _renames_calls(
    self: Any, opening: Any, steps: Any, *args: Any, _shown: Any = RunTurns.shown, **options: Any
) -> Any:
    """Ids that count from the end."""
    self._rendered.clear()
    self._kept = ({}, 0, [])
    self._prefix = f"of{len(steps)}-"
    return _shown(self, opening, steps, *args, **options)


@pytest.mark.parametrize(
    ("mode", "where", "name", "mutant"),
    [
        ("own", TurnsAdapter, "format_user_message_content", _tools_in_the_last_message),
        ("native", RunTurns, "shown", _renames_calls),
    ],
)
def test_the_law_catches_a_mutant(mode: str, where: Any, name: str, mutant: Any) -> None:
    with mock.patch.object(where, name, mutant):
        must_break(*law_of_a_run(mode), MOST)
