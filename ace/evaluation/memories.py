"""What an arm remembers: nothing that changes, or more with every run (the arms `online` and `full-history`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ace.playbook import Filters, Playbook, PlaybookBullet
from ace.playbook.render import count_tokens, render_bullets
from ace.suites.protocol import SuiteTask
from ace.tasks import Feedback, TaskInput, TaskOutput

if TYPE_CHECKING:
    from ace.react import BulletSource

HISTORY_TOKENS = 32_000
"""Tokens of its history that an agent is shown; the oldest runs go first."""


class Memory(Protocol):
    """Of one arm and one seed, over all its tasks in order."""

    def source(self, task: SuiteTask) -> BulletSource | None:
        """Return what the agent's `playbook` is for a task."""
        ...

    def learn(self, task: SuiteTask, output: TaskOutput, feedback: Feedback, tools: Mapping[str, Any]) -> None:
        """Take in a run."""
        ...


class Online:
    """A playbook that starts empty and learns from each run before the next (prequential evaluation, Dawid 1984).

    Args:
        source: The model whose runs teach, for the lessons' provenance.
        unseen: Whether lessons of a task's own family are left out.
        book: An empty playbook; one in memory by default.
    """

    def __init__(self, source: str, unseen: bool = False, book: Playbook | None = None) -> None:
        from ace.learner import Learner
        from ace.reflector import Reflector

        self.book = Playbook() if book is None else book  # an empty one is falsy
        self._learner = Learner(self.book, reflector=Reflector(source))
        self._unseen = unseen

    def source(self, task: SuiteTask) -> BulletSource | None:
        """See `Memory`."""
        groups = (task.group,) if self._unseen else ()
        return self.book.view(Filters(exclude_tasks=(task.id,), exclude_groups=groups))

    def learn(self, task: SuiteTask, output: TaskOutput, feedback: Feedback, tools: Mapping[str, Any]) -> None:
        """See `Memory`."""
        self._learner.learn(output, feedback, tools, group=task.group)


class FullHistory:
    """Every earlier run as it was, in the prompt: the usual way without a playbook.

    Args:
        tokens: At most this many.
        unseen: Whether runs of a task's own family are left out.
    """

    def __init__(self, tokens: int = HISTORY_TOKENS, unseen: bool = False) -> None:
        self.tokens = tokens
        self._unseen = unseen
        self._runs: list[tuple[str, int, PlaybookBullet]] = []

    def source(self, task: SuiteTask) -> BulletSource | None:
        """See `Memory`."""
        left, shown = self.tokens, list[PlaybookBullet]()
        for group, tokens, bullet in reversed(self._runs):
            if self._unseen and group == task.group:
                continue
            if tokens > left:
                break
            left -= tokens
            shown.append(bullet)
        return FixedBullets(shown)

    def learn(self, task: SuiteTask, output: TaskOutput, feedback: Feedback, tools: Mapping[str, Any]) -> None:
        """See `Memory`."""
        calls = [step for step in output.structured_trace if step.tool_name]
        how = "This worked." if feedback.success else f"This did not work. {feedback.text}"
        steps = "" if feedback.success else f" Calls: {', '.join(step.tool_name for step in calls)}."
        bullet = PlaybookBullet(
            id=f"b-{len(self._runs) + 1}",
            section="Strategies" if feedback.success else "Pitfalls",
            trigger=task.task.text,
            content=f"{how}{steps}",
            tool_sequence=tuple(step.tool_name for step in calls),
            changing_tools=tuple(step.tool_name for step in calls if step.changes_state),
        )
        self._runs.append((task.group, count_tokens(render_bullets([bullet])), bullet))


class FixedBullets:
    """Shows the same bullets whatever is asked."""

    def __init__(self, bullets: Sequence[PlaybookBullet]) -> None:
        self.bullets = list(bullets)

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> list[PlaybookBullet]:
        """Return the fixed bullets."""
        return self.bullets
