"""What a task suite is: tasks with gold calls, and a fresh world for each attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ace.core import SuiteError
from ace.learner import Episode
from ace.playbook import sequence_key
from ace.tasks import TaskInput


class GoldCall(BaseModel):
    """One call of the reference solution."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class SuiteTask(BaseModel):
    """A task with its reference solution."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: TaskInput
    domain: str
    """For the table of results; `task.domain` narrows retrieval."""
    group: str
    """The family: tasks of one template."""
    gold: tuple[GoldCall, ...]
    answer: str = "Done."
    """What the reference solution says at the end; it is not scored."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self.task.task_id


class Suite(Protocol):
    """A set of tasks over a world that tools change.

    `episode` gives a fresh world each time: tools bound to it, and a scorer that looks at its final state. The scorer's
    `Feedback.details` holds ``state_sha256``.
    """

    name: str
    instructions: str
    """What every task takes for granted, for the system prompt."""

    @property
    def tasks(self) -> Sequence[SuiteTask]:
        """All tasks, in a fixed order."""
        ...

    @property
    def writing_tools(self) -> frozenset[str]:
        """Names of the tools that change something."""
        ...

    def episode(self, task: SuiteTask) -> Episode:
        """A fresh attempt at one task."""
        ...

    def check_case(self, case: Mapping[str, Any]) -> list[str]:
        """Replay one golden case; returns what differs."""
        ...


def changing(suite: Suite, task: SuiteTask) -> tuple[str, ...]:
    """The multiset of changing calls in a task's reference solution."""
    return sequence_key(call.name for call in task.gold if call.name in suite.writing_tools)


def halves(tasks: Sequence[SuiteTask]) -> tuple[list[SuiteTask], list[SuiteTask]]:
    """Split every family in two: its 1st, 3rd, 5th ... task, and the others."""
    seen: dict[str, int] = {}
    first: list[SuiteTask] = []
    second: list[SuiteTask] = []
    for task in tasks:
        count = seen[task.group] = seen.get(task.group, 0) + 1
        (first if count % 2 else second).append(task)
    return first, second


def _office(_argument: str, **options: Any) -> Suite:
    from ace.evaluation.office import OfficeSuite

    return OfficeSuite(**{k: v for k, v in options.items() if k == "seed"})


def _workbench(argument: str, **options: Any) -> Suite:
    from ace.evaluation.workbench import WorkBenchSuite

    if not argument:
        raise SuiteError("the suite 'workbench' needs the folder of the benchmark: workbench:PATH")
    return WorkBenchSuite(Path(argument), **{k: v for k, v in options.items() if k == "toolkits"})


SUITES: dict[str, Callable[..., Suite]] = {"office": _office, "workbench": _workbench}
"""By name; each takes what stands after the colon."""


def load_suite(spec: str, **options: Any) -> Suite:
    """Load a suite by its name, ``office`` or ``workbench:PATH``.

    Raises:
        SuiteError: There is no such suite, or its files are missing.

    Example:
        >>> len(load_suite("office").tasks)
        200
    """
    name, _, argument = spec.partition(":")
    if name not in SUITES:
        raise SuiteError(f"no suite {spec!r}; there are 'office' and 'workbench:PATH'")
    return SUITES[name](argument, **options)
