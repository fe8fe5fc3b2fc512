"""One attempt at a task in a fresh world, and what solves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import ToolRegistry


class Solver(Protocol):
    """What learning and graphs need of an agent; a `ReActGenerator` is one."""

    def run(self, task: TaskInput, /) -> TaskOutput:
        """Solve one task."""
        ...


@dataclass(frozen=True)
class Episode:
    """One attempt at one task in a fresh world: `Episode(task, registry, score=lambda output: Feedback(success=True))`."""

    task: TaskInput
    registry: ToolRegistry
    """Tools bound to that world."""
    score: Callable[[TaskOutput], Feedback]
    """Looks at the world after the run."""
    group: str = ""
    """The task's family."""
    attempt: int = 0
    """How often the task was tried before."""
