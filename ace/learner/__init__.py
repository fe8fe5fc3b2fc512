"""`Learner`: generate, reflect, curate, commit; and credit to the bullets that were used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ace.core import PlaybookError, RunUsage
from ace.curator import Curator
from ace.playbook import Playbook, PlaybookBullet, Tag, sequence_key
from ace.playbook.delta import Delta
from ace.reflector import OUTAGES, Reflector
from ace.tasks import Feedback, TaskInput, TaskOutput
from ace.tools import ToolRegistry


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


@dataclass
class LearningReport:
    """What learning did."""

    runs: int = 0
    successes: int = 0
    added: int = 0
    merged: int = 0
    tagged: int = 0
    usage: RunUsage = field(default_factory=RunUsage)


ATTEMPTS = 5
"""A lesson is curated anew so often when other processes change the book at the same time."""


class Learner:
    """Learns from runs.

    Args:
        playbook: Where lessons go.
        agent_for: Builds the agent of an episode: its tools belong to that episode's world.
        reflector: Mines runs for lessons.
        curator: Turns lessons into deltas.
        author: Who is named in the journal.

    Example:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> task = TaskInput(task_id="t1", inputs={"task": "Say hello"})
        >>> output = TaskOutput(task_id="t1", run_id="r1", task=task, termination_reason="completed", answer="hello")
        >>> Learner(book).learn(output, Feedback(success=True), {})
        1
        >>> book.bullets[0].content
        'No call is needed: finish at once.'
    """

    def __init__(
        self,
        playbook: Playbook,
        agent_for: Callable[[Episode], Agent] | None = None,
        *,
        reflector: Reflector | None = None,
        curator: Curator | None = None,
        author: str = "learner",
    ) -> None:
        self.playbook = playbook
        self.agent_for = agent_for
        self.reflector = reflector or Reflector()
        self.curator = curator or Curator(playbook)
        self.author = author
        self._credited: set[str] | None = None

    def fit(
        self,
        trainset: Sequence[Callable[[], Episode]],
        *,
        epochs: int = 1,
        on_run: Callable[[Episode, TaskOutput, Feedback], None] | None = None,
    ) -> LearningReport:
        """Run every task, reflect, curate and commit after each, so that the next run can use what this one taught.

        Args:
            trainset: For each task, a function that sets up a fresh episode.
            epochs: How often the whole set is run.
            on_run: Called after each run, for progress.

        Returns:
            Counts; every commit is on disk already, so an interruption loses nothing.
        """
        if self.agent_for is None:
            raise ValueError("Learner.fit runs the agent itself; construct the Learner with agent_for=...")
        report = LearningReport()
        for _ in range(epochs):
            for make in trainset:
                episode = make()
                output = self.agent_for(episode).run(episode.task)
                feedback = episode.score(output)
                deltas = self._learned(output, feedback, episode.registry.schema_hashes, episode.group)
                _count(report, output, feedback, deltas)
                if on_run:
                    on_run(episode, output, feedback)
        return report

    def learn(
        self, output: TaskOutput, feedback: Feedback, schema_hashes: Mapping[str, str], *, group: str = ""
    ) -> int:
        """Learn from one run that already happened; returns the playbook's revision.

        Args:
            output: The run.
            feedback: Whether it did what it should.
            schema_hashes: Of the agent's tools: ``agent.registry.schema_hashes``.
            group: The task's family.
        """
        self._learned(output, feedback, schema_hashes, group)
        return self.playbook.revision

    def _learned(
        self, output: TaskOutput, feedback: Feedback, schema_hashes: Mapping[str, str], group: str
    ) -> list[Delta]:
        insights = self.reflector.reflect(output, feedback, group=group)
        for attempts_left in reversed(range(ATTEMPTS)):
            known, credit = self.playbook.revision, self._credit(output, feedback)
            deltas = [*credit, *self.curator.curate(insights, schema_hashes)]
            try:
                self.playbook.commit(deltas, author=self.author, tools=schema_hashes)
            except PlaybookError:
                # when somebody else changed the book meanwhile, a bullet may have gone, and gets no credit
                if self.playbook.revision == known or not attempts_left:
                    raise
            else:
                if credit and self._credited is not None:
                    self._credited.add(output.run_id)
                return deltas
        raise AssertionError("the last attempt returns or raises")

    def _credit(self, output: TaskOutput, feedback: Feedback) -> list[Tag]:
        """Credit once per run and bullet, only to bullets that were cited or followed, not to all that were shown."""
        if not output.injected_bullets or output.termination_reason in OUTAGES:
            return []
        if self._credited is None:
            tags = (delta for _, delta in self.playbook.journal() if isinstance(delta, Tag))
            self._credited = {delta.run_id for delta in tags}
        if output.run_id in self._credited:
            return []
        done = sequence_key(s.tool_name for s in output.structured_trace if s.executed and s.changes_state)
        known: dict[str, PlaybookBullet] = {bullet.id: bullet for bullet in self.playbook.bullets}
        return [
            Tag(
                bullet_id=bullet_id,
                helpful=int(feedback.success),
                harmful=int(not feedback.success),
                run_id=output.run_id,
                reason="cited" if bullet_id in output.cited_bullets else "followed",
            )
            for bullet_id in output.injected_bullets
            if bullet_id in known
            and known[bullet_id].section != "Pitfalls"
            and (bullet_id in output.cited_bullets or known[bullet_id].key == done)
        ]


def _count(report: LearningReport, output: TaskOutput, feedback: Feedback, deltas: Sequence[Delta]) -> None:
    report.runs += 1
    report.successes += feedback.success
    report.usage += output.usage
    for delta in deltas:
        report.added += delta.kind == "add"
        report.merged += delta.kind == "merge"
        report.tagged += delta.kind == "tag"
