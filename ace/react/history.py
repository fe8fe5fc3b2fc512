"""Histories from and for elsewhere: what callers pass as `history`, and a conversation as another framework's messages.

What stands in between are the entries that `ace.agent.history` describes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import dspy

from ace.agent.history import (
    OWN_KEYS,
    Called,
    Decision,
    Entry,
    Message,
    named,
    read_messages,
    stored_entries,
)
from ace.core import SignatureError, value_to_text
from ace.core.text import any_json
from ace.learner.trace_formats import TraceEvent, events_of
from ace.tasks import answer_field

NO_ANSWER = "(no answer was given)"
_WANTED = "out.history, a dspy.History, or a list of messages"


class HistoryReader:
    """Reads histories for one signature: `HistoryReader(["task"], ["answer"]).read([{"task": "Hi", "answer": "Hello"}])`.

    Args:
        inputs: Names of the inputs of a message.
        outputs: Names of the outputs.
    """

    def __init__(self, inputs: Sequence[str], outputs: Collection[str]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def read(self, given: Any) -> tuple[dict[str, Any], ...]:
        """A history as entries.

        Args:
            given: `out.history`, a `dspy.History`, or a list of messages: entries, or those of OpenAI's API, LangChain and
                Pydantic AI.

        Raises:
            SignatureError: It is none of them.
        """
        messages: Any = given.messages if isinstance(given, dspy.History) else given
        if isinstance(messages, Mapping) and "messages" in messages:  # a `dspy.History` as JSON
            messages = cast("Mapping[str, Any]", messages)["messages"]
        if messages is None:
            return ()
        if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
            raise SignatureError(f"history is {cast(Any, given)!r:.100}, expected {_WANTED}")
        found = list(cast("Iterable[Any]", messages))
        try:
            if any(self._of_a_framework(message) for message in found):
                return self._conversation(events_of(found)) if found else ()
            return tuple(self._entry(cast("Mapping[Any, Any]", message)) for message in found)
        except (ValueError, TypeError, RecursionError) as error:
            raise SignatureError(f"history cannot be read: {error}; expected {_WANTED}") from error

    def _of_a_framework(self, message: Any) -> bool:
        """Whether it is a message of another framework, and no entry."""
        if not isinstance(message, Mapping):
            return True
        names = set(cast("Mapping[str, Any]", message))
        return "role" in names and "role" not in self.inputs and "role" not in self.outputs

    def _entry(self, message: Mapping[Any, Any]) -> dict[str, Any]:
        """A message of a `dspy.History`; what the signature does not name is kept as text, where nothing else is known."""
        plain = {str(name): any_json(value) for name, value in message.items()}
        known = {name for name in plain if name in self.inputs or name in self.outputs or name in OWN_KEYS}
        other = {name: value for name, value in plain.items() if name not in known and value is not None}
        entry = {name: plain[name] for name in plain if name in known}
        if other:
            said = [value_to_text(v) if len(other) == 1 else f"{name}: {value_to_text(v)}" for name, v in other.items()]
            asked = bool(self.inputs) and not any(name in entry for name in self.inputs)
            if asked or not any(name in entry for name in self.outputs):
                entry = {(self.inputs if asked else self.outputs)[0]: "\n".join(said)} | entry
        ordered = {name: entry[name] for name in (*self.inputs, *self.outputs, *OWN_KEYS) if name in entry}
        return named(ordered, [name for name in self.outputs if name in entry])

    def _conversation(self, events: Iterable[TraceEvent]) -> tuple[dict[str, Any], ...]:
        """Messages of other frameworks: each of the user's begins a turn."""
        found: list[_Messages] = []
        for event in events:
            if not found or (event.kind == "user" and found[-1].begun):
                found.append(_Messages())
            found[-1].take(event)
        asked = self.inputs[0] if self.inputs else "message"
        return tuple(e for one in found for e in one.entries(asked, answer_field(self.outputs)))


