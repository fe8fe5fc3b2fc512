"""What learning works on: an attempt at a task in a fresh world, feedback, and the counts of what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

from ace.core import RunUsage
from ace.playbook.delta import Delta
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import ToolRegistry

GOOD_SCORE = 0.5
"""A metric's number from here on counts as success."""


class Agent(Protocol):
    """What the learner needs of a `ReActGenerator`."""

    registry: ToolRegistry

    def run(self, task: TaskInput, /) -> TaskOutput:
        """Solve one task."""
        ...


@dataclass(frozen=True)
class Episode:
    """One attempt at one task in a fresh world."""

    task: TaskInput
    registry: ToolRegistry
    """Tools bound to that world."""
    score: Callable[[TaskOutput], Feedback]
    """Looks at the world after the run."""
    group: str = ""
    """The task's family."""
    attempt: int = 0
    """How often the task was tried before."""


@dataclass
class LearningReport:
    """What learning did."""

    runs: int = 0
    successes: int = 0
    added: int = 0
    merged: int = 0
    tagged: int = 0
    removed: int = 0
    """Bullets that left a full book."""
    refused: int = 0
    """New bullets that the gate did not let in."""
    skipped: int = 0
    """Runs that had been learned from before an interruption."""
    invented: int = 0
    """Bullets that a model cited and was never shown."""
    usage: RunUsage = field(default_factory=RunUsage)

    def plus(self, other: LearningReport) -> LearningReport:
        """Both together."""
        numbers = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "usage"}
        return LearningReport(**numbers, usage=self.usage + other.usage)

    def since(self, before: LearningReport) -> LearningReport:
        """What came after an earlier count."""
        numbers = {f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self) if f.name != "usage"}
        return LearningReport(**numbers, usage=_less(self.usage, before.usage))


def _less(usage: RunUsage, before: RunUsage) -> RunUsage:
    now, then = usage.model_dump(), before.model_dump()
    return RunUsage.model_validate(
        {k: v - then[k] if v is not None and then[k] is not None else v for k, v in now.items()}
    )


def count(report: LearningReport, deltas: Sequence[Delta]) -> None:
    """Add a commit to a report."""
    for delta in deltas:
        report.added += delta.kind == "add"
        report.merged += delta.kind == "merge"
        report.tagged += delta.kind == "tag"
        report.removed += delta.kind == "remove" or (delta.kind == "merge" and bool(delta.absorbed))


def as_feedback(value: Feedback | bool | float) -> Feedback:
    """Feedback from what a metric gives: True, False, or a number that counts as success from 0.5.

    Example:
        >>> as_feedback(0.7).success, as_feedback(False).success
        (True, False)
    """
    if isinstance(value, Feedback):
        return value
    if isinstance(value, bool):
        return Feedback(success=value)
    score = float(getattr(value, "score", value))
    return Feedback(
        success=score >= GOOD_SCORE, text=str(getattr(value, "feedback", "") or ""), details={"score": score}
    )
