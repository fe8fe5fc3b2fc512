"""Histories from and for elsewhere: what callers pass as `history`, and a conversation as messages of OpenAI's API.

What stands in between are the entries that `ace.agent.history` describes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast

import dspy

from ace.agent.history import (
    OWN_KEYS,
    Called,
    Decision,
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
        """Read a history as entries.

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
        """Check whether it is a message of another framework, and no entry."""
        if not isinstance(message, Mapping):
            return True
        names = set(cast("Mapping[str, Any]", message))
        return "role" in names and "role" not in self.inputs and "role" not in self.outputs

    def _entry(self, message: Mapping[Any, Any]) -> dict[str, Any]:
        """Read a message of a `dspy.History`; what the signature does not name is kept as text, where nothing else is
        known."""
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
        """Read messages of other frameworks: each of the user's begins a turn."""
        groups: list[list[TraceEvent]] = []
        for event in events:
            if not groups or (event.kind == "user" and groups[-1][-1].kind != "user"):
                groups.append([])
            groups[-1].append(event)
        asked = self.inputs[0] if self.inputs else "message"
        messages = (_message(group, asked, answer_field(self.outputs)) for group in groups)
        return tuple(entry for message in messages for entry in stored_entries(message))


def _message(events: Iterable[TraceEvent], asked: str, answer: str) -> Message:
    """Read the messages of another framework that belong to one of the user's."""
    said: dict[str, list[str]] = {"user": [], "answer": [], "thought": []}
    decisions: list[Decision] = []
    for event in events:
        if event.kind == "call":
            call = Called(event.call_id or f"c{len(decisions) + 1}", event.name, _object(event.args), "")
            decisions.append(Decision("\n".join(filter(None, said["thought"])), (call,)))
            said["thought"].clear()
        elif event.kind == "result":
            waiting = ((index, call) for index, decision in enumerate(decisions) for call in decision.calls)
            waiting = (item for item in waiting if not item[1].result and event.call_id in ("", item[1].id))
            for index, call in islice(waiting, 1):
                decisions[index] = replace(decisions[index], calls=(replace(call, result=event.text),))
        else:
            said[event.kind].append(event.text)
    inputs = {asked: "\n".join(said["user"])} if said["user"] else {}
    outputs = {answer: "\n".join(said["answer"])} if said["answer"] else {}
    return Message(inputs, outputs, tuple(decisions))


def to_messages(history: Any) -> list[dict[str, Any]]:
    """Convert a conversation to messages of OpenAI's chat API: what the user said, each call with its result, each answer.

    Other frameworks read this form: LangChain by its `convert_to_messages`.

    Args:
        history: `out.history`, `chat.history`, or their entries.

    Examples:
        >>> to_messages([{"task": "Where is it?", "answer": "At home"}])
        [{'role': 'user', 'content': 'Where is it?'}, {'role': 'assistant', 'content': 'At home'}]
    """
    entries: Any = history.messages if isinstance(history, dspy.History) else history
    return [said for number, message in enumerate(read_messages(list(entries))) for said in _openai(message, number)]


def _openai(message: Message, number: int) -> Iterator[dict[str, Any]]:
    """Yield a message as those of OpenAI's API; a call's thought is its text."""
    yield {"role": "user", "content": "\n".join(map(value_to_text, message.inputs.values()))}
    for index, (thought, call) in enumerate(message.steps):
        call_id = f"m{number}-c{index}"  # unique in the conversation
        given = cast("Mapping[str, Any]", call.args) if isinstance(call.args, Mapping) else {"value": call.args}
        function = {"name": call.name, "arguments": json.dumps(given)}
        made = {"id": call_id, "type": "function", "function": function}
        yield {"role": "assistant", "content": thought, "tool_calls": [made]}
        yield {"role": "tool", "tool_call_id": call_id, "content": call.result}
    answers = list(map(value_to_text, message.outputs.values())) or [NO_ANSWER]
    yield {"role": "assistant", "content": "\n".join(answers)}


def _object(args: Any) -> Any:
    """Read a call's arguments: of JSON text, the object that it is."""
    if isinstance(args, str):
        try:
            value = json.loads(args)
        except (ValueError, RecursionError):
            return args
        return any_json(value) if isinstance(value, dict) else args
    return any_json(args or {})