class _Messages:
    """The messages of another framework that belong to one of the user's."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.answers: list[str] = []
        self._decisions: list[Decision] = []
        self._thought = ""

    @property
    def begun(self) -> bool:
        """Whether anything but the user's words came."""
        return bool(self._decisions or self.answers or self._thought)

    def take(self, event: TraceEvent) -> None:
        """Add one event."""
        match event.kind:
            case "user":
                self.said.append(event.text)
            case "thought":
                self._thought = "\n".join(filter(None, [self._thought, event.text]))
            case "answer":
                self.answers.append(event.text)
            case "call":
                call_id = event.call_id or f"c{len(self._decisions) + 1}"
                call = Called(call_id, event.name, _object(event.args), "")
                self._decisions.append(Decision(self._thought, (call,)))
                self._thought = ""
            case "result":
                self._answer(event)

    def _answer(self, event: TraceEvent) -> None:
        """Put a result to the first call that waits for it."""
        for index, decision in enumerate(self._decisions):
            call = decision.calls[0]
            if not call.result and event.call_id in ("", call.id):
                self._decisions[index] = replace(decision, calls=(replace(call, result=event.text),))
                return

    def entries(self, asked: str, answer: str) -> list[Entry]:
        """As entries of a history."""
        said = {asked: "\n".join(self.said)} if self.said else {}
        answered = {answer: "\n".join(self.answers)} if self.answers else {}
        return stored_entries(Message(said, answered, tuple(self._decisions)))


def to_messages(history: Any, form: Literal["openai", "langchain", "pydantic_ai"] = "openai") -> list[Any]:
    """A conversation as another framework's messages: what the user said, each call with its result, each answer.

    Args:
        history: `out.history`, `chat.history`, or their entries.
        form: ``openai``: dicts as its chat API takes them. ``langchain``: LangChain's messages, as LangGraph's
            `MessagesState` holds them. ``pydantic_ai``: what an agent's `run(message_history=...)` takes.

    Raises:
        ValueError: There is no such form.
        ModuleNotFoundError: The framework is not installed.

    Examples:
        >>> to_messages([{"task": "Where is it?", "answer": "At home"}])
        [{'role': 'user', 'content': 'Where is it?'}, {'role': 'assistant', 'content': 'At home'}]
    """
    entries: Any = history.messages if isinstance(history, dspy.History) else history
    events = [
        event for number, message in enumerate(read_messages(list(entries))) for event in _events(message, number)
    ]
    if form == "pydantic_ai":
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        return ModelMessagesTypeAdapter.validate_python([_pydantic_ai(event) for event in events])
    messages = [_openai(event) for event in events]
    if form == "langchain":
        from langchain_core.messages import convert_to_messages

        return convert_to_messages(messages)
    if form != "openai":
        raise ValueError(f"form is {form!r}, expected 'openai', 'langchain' or 'pydantic_ai'")
    return messages


def _events(message: Message, number: int) -> Iterable[TraceEvent]:
    """A message as events; a call's thought is its text."""
    yield TraceEvent("user", "\n".join(map(value_to_text, message.inputs.values())))
    for index, (thought, call) in enumerate(message.steps):
        call_id = f"m{number}-c{index}"  # unique in the conversation
        given = cast("Mapping[str, Any]", call.args) if isinstance(call.args, Mapping) else {"value": call.args}
        yield TraceEvent("call", thought, call.name, given, call_id)
        yield TraceEvent("result", call.result, call.name, call_id=call_id)
    answers = list(map(value_to_text, message.outputs.values())) or [NO_ANSWER]
    yield TraceEvent("answer", "\n".join(answers))


def _openai(event: TraceEvent) -> dict[str, Any]:
    match event.kind:
        case "user":
            return {"role": "user", "content": event.text}
        case "call":
            function = {"name": event.name, "arguments": json.dumps(event.args)}
            call = {"id": event.call_id, "type": "function", "function": function}
            return {"role": "assistant", "content": event.text, "tool_calls": [call]}
        case "result":
            return {"role": "tool", "tool_call_id": event.call_id, "content": event.text}
        case _:
            return {"role": "assistant", "content": event.text}


def _pydantic_ai(event: TraceEvent) -> dict[str, Any]:
    call = {"tool_name": event.name, "tool_call_id": event.call_id}
    text = [{"part_kind": "text", "content": event.text}] if event.text else []
    match event.kind:
        case "user":
            return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": event.text}]}
        case "call":
            return {"kind": "response", "parts": [*text, {"part_kind": "tool-call", "args": event.args, **call}]}
        case "result":
            return {"kind": "request", "parts": [{"part_kind": "tool-return", "content": event.text, **call}]}
        case _:
            return {"kind": "response", "parts": text}


def _object(args: Any) -> Any:
    """A call's arguments: of JSON text, the object that it is."""
    if isinstance(args, str):
        try:
            value = json.loads(args)
        except (ValueError, RecursionError):
            return args
        return any_json(value) if isinstance(value, dict) else args
    return any_json(args or {})
