"""The earlier messages of a conversation: as JSON that `dspy.History` takes, and as a prompt shows them.

An entry holds a message's inputs and outputs by name, its `trajectory` with the keys of `dspy.ReAct`, the `playbook` as it
was shown, how far it was shortened, which of its values are outputs, and the ids of its run and task. What
``{**inputs, **prediction}`` of plain DSPy gives is one, too. Calls in it are text: nothing here is ever executed or checked
against the tools of now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from ace.agent.trajectory import STUB, as_fields, layout
from ace.core import as_data, json_value, value_as_data, value_to_text
from ace.core.text import any_json
from ace.tasks import ReasoningStep

TRAJECTORY, PLAYBOOK, SHORTENED, OUTPUTS, RUN = "trajectory", "playbook", "_shortened", "_outputs", "_run"
OWN_KEYS = frozenset({TRAJECTORY, PLAYBOOK, SHORTENED, OUTPUTS, RUN, "reasoning"})
"""Keys of an entry that are neither inputs nor outputs."""

IN_FULL, SHORT, NO_CALLS, LEFT_OUT = range(4)
"""How much of a turn a prompt shows: all; its observations shortened; the message and the answer alone; nothing."""

_STEP = re.compile(r"tool_name_(\d+)")
TURN_LAYOUT = 240
"""About what the layout around a turn takes, in characters."""
Step = tuple[str, str, Any, str]
"""Thought, tool, arguments, observation."""


@dataclass(frozen=True)
class ShownTurn:
    """An earlier turn as a prompt shows it; every text is data."""

    inputs: Mapping[str, Any]
    playbook: str
    trajectory: str
    thought: str
    args: Mapping[str, Any]
    """The arguments of the `finish` that ended it."""
    outputs: Mapping[str, Any]

    def __len__(self) -> int:
        """Its characters."""
        return len(self.text)

    @cached_property
    def text(self) -> str:
        """All of it, for measuring and searching."""
        parts = [*self.inputs.values(), self.playbook, self.trajectory, self.thought, *self.args.values()]
        return "\n".join(part if isinstance(part, str) else value_to_text(part) for part in parts)


@dataclass(frozen=True)
class Turn:
    """An earlier message of a conversation with its calls, and what was answered."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    steps: tuple[Step, ...] = ()
    closing: tuple[str, Any] | None = None
    """Thought and arguments of the `finish` that ended it."""
    playbook: str = ""
    shortened: int = IN_FULL

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Turn:
        """An entry of a history; one that does not say which of its values are outputs has `answer` as the only one.

        Examples:
            >>> turn = Turn.read({"task": "Where is it?", "answer": "At home"})
            >>> turn.inputs, turn.outputs
            ({'task': 'Where is it?'}, {'answer': 'At home'})
        """
        named: Any = entry.get(OUTPUTS)
        outputs = [str(name) for name in cast("list[Any]", named)] if isinstance(named, list) else ["answer"]
        found: Any = entry.get(TRAJECTORY)
        fields = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else dict[str, Any]()
        steps, closing = list[Step](), None
        for index in sorted(int(match[1]) for name in fields if (match := _STEP.fullmatch(name))):
            thought, name = (value_to_text(fields.get(f"{key}_{index}") or "") for key in ("thought", "tool_name"))
            if name == "finish":
                closing = (thought, fields.get(f"tool_args_{index}"))
            else:
                observed = value_to_text(fields.get(f"observation_{index}", ""))
                steps.append((thought, name, fields.get(f"tool_args_{index}", {}), observed))
        level = entry.get(SHORTENED, IN_FULL)
        return cls(
            inputs={name: value for name, value in entry.items() if name not in outputs and name not in OWN_KEYS},
            outputs={name: entry[name] for name in outputs if entry.get(name) is not None},
            steps=tuple(steps),
            closing=closing,
            playbook=value_to_text(entry.get(PLAYBOOK) or ""),
            shortened=level if isinstance(level, int) and IN_FULL <= level <= LEFT_OUT else IN_FULL,
        )

    def shown(self, level: int) -> ShownTurn:
        """The turn as a prompt shows it at this level."""
        if level < NO_CALLS:
            limit = STUB if level == SHORT else None
            parts = [layout(index, *step, limit) for index, step in enumerate(self.steps)]
        else:
            parts = [f"[{len(self.steps)} calls left out: the context window is full]"] if self.steps else []
        thought, args = self.closing or ("" if self.outputs else "No answer was given.", self.outputs)
        return ShownTurn(
            inputs=_as_data(self.inputs),
            playbook=as_data(self.playbook) if level < NO_CALLS else "",
            trajectory="\n\n".join(parts),
            thought=as_data(thought),
            args=_as_data(cast("Mapping[str, Any]", args) if _holds(args, self.outputs) else self.outputs),
            outputs=_as_data(self.outputs),
        )


