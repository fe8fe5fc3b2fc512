"""What a task suite is: tasks with gold calls, and a fresh world for each attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, Field

from ace.agent.episode import Episode
from ace.playbook.bullet import sequence_key
from ace.tasks import Feedback, TaskInput, TaskOutput

TASK_SIGNATURE = "task -> answer"


class GoldCall(BaseModel, frozen=True, extra="forbid"):
    """One call of the reference solution: `GoldCall(name="refund", args={"order_id": "o-17"})`."""

    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    may_fail: bool = False
    """Whether the world is meant to refuse it, as a look-up of what is not there."""


class SuiteTask(BaseModel, frozen=True, extra="forbid"):
    """A task with its reference solution: `SuiteTask(task=task, domain="shop", group="refund")`."""

    task: TaskInput
    domain: str
    """For the table of results; `task.domain` narrows retrieval."""
    group: str
    """The family: tasks of one template."""
    gold: tuple[GoldCall, ...] = ()
    """Empty where nothing is to be called, and where there is no reference solution."""
    answer: str = "Done."
    """The answer of the reference solution."""
    outputs: dict[str, Any] = Field(default_factory=dict)
    """The same for a signature with other output fields than `answer`."""
    split: str = ""
    """`train` or `test`, where the suite itself sets it."""
    time: datetime | None = None
    """When the user sent the task, where that is known; UTC where it has no zone."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self.task.task_id


class Suite(Protocol):
    """A set of tasks over a world that tools change; `check_suite(suite)` says whether it is sound.

    A suite whose agents have other inputs or outputs than ``task -> answer`` also has a `signature`, as DSPy takes it. One
    that may change without its tasks changing has a `source`, a digest: an evaluation goes on only with the suite it began
    with.
    """

    name: str
    instructions: str
    """What every task takes for granted, for the system prompt."""

    @property
    def tasks(self) -> Sequence[SuiteTask]:
        """All tasks, in a fixed order; ids are unique."""
        ...

    @property
    def writing_tools(self) -> frozenset[str]:
        """Names of the tools that change something."""
        ...

    def episode(self, task: SuiteTask) -> Episode:
        """Begin a fresh attempt at one task: tools bound to a world of its own, and a scorer that looks at it at the end.

        The scorer's `Feedback.details` may hold ``state_sha256``, a digest for each part of the world: reports then show
        in which state a run ended, and `ace.suites.check_suite` for which tasks doing nothing is right.
        """
        ...


@runtime_checkable
class GoldenSuite(Suite, Protocol):
    """A suite that replays recorded calls, `check_suite(suite, golden=cases)`, to show that its tools are right."""

    def check_case(self, case: Mapping[str, Any]) -> list[str]:
        """Replay one golden case; returns what differs."""
        ...


def by_final_state(output: TaskOutput, equal: bool) -> Feedback:
    """Score as right when the model finished and left the world as the reference solution does."""
    changed = sorted({s.tool_name for s in output.structured_trace if s.executed and s.changes_state})
    text = "" if equal else f"the final state is wrong after {' and '.join(changed) or 'no changing call'}"
    return Feedback(success=equal and output.completed, text=text, trusted=True, details={"state_equal": equal})


def signature_of(suite: Suite) -> Any:
    """Return the signature of the agents that run a suite's tasks."""
    import dspy

    given: Any = getattr(suite, "signature", TASK_SIGNATURE)
    return dspy.Signature(given, suite.instructions) if isinstance(given, str) else given  # pyright: ignore


def changing(suite: Suite, task: SuiteTask) -> tuple[str, ...]:
    """Return the multiset of changing calls in a task's reference solution."""
    return sequence_key(call.name for call in task.gold if call.name in suite.writing_tools)
