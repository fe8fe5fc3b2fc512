"""What callers pass as `history`, as the entries that a run takes: see `ace.agent.conversation`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import dspy

from ace.agent.conversation import OWN_KEYS
from ace.core import SignatureError, value_to_text
from ace.core.text import any_json
from ace.learner.trace_formats import TraceEvent, events_of

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
            if any(not isinstance(message, Mapping) or "role" in message for message in found):
                return self._conversation(events_of(found)) if found else ()
            return tuple(self._entry(cast("Mapping[Any, Any]", message)) for message in found)
        except (ValueError, TypeError, RecursionError) as error:
            raise SignatureError(f"history cannot be read: {error}; expected {_WANTED}") from error

    def _entry(self, message: Mapping[Any, Any]) -> dict[str, Any]:
        """A message of a `dspy.History`; what the signature does not name is kept as text, in its first input."""
        plain = {str(name): any_json(value) for name, value in message.items()}
        known = {name for name in plain if name in self.inputs or name in self.outputs or name in OWN_KEYS}
        other = {name: value for name, value in plain.items() if name not in known and value is not None}
        entry = {name: plain[name] for name in plain if name in known}
        if other and not any(name in entry for name in self.inputs):
            said = [value_to_text(v) if len(other) == 1 else f"{name}: {value_to_text(v)}" for name, v in other.items()]
            entry = {self.inputs[0]: "\n".join(said), **entry}
        return entry

    def _conversation(self, events: Iterable[TraceEvent]) -> tuple[dict[str, Any], ...]:
        """Messages of other frameworks: each of the user's begins a turn."""
        turns: list[_Messages] = []
        for event in events:
            if not turns or (event.kind == "user" and turns[-1].begun):
                turns.append(_Messages())
            turns[-1].take(event)
        return tuple(turn.entry(self.inputs[0], self.outputs[0]) for turn in turns)


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
                fields = {"thought": self._thought, "tool_name": event.name, "tool_args": any_json(event.args or {})}
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
        return {**said, **answered, "trajectory": self.trajectory}