class Conversation:
    """The earlier turns of one run, and how far each of them is shortened.

    Args:
        history: Entries, oldest first.
        levels: What this run has shortened so far: a turn's index to its level.
    """

    def __init__(self, history: Sequence[Mapping[str, Any]], levels: Mapping[int, int] | None = None) -> None:
        self.turns = [Turn.read(entry) for entry in history]
        self.levels = {index: turn.shortened for index, turn in enumerate(self.turns)} | dict(levels or {})
        self._rendered: dict[tuple[int, int], ShownTurn] = {}

    def _shown(self, index: int, level: int) -> ShownTurn:
        """A turn at a level; rendered once, as each request asks for it again."""
        if (index, level) not in self._rendered:
            self._rendered[index, level] = self.turns[index].shown(level)
        return self._rendered[index, level]

    def size(self, index: int, level: int) -> int:
        """Characters that a turn takes at a level."""
        return 0 if level == LEFT_OUT else len(self._shown(index, level)) + TURN_LAYOUT

    def shown(self) -> tuple[ShownTurn, ...]:
        """The turns that the prompt shows."""
        return tuple(self._shown(index, level) for index, level in self.levels.items() if level != LEFT_OUT)

    @property
    def missing(self) -> int:
        """How many turns are left out."""
        return sum(level == LEFT_OUT for level in self.levels.values())

    def note(self) -> list[str]:
        """What the prompt says of the turns that are left out."""
        return [f"[{self.missing} earlier messages left out: the context window is full]"] if self.missing else []


@dataclass(frozen=True)
class SoFar:
    """The conversation with a run as its last turn; made into entries when somebody asks for them."""

    history: tuple[Mapping[str, Any], ...]
    levels: Mapping[int, int]
    """What the run has shortened; it is kept, so that the next prompt begins like this run's."""
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    """What was answered; empty for a run that gave no answer."""
    steps: Sequence[ReasoningStep]
    closing: tuple[str, Any] | None
    """Thought and arguments of the `finish` that ended it."""
    playbook: str
    """The bullets, as the prompt showed them."""
    shortened: int
    run: tuple[str, str] = ("", "")
    """The run's id and the task's."""

    def entries(self) -> tuple[dict[str, Any], ...]:
        """As a run's `TaskInput.history`."""
        levels = [self.levels.get(index, IN_FULL) for index in range(len(self.history))]
        earlier = [
            {**entry, SHORTENED: level} if level else {**entry}
            for entry, level in zip(self.history, levels, strict=True)
        ]
        optional = {PLAYBOOK: self.playbook, SHORTENED: self.shortened, RUN: list(self.run) if self.run[0] else None}
        new = {
            **{name: _plain(value) for name, value in {**self.inputs, **self.outputs}.items()},
            TRAJECTORY: json_value(as_fields(self.steps, {}, {}, self.closing)),
            OUTPUTS: list(self.outputs),
            **{name: value for name, value in optional.items() if value},
        }
        return (*earlier, new)


def _plain(value: Any) -> Any:
    """A value as JSON; of an image or the like, its kind: it was sent with its own message and is not sent again."""
    if hasattr(value, "serialize_model"):  # DSPy's own types
        return f"[{type(value).__name__} of an earlier message]"
    try:
        return any_json(value)
    except RecursionError:
        return value_to_text(value)


def _as_data(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value_as_data(value) for name, value in values.items()}


def _holds(args: Any, outputs: Mapping[str, Any]) -> bool:
    """Whether arguments of `finish` hold the answer: where they did not fit, it was asked for in another request."""
    return isinstance(args, Mapping) and set(cast("Mapping[str, Any]", args)) >= set(outputs)
