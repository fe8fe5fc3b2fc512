"""BFCL's single turns as a suite: one request, a few functions that do nothing, and which call the reply makes.

From the package `bfcl-eval` (Apache-2.0). In ``multiple`` exactly one of two to four functions is right, in ``irrelevance``
none is. A run has one turn and is judged as BFCL judges by syntax trees: the function, and for each argument one of the
accepted values; texts are compared without case, spaces and punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from ace.agent.episode import Episode
from ace.suites.protocol import GoldCall, SuiteTask
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import ToolRegistry, from_json_schema
from ace_suites.bfcl.data import data_folder, lines, schema_of

CATEGORIES = ("multiple", "irrelevance")
_LEFT_OUT = re.compile(r"[ ,./\-_*^]")
Accepted = Mapping[str, list[Any]]
"""Argument to the values that are right; an empty text among them says that it may be left out."""


class SingleTurnSuite:
    """BFCL's single turns.

    Args:
        category: `multiple` or `irrelevance`.

    Raises:
        SuiteError: The package is missing.
    """

    instructions = "Call the one tool that does what the user asks; where none does, call none and say so."
    writing_tools: frozenset[str] = frozenset()
    """See `Suite`: the functions do nothing."""

    def __init__(self, category: str) -> None:
        data = data_folder()
        file, self.name = f"BFCL_v4_{category}.json", f"bfcl-{category}"
        answers = lines(data / "possible_answer" / file) if category == "multiple" else []
        self._accepted: dict[str, tuple[str, Accepted]] = {
            row["id"]: next(iter(row["ground_truth"][0].items())) for row in answers
        }
        self._rows = {row["id"]: row for row in lines(data / file)}
        self._tasks = tuple(self._task(name, row) for name, row in self._rows.items())

    @property
    def tasks(self) -> tuple[SuiteTask, ...]:
        """See `Suite`."""
        return self._tasks

    def _task(self, name: str, row: Mapping[str, Any]) -> SuiteTask:
        text = "\n".join(message["content"] for message in row["question"][0])
        gold: tuple[GoldCall, ...] = ()
        if name in self._accepted:
            function, accepted = self._accepted[name]
            gold = (GoldCall(name=function, args=first(accepted)),)
        return SuiteTask(
            task=TaskInput(task_id=name, inputs={"task": text}, max_iters=1), domain=self.name, group=name, gold=gold
        )

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`; every function answers that it was done."""
        registry = ToolRegistry(
            from_json_schema(
                row["name"], row["description"], schema_of(row["parameters"]), lambda **_: "done", read_only=True
            )
            for row in self._rows[task.id]["function"]
        )
        return Episode(task.task, registry, partial(self._score, task), task.group)

    def _score(self, task: SuiteTask, output: TaskOutput) -> Feedback:
        calls = [(step.tool_name, step.tool_args) for step in output.structured_trace if step.tool_name]
        if task.id not in self._accepted:
            right, text = not calls, "a function was called, and none does what was asked"
        else:
            function, accepted = self._accepted[task.id]
            right = len(calls) == 1 and calls[0][0] == function and arguments_right(calls[0][1], accepted)
            text = "the calls are not the one that is right"
        details: dict[str, Any] = {"state_sha256": {}} | ({"answer_right": right} if task.gold else {})
        return Feedback(success=right, text="" if right else text, trusted=True, details=details)


def arguments_right(given: Mapping[str, Any], accepted: Accepted) -> bool:
    """Check whether each argument has an accepted value, and those that are missing may be left out.

    Examples:
        >>> arguments_right({"city": "New York"}, {"city": ["new-york"], "unit": ["", "C"]})
        True
        >>> arguments_right({"city": "Rome", "day": 1}, {"city": ["Rome"]})
        False
    """
    return given.keys() <= accepted.keys() and all(
        any(_same(given[name], value) for value in values) if name in given else "" in values
        for name, values in accepted.items()
    )


def _same(given: Any, value: Any) -> bool:
    if isinstance(given, str) and isinstance(value, str):
        return _standard(given) == _standard(value)
    if isinstance(given, list) and isinstance(value, list):
        return len(given) == len(value) and all(map(_same, given, value))
    if isinstance(given, dict) and isinstance(value, dict):
        return arguments_right(given, value)
    return isinstance(given, bool) == isinstance(value, bool) and given == value


def _standard(text: str) -> str:
    return _LEFT_OUT.sub("", text).lower().replace("'", '"')


def first(accepted: Accepted) -> dict[str, Any]:
    """Return the first accepted value of each argument that may not be left out.

    Examples:
        >>> first({"city": ["Rome", "Roma"], "unit": ["", "C"]})
        {'city': 'Rome'}
    """
    return {name: _plain(values[0]) for name, values in accepted.items() if "" not in values}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return first(value)
    return [_plain(item) for item in value] if isinstance(value, list) else value
