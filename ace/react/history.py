"""Histories from and for elsewhere: what callers pass as `history`, and a conversation as another framework's messages.

What stands in between are the entries that `ace.agent.conversation` describes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import dspy

from ace.agent.conversation import OUTPUTS, OWN_KEYS, Turn
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
        return {**ordered, OUTPUTS: [name for name in self.outputs if name in entry]}

    def _conversation(self, events: Iterable[TraceEvent]) -> tuple[dict[str, Any], ...]:
        """Messages of other frameworks: each of the user's begins a turn."""
        turns: list[_Messages] = []
        for event in events:
            if not turns or (event.kind == "user" and turns[-1].begun):
                turns.append(_Messages())
            turns[-1].take(event)
        asked = self.inputs[0] if self.inputs else "message"
        return tuple(turn.entry(asked, answer_field(self.outputs)) for turn in turns)


class _Messages:
    """The messages of one turn."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.trajectory: dict[str, Any] = {}
        self.answers: list[str] = []
        self._thought = ""
        self._open: list[tuple[str, int]] = []
        self._calls = 0

    @property
    def begun(self) -> bool:
        """Whether anything but the user's words came."""
        return bool(self._calls or self.answers or self._thought)

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
                fields = {"thought": self._thought, "tool_name": event.name, "tool_args": _object(event.args)}
                self.trajectory |= {f"{name}_{self._calls}": value for name, value in fields.items()}
                self._open.append((event.call_id, self._calls))
                self._calls, self._thought = self._calls + 1, ""
            case "result":
                wanted = [one for one in self._open if not event.call_id or one[0] == event.call_id]
                if wanted:
                    self._open.remove(wanted[0])
                    self.trajectory[f"observation_{wanted[0][1]}"] = event.text

    def entry(self, asked: str, answer: str) -> dict[str, Any]:
        """As an entry of a history."""
        said = {asked: "\n".join(self.said)} if self.said else {}
        answered = {answer: "\n".join(self.answers)} if self.answers else {}
        return {**said, **answered, "trajectory": self.trajectory, OUTPUTS: list(answered)}


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
    events = [event for number, entry in enumerate(entries) for event in _events(entry, number)]
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


def _events(entry: Mapping[str, Any], number: int) -> Iterable[TraceEvent]:
    """An entry as events; a call's thought is its text."""
    turn = Turn.read(entry)
    yield TraceEvent("user", "\n".join(map(value_to_text, turn.inputs.values())))
    for index, (thought, name, args, observation) in enumerate(turn.steps):
        call_id = f"m{number}-c{index}"  # unique in the conversation
        given = cast("Mapping[str, Any]", args) if isinstance(args, Mapping) else {"value": args}
        yield TraceEvent("call", thought, name, given, call_id)
        yield TraceEvent("result", observation, name, call_id=call_id)
    answers = list(map(value_to_text, turn.outputs.values())) or [NO_ANSWER]
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
