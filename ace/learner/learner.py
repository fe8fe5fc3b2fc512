"""`Learner`: generate, reflect, curate, commit; and credit to the bullets that were used."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any
from uuid import uuid4

from ace.agent.episode import Episode, Solver
from ace.core import ModelTransport, PlaybookError, describe_error
from ace.core.durable import locked
from ace.curator import Curator, Gate, GateVerdict
from ace.curator.eviction import evict
from ace.learner.credit import credit
from ace.learner.report import LearningReport
from ace.learner.traces import read_requests, read_trace, request_of
from ace.learner.verdicts import MAX_ATTEMPTS, Attempts, Replay
from ace.learner.waiting import ObservedRun, WaitingRuns, known_tools
from ace.learner.worker import BackgroundWorker
from ace.playbook import Experiment, Playbook, Tag
from ace.playbook.delta import Delta, Learned, Merge
from ace.playbook.insight import Insight
from ace.playbook.stage_rules import check_names
from ace.reflector import Reflector
from ace.reflector.reflector import OUTAGES, beside
from ace.tasks import Feedback, NoVerdict, TaskOutput, run_of
from ace.tools import ToolRegistry

_log = logging.getLogger(__name__)
_NONE: Any = object()
_Lessons = tuple[Learned, Sequence[Insight], Mapping[str, str]]
"""What a run has taught, its lessons, and the hashes of its tools."""
QUEUE_SIZE = 1_000
"""How many observed runs may wait; then `observe` waits too."""
ATTEMPTS = 5
"""How often a lesson is curated when other processes change the book at the same time."""


class Learner:
    """Learns from runs: reflect, curate, let the gate decide, commit, give credit; each run once.

    Args:
        playbook: Where lessons go.
        agent_for: Builds the agent of an episode: its tools belong to that episode's world.
        reflector: Mines runs for lessons.
        curator: Turns lessons into deltas.
        gate: Decides whether new bullets are committed, for example an `AcceptanceGate`; evidence and credit need none.
        gate_every: The gate decides on the lessons of this many runs together.
        state: A folder that remembers which runs have been learned from: `fit` goes on where it was interrupted, and runs
            that were observed are not lost with the process.
        tools: Of the agent whose runs are observed, so that bullets know the versions of the tools they name.
        judge: Decides whether an observed run without feedback succeeded, for example `ace.reflector.reflection.Judge`.
        holdout: See `memory`.
        queue_size: How many observed runs may wait; then `observe` waits until one has been learned from.
        author: The name in the journal.

    Attributes:
        memory: The view of the playbook for agents whose runs are learned from: with the holdout.
        report: Counts of everything since this learner was made.
        verdicts: The decisions of the gate, in order.

    Examples:
        >>> from ace.playbook import CallableEmbedder
        >>> from ace.tasks import TaskInput
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> task = TaskInput(task_id="t1", inputs={"task": "Say hello"})
        >>> output = TaskOutput(task_id="t1", run_id="r1", task=task, termination_reason="completed", answer="hello")
        >>> Learner(book).learn(output, Feedback(success=True), {})
        1
        >>> book.bullets[0].content
        'answer at once, without a call, then submit(...)'
    """

    def __init__(
        self,
        playbook: Playbook,
        agent_for: Callable[[Episode], Solver] | None = None,
        *,
        reflector: Reflector | None = None,
        curator: Curator | None = None,
        gate: Gate | None = None,
        gate_every: int = 10,
        state: str | Path | None = None,
        tools: ToolRegistry | Mapping[str, Any] | None = None,
        judge: Callable[[TaskOutput], Feedback] | None = None,
        holdout: float = 0.0,
        queue_size: int = QUEUE_SIZE,
        author: str = "learner",
    ) -> None:
        if gate_every < 1 or queue_size < 1:
            raise ValueError(f"gate_every and queue_size must be at least 1, got {gate_every!r} and {queue_size!r}")
        self.playbook = playbook
        self.agent_for = agent_for
        self.reflector = reflector or Reflector()
        self.reflector.masker = self.reflector.masker or playbook.masker
        self.reflector.embedder = self.reflector.embedder or playbook.embedder
        self.curator = curator or Curator(playbook)
        self.gate = gate
        self.gate_every = gate_every
        self.judge = judge
        self.author = author
        self.memory = playbook.view(experiment=Experiment(holdout=holdout))
        self.report = LearningReport()
        self.verdicts: list[GateVerdict] = []
        self._tools = known_tools(tools)
        self._schemas: Mapping[str, Any] = self._tools["schemas"]
        """Of the agent whose run was learned from last: runs out of a file have none."""
        self._queue = WaitingRuns(Path(state)) if state is not None else None
        self._postponed = WaitingRuns.of(playbook)
        self._unread: dict[str, ObservedRun] = {}
        """Runs whose reflection waits for a model that could not be reached."""
        self._proposed: list[_Lessons] = []
        self._unmarked: list[tuple[ObservedRun, bool]] = []
        self._attempts: Attempts | None = None
        self._lock = threading.RLock()
        with ExitStack() as claim:
            if state is not None:
                claim.enter_context(_claimed(Path(state)))
                playbook.remember_queue(state)
            waiting = [run for run in self._queue or () if not run.place]
            self._claim = claim.pop_all()
        self._worker = BackgroundWorker(self._learn_in_time, queue_size)
        for run in waiting:
            self._worker.put(run, wait=False)

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

        With a `state`, a second call over the same training set goes on where the first was interrupted: what was
        learned is not learned again, and a run that was paid for is not made again.

        Args:
            trainset: For each task, a function that sets up a fresh episode.
            epochs: How often the whole set is run.
            skip_solved: Whether tasks that succeeded in an earlier epoch are left out.
            name: Tells this fit from others over the same `state`.
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
                place = f"{name}/{epoch}/{index}/{episode.task.task_id}"
                if self._run_episode(episode, place, on_run):
                    solved.add(index)
            self._read_again()
            self._propose(now=True)
        return self.report.since(before)

    def _run_episode(
        self, episode: Episode, place: str, on_run: Callable[[Episode, TaskOutput, Feedback], None] | None
    ) -> bool:
        """Run one episode, unless it has been learned from, and say whether it succeeded."""
        assert self.agent_for is not None
        queue = self._queue
        if queue is not None and (known := queue.learned(place)) is not None:
            self.report.skipped += 1
            return known
        observed = queue.get(place) if queue is not None else None
        if observed is None:
            output = self.agent_for(episode).run(episode.task)
            try:
                verdict = Feedback.of(episode.score(output))
            except NoVerdict as error:
                _log.warning("task %s: %s", episode.task.task_id, error)
                self.report.unjudged += 1
                return False
            observed = ObservedRun(
                key=place,
                place=place,
                output=output,
                feedback=verdict,
                group=episode.group,
                **known_tools(episode.registry),
            )
            if queue is not None:
                queue.put(observed, power_cut=True)
        feedback = self._learn_in_time(observed)
        assert feedback is not None, "a run of a training set has been scored"
        if on_run:
            on_run(episode, observed.output, feedback)
        return feedback.success

    # -- online ----------------------------------------------------------------------------------------------------------

    def observe(
        self,
        output: Any,
        feedback: Feedback | bool | float | None = None,
        tools: ToolRegistry | Mapping[str, Any] | None = None,
        *,
        group: str = "",
    ) -> None:
        """Learn from a run in the background; returns at once.

        With a `state` the run survives the end of the process from here on. When `queue_size` runs wait already, the
        call waits until one has been learned from: the agent is slowed down rather than memory filled up.

        Args:
            output: A `TaskOutput`, or what `ReActGenerator.forward` returned.
            feedback: Whether it did what it should; True and False are short for it, a number counts from 0.5. None asks
                the judge.
            tools: The agent's, when they are not the learner's `tools`.
            group: The task's family.

        Raises:
            ValueError: There is neither feedback nor a judge.
            PlaybookError: The learner is closed.
        """
        run: TaskOutput = run_of(output)
        if feedback is None and self.judge is None:
            raise ValueError(
                "observe needs feedback, from a metric, a verifier or a person; or give the Learner a judge"
            )
        observed = ObservedRun.model_construct(
            key=f"{run.run_id}/{uuid4().hex}",  # a later verdict on it waits beside this one
            output=run,
            feedback=None if feedback is None else Feedback.of(feedback),
            group=group,
            **(self._tools if tools is None else known_tools(tools)),
        )
        self._worker.check_open()
        if self._queue is not None:
            self._queue.put(observed)
        self._worker.put(observed)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until every observed run has been learned from; whether that is so.

        Raises:
            Exception: What learning from a run raised, once; with a `state` that run is tried again next time.
        """
        done = self._worker.flush(seconds)
        self._read_again()
        self._propose(now=True)
        return done

    def close(self) -> None:
        """Learn from the waiting runs, and let others have the state."""
        try:
            self.flush()
        finally:
            self._worker.stop()
            self._claim.close()

    def __enter__(self) -> Learner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- from recorded runs ------------------------------------------------------------------------------------------------

    def learn_from_traces(
        self,
        traces: Iterable[Any],
        feedback: Callable[[TaskOutput], Feedback | bool | float] | Iterable[Feedback | bool | float] | None = None,
        *,
        read_only: Collection[str] = (),
        trusted: Collection[str] = (),
        task: str | None = None,
        domain: str | None = None,
        group: str = "",
        tenant: str | None = None,
        strict: bool = False,
    ) -> LearningReport:
        """Learn from runs that other frameworks recorded; a conversation with several requests is one run for each.

        A success counts for each request of a conversation. A failure counts for none, as nobody knows which one went wrong,
        unless ``Feedback(details={"request": 1})`` names it, counted from 0.

        Args:
            traces: DSPy predictions with a trajectory, LangGraph states, Pydantic AI messages, OpenAI-style message lists,
                or our own `TaskOutput`s; also as JSON. See `ace.learner.traces.read_trace`.
            feedback: For each trace, or a function of the run; None asks the judge.
            read_only: Tools that change nothing; those of the learner's `tools` that say so are known.
            trusted: Tools whose answers are the program's own words; those of `tools` that say so are known.
            task: The request, of traces that do not contain it; where each has another, read them with `read_trace` first.
            domain: Of all.
            group: The task family of all.
            tenant: Of all.
            strict: Whether a trace that names tools or arguments which the learner's `tools` do not know is refused.

        Returns:
            Counts of this call; `unknown` names tools and arguments that the schemas do not know.

        Raises:
            ValueError: A trace is of no known form, or there is neither feedback nor a judge.
        """
        if feedback is None and self.judge is None:
            raise ValueError(
                "learn_from_traces needs feedback for each run, or a function of it; or give the Learner a judge"
            )
        own: Mapping[str, Any] = self._tools["schemas"]
        if strict and not own:
            raise ValueError("strict=True needs to know the tools: Learner(book, tools=registry)")
        read_only = {*read_only, *(name for name, schema in own.items() if schema.get("read_only"))}
        trusted = {*trusted, *(name for name, schema in own.items() if schema.get("trusted"))}
        schemas = dict[str, Any]()
        before = replace(self.report, unknown=Counter(self.report.unknown))
        given = iter(() if callable(feedback) else repeat(None) if feedback is None else feedback)
        for number, trace in enumerate(traces):
            late = f"trace {number}, counted from 0"
            try:
                runs = read_requests(trace, task=task, read_only=read_only, domain=domain, tenant=tenant)
                unknown = unknown_names(runs, own)
                if strict and unknown:
                    raise ValueError(f"it names what no schema knows: {', '.join(sorted(unknown))}")
            except ValueError as error:
                raise ValueError(f"{late}: {error}; those before it were learned from") from error
            self.report.unknown.update(unknown)
            if callable(feedback):
                verdict = feedback(runs[0] if len(runs) == 1 else read_trace(trace, task=task, read_only=read_only))
            else:
                verdict = next(given, _NONE)
            if verdict is _NONE or (verdict is None and self.judge is None):
                raise ValueError(f"there is no feedback for {late}; those before it were learned from")
            known = None if verdict is None else Feedback.of(verdict)
            names = [*own, *(step.tool_name for run in runs for step in run.structured_trace)]
            schemas |= {n: {**own.get(n, {}), "read_only": n in read_only, "trusted": n in trusted} for n in names}
            for run in _counted(runs, known):
                tools: dict[str, Any] = {**self._tools, "schemas": schemas}
                observed = ObservedRun(key=run.run_id, output=run, feedback=known, group=group, **tools)
                self._learn_in_time(observed, keep=False)
        self._read_again()
        self._propose(now=True)
        return self.report.since(before)

    def learn_or_keep(self, output: TaskOutput, feedback: Feedback, *, group: str = "") -> LearningReport:
        """Learn as `learn` does, and keep the run for later where the playbook is out of reach, or it took too long.

        Runs that wait are learned after it.

        Returns:
            Counts of this call; `postponed` is 1 where the run was kept.

        Raises:
            PlaybookError: The run is kept in this process only.
        """
        before = replace(self.report)
        try:
            self.learn(output, feedback, group=group)
        except (PlaybookError, OSError) as error:
            if isinstance(error, PlaybookError) and not error.out_of_reach:
                raise
            run = ObservedRun(key=output.run_id, output=output, feedback=feedback, group=group, **self._tools)
            self._postponed.keep(run, error)
            return LearningReport(postponed=1)
        try:
            self._postponed.retry(self._learn_again, self.reflector.seconds)
        except (PlaybookError, ModelTransport, OSError) as error:  # it must not keep this run from being learned
            _log.warning("runs that wait to be learned from wait on: %s", describe_error(error))
        return self.report.since(before)

    def _learn_in_time(self, run: ObservedRun, keep: bool = True) -> Feedback | None:
        """Learn from one run of several; one that takes too long is kept for later, and the others go on."""
        if any(waiting.output.run_id == run.output.run_id for waiting in self._unread.values()):
            self._read_again()  # an earlier verdict on it comes first
        try:
            return self._learn(run, keep)
        except PlaybookError as error:
            if not error.seconds:
                raise
            self.report.postponed += 1
            if self._queue is None or self._queue.get(run.key) is None:
                self._postponed.keep(run, error)
            return run.feedback

    def _learn_again(self, run: ObservedRun) -> None:
        self._learn(run, keep=False, waits=True)
        self._propose(now=True)

    def learn(
        self,
        output: TaskOutput,
        feedback: Feedback,
        tools: ToolRegistry | Mapping[str, Any] | None = None,
        *,
        group: str = "",
    ) -> int:
        """Learn from one run that already happened; returns the playbook's revision.

        Args:
            output: The run.
            feedback: Whether it did what it should.
            tools: The agent's, ``agent.registry``; the learner's by default.
            group: The task's family.
        """
        known = self._tools if tools is None else known_tools(tools)
        self._read_again()
        run = ObservedRun(key=output.run_id, output=output, feedback=feedback, group=group, **known)
        self._learn(run, keep=False)
        self._postponed.replace(run, keep=run.key in self._unread)
        return self.playbook.revision

    def retract(self, output: Any) -> None:
        """Take back what a run has taught, and its credit: `learner.retract(out)`.

        Args:
            output: The run, or its id.

        Raises:
            PlaybookError: The book has learned nothing from it.
        """
        run = run_of(output)
        run_id = run if isinstance(run, str) else run.run_id
        known = self._known(run_id)
        if known is None:
            raise PlaybookError(
                f"the playbook has learned nothing from run {run_id!r}; `ace playbook history` names the runs"
            )
        if known.success is not None:
            kept = known.model_dump(include={"run_id", "task_id", "tenant", "tools"})
            self._correct(Learned(**kept, success=None, reason=f"run {run_id} is taken back"))

    # -- one run -----------------------------------------------------------------------------------------------------------

    def _learn(self, run: ObservedRun, keep: bool = True, *, waits: bool = False) -> Feedback:
        """Learn from one run.

        Args:
            run: The run; without feedback, the judge is asked.
            keep: Whether the queue remembers that it was learned from.
            waits: Whether it waits elsewhere as long as the model that reads runs cannot be reached.

        Raises:
            ModelTransport: That model could not be reached, and the run waits elsewhere.
            PlaybookError: There is neither feedback nor a judge, or a tool or an argument has a name that is none.
        """
        made = [step for step in run.output.structured_trace if step.executed]
        check_names((step.tool_name for step in made), (name for step in made for name in step.tool_args))
        feedback = run.feedback
        if feedback is None:
            if self.judge is None:
                raise PlaybookError(
                    f"run {run.output.run_id} waits for a judge; give the Learner one, or another state"
                )
            feedback = self.judge(run.output)
        with self._lock:
            self._schemas = run.schemas or self._schemas
            if run.output.task.history:
                reads = {name for name, schema in self._schemas.items() if schema.get("read_only")}
                asked = request_of(run.output, reads, feedback.details.get("request"))
                run = run.model_copy(update={"output": asked})
            try:
                self._reflect(run, feedback)
                if keep and self._queue is not None:
                    self._unmarked.append((run, feedback.success))
                self._propose(now=self.gate is None)
            except ModelTransport as error:
                if waits:
                    raise
                # nothing is lost: it is read again before the next run, or by the next process
                _log.warning("%s; run %s waits and is read again", error, run.output.run_id)
                self._unread[run.key] = waiting = run.model_copy(update={"feedback": feedback})
                if self._queue is not None and self._queue.get(run.key) is None:
                    self._queue.put(waiting)
                self.report.unread += 1
        return feedback

    def _reflect(self, run: ObservedRun, feedback: Feedback) -> None:
        """Read a run with its verdict, and write what it teaches.

        Raises:
            ModelTransport: The model that reads runs could not be reached; nothing has changed.
        """
        known = self._known(run.output.run_id)
        if known is not None and known.success == feedback.success and self.reflector.lm is not None:
            taught = stored = known  # a language model might answer differently now
        else:
            taught = self._read(run, feedback)
            stored = _stored(taught, run.schema_hashes)
            self.playbook.heard.note(taught.insights)
        if known is None:
            self.report.runs += 1
            self.report.successes += feedback.success
            self.report.invented += len(run.output.metadata.get("invented_bullets", ()))
            self.report.usage += run.output.usage
            self._teach(run, feedback, taught, stored)
        elif (known.success, known.insights) == (stored.success, stored.insights):
            self.report.skipped += 1
        else:
            self._correct(stored)

    def _known(self, run_id: str) -> Learned | None:
        """Return what the book has learned from a run; where its lessons wait for the gate, that decides first."""
        if any(waiting.run_id == run_id for waiting, _, _ in self._proposed):
            self._propose(now=True)
        return self.playbook.history.learned([run_id]).get(run_id)

    def _read(self, run: ObservedRun, feedback: Feedback) -> Learned:
        if run.output.task.history and not run.output.structured_trace:
            # what can be answered out of a conversation cannot be answered at once without it
            return Learned(run_id=run.output.run_id, success=feedback.success)
        known: list[str] = []
        if self.reflector.lm is not None:
            task = run.output.task
            known = [b.content for b in self.playbook.retrieve(task.text, task.domain, tenant=task.tenant)]
        return self.reflector.read(run.output, feedback, group=run.group, known=known, schemas=self._schemas)

    def _read_again(self) -> None:
        """Learn from the runs whose reflection found no model."""
        with self._lock:
            for key, run in list(self._unread.items()):
                try:
                    self._learn(run, keep=self._queue is not None and self._queue.get(key) is not None, waits=True)
                except ModelTransport as error:
                    _log.warning("%s; run %s waits and is read again", error, run.output.run_id)
                    self._unread[key] = self._unread.pop(key)  # next time another one is tried first
                    return
                del self._unread[key]
                self.report.unread -= 1

    # -- what is written ---------------------------------------------------------------------------------------------------

    def _teach(self, run: ObservedRun, feedback: Feedback, taught: Learned, stored: Learned) -> None:
        """Commit what a run teaches and its credit, or let the lessons wait for the gate."""
        if self._attempts is None:
            self._attempts = Attempts(self.playbook.history.heard(MAX_ATTEMPTS).values())
        insights = beside(taught, self._attempts.other_way(taught))
        gated = self.gate is not None
        # also a run that teaches nothing now: by another verdict it would have, and in its place
        learned = [] if gated or run.output.termination_reason in OUTAGES else [stored]

        def write(at: int, last: bool) -> Sequence[Delta]:
            tags = credit(run.output, feedback, self.playbook.find)
            deltas = [*learned, *tags, *self.curator.curate([] if gated else insights, run.schema_hashes)]
            # what others have added since the search is not added again; the last attempt is for a busy book
            self.playbook.commit(deltas, author=self.author, tools=run.schema_hashes, at=None if last else at)
            return deltas

        self._write(write)
        if gated:
            self._proposed.append((stored, insights, run.schema_hashes))

    def _correct(self, change: Learned) -> None:
        """Put another verdict on a run in the place of an earlier one: the book becomes what that would have made of it."""
        change = change.model_copy(update={"again": True})

        def write(at: int, _last: bool) -> Sequence[Delta]:
            replay, history = Replay(self.playbook, change, self.curator), self.playbook.history
            found = history.correct(change, replay.bullets, replay.fresh, replay.credited, at=at, author=self.author)
            self._attempts = replay.attempts
            return found

        with self._lock:
            self._write(write)
            self.report.corrected += 1

    def _write(self, write: Callable[[int, bool], Sequence[Delta]]) -> None:
        """Write to the playbook as it stands, and once more where another process has changed it meanwhile; count it.

        Args:
            write: Is given the revision, and whether this is the last attempt; returns what it has written.
        """
        for attempts_left in reversed(range(ATTEMPTS)):
            self.playbook.refresh()
            at = self.playbook.revision
            try:
                self.report.count(write(at, not attempts_left))
                return
            except PlaybookError:
                # when another process changed the book meanwhile, a bullet may have gone, and gets no credit
                if self.playbook.revision == at or not attempts_left:
                    raise

    # -- the gate ----------------------------------------------------------------------------------------------------------

    def _propose(self, *, now: bool) -> None:
        """Let the gate decide about the lessons that wait for it, and mark their runs as learned from."""
        with self._lock:
            if not now and len(self._unmarked) < self.gate_every and len(self._proposed) < self.gate_every:
                return
            proposed, self._proposed = self._proposed, []
            unmarked, self._unmarked = self._unmarked, []
            hashes = {name: digest for _, _, known in proposed for name, digest in known.items()}
            refused = self.report.refused

            def write(at: int, _last: bool) -> Sequence[Delta]:
                self.report.refused = refused  # counted once, however often others write meanwhile
                deltas = self._accepted(proposed)
                # what was tried in a copy names bullets as that one does
                self.playbook.commit(deltas, author=self.author, tools=hashes, at=at)
                return deltas

            try:
                if proposed:
                    self._write(write)
            except BaseException:  # they are proposed again, by this process or the next
                self._proposed, self._unmarked = [*proposed, *self._proposed], [*unmarked, *self._unmarked]
                raise
            if self._queue is not None:
                for run, success in unmarked:
                    self._queue.done(run, success)

    def _accepted(self, proposed: Sequence[_Lessons]) -> Sequence[Delta]:
        """Return what the lessons make of the book; of those that the gate refuses, what needs none."""
        deltas = [*(run for run, _, _ in proposed), *self._tried(proposed)]
        if self.gate is None or not any(map(_shown, deltas)):
            return deltas
        verdict = self.gate(self.playbook, deltas)
        self.verdicts.append(verdict)
        if verdict.accepted:
            return deltas
        self.report.refused += sum(map(_shown, deltas))
        return self._tried(proposed, ungated=True)

    def _tried(self, proposed: Sequence[_Lessons], ungated: bool = False) -> list[Delta]:
        """Return what the lessons of several runs make of the book, one run after the other: tried in a copy.

        Args:
            proposed: The lessons.
            ungated: Only what needs no gate: evidence of what is there, and what waits for review.
        """
        deltas: list[Delta] = []
        with self.playbook.fork() as trial:
            curator = copy(self.curator)
            curator.playbook = trial
            for _, insights, hashes in proposed:
                made = curator.curate(insights, hashes)
                if ungated:  # what would have left for refused bullets stays
                    made = evict(trial, list(filter(_needs_no_gate, made)))
                trial.commit(made, tools=hashes)
                deltas += made
        return deltas


