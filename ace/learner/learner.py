"""`Learner`: generate, reflect, curate, commit; and credit to the bullets that were used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ace.curator import Curator, Gate
from ace.learner._background import Background
from ace.learner._learning import Learning
from ace.learner.episode import Agent, Episode, LearningReport, as_feedback
from ace.learner.memory import LearningMemory
from ace.learner.spool import Lived, Spool
from ace.playbook import Playbook
from ace.reflector import Reflector
from ace.tasks import Feedback, TaskOutput
from ace.tools import ToolRegistry

_NONE: Any = object()
QUEUE_SIZE = 1_000
"""So many observed runs may wait; then `observe` waits too."""


class Learner(Learning):
    """Learns from runs.

    Args:
        playbook: Where lessons go.
        agent_for: Builds the agent of an episode: its tools belong to that episode's world.
        reflector: Mines runs for lessons.
        curator: Turns lessons into deltas.
        gate: Decides whether new bullets are committed, for example an `AcceptanceGate`; evidence and credit need none.
        gate_every: The gate looks at the lessons of so many runs together.
        state: A file that remembers which runs have been learned from: `fit` goes on where it was interrupted, and runs that
            were observed are not lost with the process.
        tools: Of the agent whose runs are observed, so that bullets know the versions of the tools they speak of.
        judge: Says whether an observed run succeeded when nobody else does, for example `ace.reflector.Judge`.
        explore: See `memory`.
        withhold: See `memory`.
        seed: Of exploration and coins.
        queue_size: So many observed runs may wait; then `observe` waits until there is room.
        author: Who is named in the journal.

    Example:
        >>> from ace.playbook import CallableEmbedder
        >>> from ace.tasks import TaskInput
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
        gate: Gate | None = None,
        gate_every: int = 10,
        state: str | Path | None = None,
        tools: ToolRegistry | Mapping[str, str] | None = None,
        judge: Callable[[TaskOutput], Feedback] | None = None,
        explore: float = 0.0,
        withhold: float = 0.0,
        seed: int = 0,
        queue_size: int = QUEUE_SIZE,
        author: str = "learner",
    ) -> None:
        if gate_every < 1 or queue_size < 1:
            raise ValueError(f"gate_every and queue_size must be at least 1, got {gate_every!r} and {queue_size!r}")
        hashes = dict(tools.schema_hashes if isinstance(tools, ToolRegistry) else tools or {})
        spool = Spool(state) if state is not None else None
        super().__init__(playbook, reflector, curator, gate, gate_every, judge, hashes, spool, author)
        self.agent_for = agent_for
        self.memory = LearningMemory(playbook, explore, withhold, seed)
        """The playbook as an agent should see it that is learned from: with exploration and coins."""
        self._background = Background(self._take, queue_size)
        for lived in list(spool.waiting.values()) if spool is not None else ():
            if not lived.place:
                self._background.put(lived, wait=False)

    # -- offline ---------------------------------------------------------------------------------------------------------

    def fit(
        self,
        trainset: Sequence[Callable[[], Episode]],
        *,
        epochs: int = 1,
        skip_solved: bool = False,
        name: str = "",
        on_run: Callable[[Episode, TaskOutput, Feedback], None] | None = None,
    ) -> LearningReport:
        """Run every task, reflect, curate and commit after each, so that the next run can use what this one taught.

        With a `state` file, a second call over the same training set goes on where the first was interrupted: what was
        learned is not learned again, and a run that was paid for is not made again.

        Args:
            trainset: For each task, a function that sets up a fresh episode.
            epochs: How often the whole set is run.
            skip_solved: Whether tasks that succeeded in an earlier epoch are left out.
            name: Tells this fit from others over the same `state` file.
            on_run: Called after each run, for progress.

        Returns:
            Counts of this call; every commit is on disk already, so an interruption loses nothing.
        """
        if self.agent_for is None:
            raise ValueError("Learner.fit runs the agent itself; construct the Learner with agent_for=...")
        before, solved = replace(self.report), set[int]()
        for epoch in range(epochs):
            for index, make in enumerate(trainset):
                if skip_solved and index in solved:
                    continue
                episode = replace(make(), attempt=epoch)
                success = self._lived_through(episode, f"{name}/{epoch}/{index}/{episode.task.task_id}", on_run)
                if success:
                    solved.add(index)
            self._look_back()
            self._propose(now=True)
        return self.report.since(before)

    def _lived_through(
        self, episode: Episode, place: str, on_run: Callable[[Episode, TaskOutput, Feedback], None] | None
    ) -> bool:
        """One episode, unless it has been learned from; whether it succeeded."""
        assert self.agent_for is not None
        spool = self._spool
        if spool is not None and place in spool.learned:
            self.report.skipped += 1
            return spool.learned[place]
        lived = spool.waiting.get(place) if spool is not None else None
        if lived is None:
            output = self.agent_for(episode).run(episode.task)
            hashes = dict(episode.registry.schema_hashes)
            lived = Lived(
                key=place,
                place=place,
                output=output,
                feedback=as_feedback(episode.score(output)),
                schema_hashes=hashes,
                group=episode.group,
            )
            if spool is not None:
                spool.put(lived)
                spool.sync()
        feedback = self._take(lived)
        if on_run:
            on_run(episode, lived.output, feedback)
        return feedback.success

    # -- online ----------------------------------------------------------------------------------------------------------

    def observe(
        self,
        output: Any,
        feedback: Feedback | bool | float | None = None,
        schema_hashes: Mapping[str, str] | None = None,
        *,
        group: str = "",
    ) -> None:
        """Learn from a run in the background; returns at once.

        With a `state` file the run survives the end of the process from here on. When `queue_size` runs wait already, the
        call waits until one has been learned from: the agent is slowed down rather than memory filled up.

        Args:
            output: A `TaskOutput`, or what `ReActGenerator.forward` returned.
            feedback: Whether it did what it should; True and False are short for it, a number counts from 0.5. None asks
                the judge.
            schema_hashes: Of the agent's tools, when they are not the learner's `tools`.
            group: The task's family.

        Raises:
            ValueError: There is neither feedback nor a judge.
            PlaybookError: The learner is closed.
        """
        run: TaskOutput = getattr(output, "output", output)
        if feedback is None and self.judge is None:
            raise ValueError(
                "observe needs feedback, from a metric, a verifier or a person; or give the Learner a judge"
            )
        lived = Lived.model_construct(
            key=run.run_id,
            place="",
            output=run,
            feedback=None if feedback is None else as_feedback(feedback),
            schema_hashes=dict(self._tools if schema_hashes is None else schema_hashes),
            group=group,
        )
        self._background.check_open()
        if self._spool is not None:
            self._spool.put(lived)
        self._background.put(lived)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until every observed run has been learned from; whether that is so.

        Raises:
            Exception: What learning from a run raised, once; with a `state` file that run is tried again next time.
        """
        done = self._background.flush(seconds)
        self._look_back()
        self._propose(now=True)
        return done

    def close(self) -> None:
        """Learn from what waits, and let go of the state file."""
        try:
            if self._background.used or self._proposed:
                self.flush()
        finally:
            self._background.stop()
            if self._spool is not None:
                self._spool.close()

    def __enter__(self) -> Learner:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()

    # -- from what is there already ----------------------------------------------------------------------------------------

    def learn_from_traces(
        self,
        traces: Iterable[Any],
        feedback: Callable[[TaskOutput], Feedback | bool | float] | Iterable[Feedback | bool | float] | None = None,
        **options: Any,
    ) -> LearningReport:
        """Learn from runs that other frameworks recorded.

        Args:
            traces: DSPy predictions with a trajectory, LangChain results with intermediate steps, LangGraph states,
                Pydantic AI messages, OpenAI-style message lists, or our own `TaskOutput`s; also as JSON. See
                `ace.learner.traces.read_trace`.
            feedback: For each trace, or a function of the run; None asks the judge.
            **options: As for `read_trace`: `read_only`, `task`, `domain`, `tenant`.

        Returns:
            Counts of this call.

        Raises:
            ValueError: A trace is of no known form, or there is neither feedback nor a judge.
        """
        from ace.learner.traces import read_trace

        if feedback is None and self.judge is None:
            raise ValueError(
                "learn_from_traces needs feedback for each run, or a function of it; or give the Learner a judge"
            )
        before = replace(self.report)
        given = iter(feedback) if feedback is not None and not callable(feedback) else None
        taught = {run for bullet in self.playbook.bullets for run in bullet.provenance.run_ids}
        for number, trace in enumerate(traces):
            try:
                output = read_trace(trace, **options)
            except ValueError as error:
                raise ValueError(
                    f"trace {number}, counted from 0: {error}; those before it were learned from"
                ) from error
            verdict = feedback(output) if callable(feedback) else next(given, _NONE) if given is not None else None
            if verdict is _NONE or (verdict is None and self.judge is None):
                raise ValueError(
                    f"there is no feedback for trace {number}, counted from 0; those before it were learned from"
                )
            if output.run_id in taught:  # a trace's content is its id: the same one teaches nothing new
                self.report.skipped += 1
                continue
            taught.add(output.run_id)
            known = None if verdict is None else as_feedback(verdict)
            self._take(
                Lived(key=output.run_id, output=output, feedback=known, schema_hashes=dict(self._tools)), keep=False
            )
        self._look_back()
        self._propose(now=True)
        return self.report.since(before)

    def learn(
        self,
        output: TaskOutput,
        feedback: Feedback,
        schema_hashes: Mapping[str, str] | None = None,
        *,
        group: str = "",
    ) -> int:
        """Learn from one run that already happened; returns the playbook's revision.

        Args:
            output: The run.
            feedback: Whether it did what it should.
            schema_hashes: Of the agent's tools: ``agent.registry.schema_hashes``; the learner's `tools` by default.
            group: The task's family.
        """
        hashes = dict(self._tools if schema_hashes is None else schema_hashes)
        self._take(
            Lived(key=output.run_id, output=output, feedback=feedback, schema_hashes=hashes, group=group), keep=False
        )
        return self.playbook.revision
