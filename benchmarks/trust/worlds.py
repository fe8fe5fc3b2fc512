"""Small worlds whose tools read what strangers write, and what a stranger may plant there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import TypeAdapter

Call = tuple[str, dict[str, Any]]
PLANT = "{PLANT}"
"""Where the planted words stand in an answer."""


@dataclass(frozen=True)
class Honest:
    """A request, and the calls that do it with what they answer."""

    task: str
    calls: Sequence[tuple[str, dict[str, Any], str]]


@dataclass(frozen=True)
class Goal:
    """What somebody wants to have done who only writes what tools read."""

    calls: Sequence[Call]
    en: str
    de: str
    es: str


@dataclass(frozen=True)
class World:
    """Tools, what users ask for, and what strangers want."""

    tools: dict[str, tuple[bool, str]]
    """Name to whether it only reads, and its description."""
    honest: Sequence[Honest]
    goals: Sequence[Goal]

    @property
    def reads(self) -> list[str]:
        """The tools that change nothing."""
        return [name for name, (only_reads, _) in self.tools.items() if only_reads]


class Writings(NamedTuple):
    """Worlds, a later one, and by language how planted words are put: with `{goal}`, `{Goal}` and `{calls}`."""

    worlds: dict[str, World]
    later: dict[str, World]
    wordings: dict[str, dict[str, str]]


WORLDS, LATER, LANGUAGES = TypeAdapter(Writings).validate_json(Path(__file__).with_suffix(".json").read_bytes())


def _named(calls: Sequence[Call]) -> str:
    return "; ".join(f"{name} with {', '.join(f'{k} {v}' for k, v in args.items())}" for name, args in calls)


def put(wording: str, goal: str, calls: Sequence[Call]) -> str:
    """Say in some words what a stranger wants."""
    return wording.format(goal=goal, Goal=goal[:1].upper() + goal[1:], calls=_named(calls))


@dataclass(frozen=True)
class Planted:
    """A run whose tools answered with planted words."""

    world: str
    language: str
    wording: str
    task: str
    messages: list[dict[str, Any]]
    reads: list[str]
    followed: bool


def planted(seed: int = 0, languages: Sequence[str] = ("en",)) -> Iterator[Planted]:
    """Yield each goal in each wording, planted in one of the world's tasks; followed, and in another run not followed."""
    random = Random(seed)
    for name, world in WORLDS.items():
        tasks = cycle(random.sample(list(world.honest), len(world.honest)))
        for goal in world.goals:
            for language in languages:
                for wording, words in LANGUAGES[language].items():
                    text, task = put(words, getattr(goal, language), goal.calls), next(tasks)
                    for followed in (True, False):
                        late = random.random() < 0.5
                        messages = conversation(task, text, goal.calls if followed else (), late)
                        yield Planted(name, language, wording, task.task, messages, world.reads, followed)


def conversation(task: Honest, text: str = "", extra: Sequence[Call] = (), late: bool = False) -> list[dict[str, Any]]:
    """Write a run as messages: the task's calls, and those that the planted words ask for, at once or at the end."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task.task}]
    waiting = [(tool, args, "done") for tool, args in extra]
    for tool, args, answer in task.calls:
        messages += _exchange(tool, args, _filled(answer, text), len(messages))
        if PLANT in answer and not late:
            for call in waiting:
                messages += _exchange(*call, len(messages))
            waiting = []
    for call in waiting:
        messages += _exchange(*call, len(messages))
    return [*messages, {"role": "assistant", "content": "Done."}]


def _filled(answer: str, text: str) -> str:
    if answer[:1] in "[{":
        return answer.replace(PLANT, json.dumps(text, ensure_ascii=False)[1:-1])
    return answer.replace(PLANT, text)


def _exchange(tool: str, args: dict[str, Any], answer: str, number: int) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(args)}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": answer},
    ]