@contextmanager
def _claimed(state: Path) -> Generator[None]:
    """Hold the folder of a learner's state, made when it is not there."""
    try:
        state.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise PlaybookError(f"cannot write to {str(state)!r}: {error.strerror}; name a folder") from error
    taken = f"{str(state)!r} is being learned from by another process; give each its own"
    with locked(state / ".lock", taken, PlaybookError):
        yield


def _counted(runs: Sequence[TaskOutput], feedback: Feedback | None) -> Sequence[TaskOutput]:
    """Choose the requests of a conversation that a verdict is about."""
    if len(runs) == 1 or feedback is None or feedback.success:
        return runs
    named = feedback.details.get("request")
    if named is None:
        return []
    if isinstance(named, bool) or not isinstance(named, int) or not 0 <= named < len(runs):
        raise ValueError(f"feedback names request {named!r}; the conversation has 0 to {len(runs) - 1}")
    return [runs[named]]


def unknown_names(runs: Iterable[TaskOutput], schemas: Mapping[str, Any]) -> set[str]:
    """Find names of tools, and of arguments as ``tool(argument)``, that the schemas do not know; nothing without schemas.

    Examples:
        >>> from ace.learner import read_trace
        >>> called = {"thought_0": "", "tool_name_0": "f", "tool_args_0": {"a": 1}, "observation_0": "ok"}
        >>> run = read_trace({"task": "x", "trajectory": called})
        >>> unknown_names([run], {"f": {"parameters": {"properties": {}}}, "g": {}})
        {'f(a)'}
    """
    found: set[str] = set()
    for step in (step for run in runs for step in run.structured_trace if schemas):
        schema = schemas.get(step.tool_name)
        if schema is None:
            found.add(step.tool_name)
            continue
        known = schema.get("parameters", {}).get("properties", {})
        found |= {f"{step.tool_name}({name})" for name in step.tool_args if name not in known}
    return found


def _stored(run: Learned, hashes: Mapping[str, str]) -> Learned:
    """Return what a run taught as the journal keeps it."""
    named = {name for insight in run.insights for name in (*insight.tool_sequence, *insight.tools)}
    named |= {tool for tool, _ in run.changed}
    tools = {name: digest for name, digest in hashes.items() if name in named}
    reason = f"run {run.run_id} {'did what it should' if run.success else 'did not do what it should'}"
    return run.model_copy(update={"insights": tuple(i.stored for i in run.insights), "tools": tools, "reason": reason})


def _shown(delta: Delta) -> bool:
    """Check whether it is a new bullet that agents will see."""
    return delta.kind == "add" and delta.bullet.stage != "quarantined" and delta.bullet.trust != "tainted"


def _needs_no_gate(delta: Delta) -> bool:
    """Check whether it is evidence or credit of what is there, or waits for review."""
    if isinstance(delta, (Tag, Merge)):
        return not (isinstance(delta, Merge) and delta.absorbed)
    return delta.kind == "add" and not _shown(delta)
