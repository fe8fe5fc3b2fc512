"""From one run to lessons, evidence and credit in the playbook."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from ace.core import ModelTransport, PlaybookError
from ace.curator import Curator, Gate, GateVerdict
from ace.curator.eviction import evict
from ace.learner.credit import credit
from ace.learner.report import LearningReport
from ace.learner.traces import request_of
from ace.learner.verdicts import MAX_ATTEMPTS, Attempts, Replay
from ace.learner.waiting import ObservedRun, WaitingRuns
from ace.playbook import Playbook, Tag
from ace.playbook.delta import Delta, Learned, Merge
from ace.playbook.doors import check_names
from ace.playbook.insight import Insight
from ace.reflector import Reflector
from ace.reflector.reflector import OUTAGES, beside
from ace.tasks import Feedback, TaskOutput

_log = logging.getLogger(__name__)
ATTEMPTS = 5
"""How often a lesson is curated when other processes change the book at the same time."""


@dataclass(eq=False, repr=False)
class LearningPipeline:
    """Reflect, curate, let the gate decide, commit, give credit; each run once.

    Args:
        playbook: Where lessons go.
        reflector: Mines runs for lessons.
        curator: Turns lessons into deltas.
        gate: Decides whether new bullets are committed; None lets all of them in.
        gate_every: The gate decides on the lessons of this many runs together.
        judge: Decides whether a run succeeded when there is no feedback.
        run_queue: Remembers which runs have been learned from; None remembers nothing.
        author: The name in the journal.
        schema_hashes: Of the tools of agents whose runs do not record them.
        schemas: Of the same tools.

    Attributes:
        report: Counts of everything since it was made.
        verdicts: The decisions of the gate, in order.
    """

    playbook: Playbook
    _: KW_ONLY
    reflector: Reflector
    curator: Curator
    gate: Gate | None
    gate_every: int
    judge: Callable[[TaskOutput], Feedback] | None
    run_queue: WaitingRuns | None
    author: str
    schema_hashes: Mapping[str, str]
    schemas: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.reflector.masker = self.reflector.masker or self.playbook.masker
        self.reflector.embedder = self.reflector.embedder or self.playbook.embedder
        self.report = LearningReport()
        self.verdicts: list[GateVerdict] = []
        self.unread: dict[str, ObservedRun] = {}
        """Runs whose reflection waits for a model that could not be reached."""
        self._proposed: list[tuple[Learned, list[Insight], Mapping[str, str]]] = []
        self._unmarked: list[tuple[ObservedRun, bool]] = []
        self._attempts: Attempts | None = None
        self._lock = threading.RLock()

    def learn(self, run: ObservedRun, keep: bool = True, *, waits: bool = False) -> Feedback:
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
            if run.output.task.history:
                run = run.model_copy(update={"output": self._request(run, feedback)})
            self.schema_hashes = run.schema_hashes or self.schema_hashes
            self.schemas = run.schemas or self.schemas
            try:
                self._learn(run, feedback, keep=keep and self.run_queue is not None)
            except ModelTransport as error:
                if waits:
                    raise
                # nothing is lost: it is read again before the next run, or by the next process
                _log.warning("%s; run %s waits and is read again", error, run.output.run_id)
                self.unread[run.key] = waiting = run.model_copy(update={"feedback": feedback})
                if self.run_queue is not None and self.run_queue.get(run.key) is None:
                    self.run_queue.put(waiting)
                self.report.unread += 1
        return feedback

    def _learn(self, run: ObservedRun, feedback: Feedback, *, keep: bool) -> None:
        """Learn from a run with its verdict.

        Raises:
            ModelTransport: The model that reads runs could not be reached; nothing has changed.
        """
        known = self.playbook.history.learned([run.output.run_id]).get(run.output.run_id)
        if known is not None and known.success == feedback.success and self.reflector.lm is not None:
            taught = stored = known  # a language model might answer differently now
        else:
            taught = self._read(run, feedback)
            stored = _stored(taught, run.schema_hashes)
            self.playbook.heard.note(taught.insights)
        if known is None:
            self._count(run, feedback)
            self._teach(run, feedback, taught, stored)
        elif (known.success, known.insights) == (stored.success, stored.insights):
            self.report.skipped += 1
        else:
            self.correct(stored)
        if keep:
            self._unmarked.append((run, feedback.success))
        self.propose(now=self.gate is None)

    def _count(self, run: ObservedRun, feedback: Feedback) -> None:
        self.report.runs += 1
        self.report.successes += feedback.success
        self.report.invented += len(run.output.metadata.get("invented_bullets", ()))
        self.report.usage += run.output.usage

    def _teach(self, run: ObservedRun, feedback: Feedback, taught: Learned, stored: Learned) -> None:
        """Commit what a run teaches and its credit, or let the lessons wait for the gate."""
        if self._attempts is None:
            self._attempts = Attempts(self.playbook.history.heard(MAX_ATTEMPTS).values())
        insights = beside(taught, self._attempts.other_way(taught))
        if self.gate is None:
            # also a run that teaches nothing now: by another verdict it would have, and in its place
            self._commit(run, feedback, [] if run.output.termination_reason in OUTAGES else [stored], insights)
            return
        self._commit(run, feedback, [], [])
        earlier = [one for one in self._proposed if one[0].run_id != stored.run_id]
        self._proposed = [*earlier, (stored, insights, run.schema_hashes)]

    def _request(self, run: ObservedRun, feedback: Feedback) -> TaskOutput:
        """The message of a conversation that a verdict is about, as a task of its own."""
        schemas = run.schemas or self.schemas
        reads = {name for name, schema in schemas.items() if schema.get("read_only")}
        return request_of(run.output, reads, feedback.details.get("request"))

    def read_again(self) -> None:
        """Learn from the runs whose reflection found no model."""
        for key, run in list(self.unread.items()):
            del self.unread[key]
            self.report.unread -= 1
            self.learn(run, keep=self.run_queue is not None and self.run_queue.get(key) is not None)
            if key in self.unread:
                return  # the model is still out of reach

    @property
    def waits_for_gate(self) -> bool:
        """Whether there are lessons that the gate has not decided on."""
        return bool(self._proposed)

    def correct(self, change: Learned) -> None:
        """Put another verdict on a run in the place of an earlier one: the book becomes what that would have made of it."""
        change = change.model_copy(update={"again": True})
        with self._lock:
            replay, deltas = self._replayed(change, ATTEMPTS)
            self._attempts = replay.attempts
            self.report.corrected += 1
            self.report.count(deltas)

    def _replayed(self, change: Learned, attempts: int) -> tuple[Replay, Sequence[Delta]]:
        """The journal replayed with a verdict, and what was written of it."""
        self.playbook.refresh()
        at, book = self.playbook.revision, self.playbook.history
        replay = Replay(self.playbook, change, self.curator)
        try:
            return replay, book.correct(
                change, replay.bullets, replay.fresh, replay.credited, at=at, author=self.author
            )
        except PlaybookError:
            if self.playbook.revision == at or attempts == 1:
                raise
            return self._replayed(change, attempts - 1)  # another process has written meanwhile

    def retract(self, run_id: str) -> None:
        """Take back what a run has taught, and its credit.

        Raises:
            PlaybookError: The book has learned nothing from it.
        """
        known = self.playbook.history.learned([run_id]).get(run_id)
        if known is None:
            raise PlaybookError(
                f"the playbook has learned nothing from run {run_id!r}; `ace playbook history` names the runs"
            )
        if known.success is not None:
            nothing: dict[str, Any] = {
                "success": None,
                "insights": (),
                "changed": (),
                "asked": {},
                "reason": f"run {run_id} is taken back",
            }
            self.correct(known.model_copy(update=nothing))

    def _read(self, run: ObservedRun, feedback: Feedback) -> Learned:
        if run.output.task.history and not run.output.structured_trace:
            # what can be answered out of a conversation cannot be answered at once without it
            return Learned(run_id=run.output.run_id, success=feedback.success)
        known: list[str] = []
        if self.reflector.lm is not None:
            task = run.output.task
            known = [b.content for b in self.playbook.retrieve(task.text, task.domain, tenant=task.tenant)]
        return self.reflector.read(run.output, feedback, group=run.group, known=known, schemas=self.schemas)

    def propose(self, *, now: bool) -> None:
        """Let the gate decide about the lessons that wait for it, and mark their runs as learned from."""
        with self._lock:
            if not now and len(self._unmarked) < self.gate_every and len(self._proposed) < self.gate_every:
                return
            proposed, self._proposed = self._proposed, []
            learned = [run for run, _, _ in proposed]
            hashes = {name: digest for _, _, known in proposed for name, digest in known.items()}
            unmarked, self._unmarked = self._unmarked, []
            try:
                if proposed:
                    tried = partial(self._one_by_one, proposed)
                    self._curated(learned, tried, hashes, ungated=partial(tried, ungated=True))
            except BaseException:  # they are proposed again, by this process or the next
                self._proposed, self._unmarked = [*proposed, *self._proposed], [*unmarked, *self._unmarked]
                raise
            if self.run_queue is not None:
                for run, success in unmarked:
                    self.run_queue.done(run, success)

    def _commit(
        self, run: ObservedRun, feedback: Feedback, learned: Sequence[Learned], insights: Sequence[Insight]
    ) -> None:
        def credits() -> list[Tag]:
            return credit(run.output, feedback, self.playbook.find)

        curate = partial(self.curator.curate, insights, run.schema_hashes)
        self._curated(learned, curate, run.schema_hashes, credits)

    def _one_by_one(
        self, proposed: Sequence[tuple[Learned, Sequence[Insight], Mapping[str, str]]], ungated: bool = False
    ) -> list[Delta]:
        """What the lessons of several runs make of the book, one run after the other: tried in a copy.

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

    def _curated(
        self,
        learned: Sequence[Learned],
        curate: Callable[[], Sequence[Delta]],
        hashes: Mapping[str, str],
        credits: Callable[[], Sequence[Delta]] = tuple,
        ungated: Callable[[], Sequence[Delta]] | None = None,
    ) -> None:
        """Commit lessons and credit; with `ungated`, what is committed where the gate refuses them."""
        for attempts_left in reversed(range(ATTEMPTS)):
            self.playbook.refresh()
            known, tags = self.playbook.revision, credits()
            deltas = [*learned, *tags, *curate()]
            if self.gate is not None and ungated is not None and any(map(_shown, deltas)):
                verdict = self.gate(self.playbook, deltas)
                self.verdicts.append(verdict)
                if not verdict.accepted:
                    self.report.refused += sum(map(_shown, deltas))
                    deltas = ungated()
            try:
                # what others have added since the search is not added again; the last attempt is for a busy book. What was
                # tried in a copy names bullets as that one does
                at = known if attempts_left or ungated is not None else None
                self.playbook.commit(deltas, author=self.author, tools=hashes, at=at)
            except PlaybookError:
                # when another process changed the book meanwhile, a bullet may have gone, and gets no credit
                if self.playbook.revision == known or not attempts_left:
                    raise
            else:
                self.report.count(deltas)
                return
        raise AssertionError("the last attempt returns or raises")


def _stored(run: Learned, hashes: Mapping[str, str]) -> Learned:
    """What a run taught as the journal keeps it."""
    named = {name for insight in run.insights for name in (*insight.tool_sequence, *insight.tools)}
    tools = {name: digest for name, digest in hashes.items() if name in named}
    reason = f"run {run.run_id} {'did what it should' if run.success else 'did not do what it should'}"
    return run.model_copy(update={"insights": tuple(i.stored for i in run.insights), "tools": tools, "reason": reason})


def _shown(delta: Delta) -> bool:
    """Whether it is a new bullet that agents will see."""
    return delta.kind == "add" and delta.bullet.stage != "quarantined" and delta.bullet.trust != "tainted"


def _needs_no_gate(delta: Delta) -> bool:
    """Whether it is evidence or credit of what is there, or waits for review."""
    if isinstance(delta, (Tag, Merge)):
        return not (isinstance(delta, Merge) and delta.absorbed)
    return delta.kind == "add" and not _shown(delta)
