"""A later verdict on a run: what the book would be if it had been heard first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import groupby
from typing import Any

from cachetools import FIFOCache

from ace.curator import Curator
from ace.playbook import Playbook, PlaybookBullet, Tag
from ace.playbook.bullet import Provenance
from ace.playbook.delta import Add, Delta, Learned, Merge, Purge, Restore, apply, fold
from ace.playbook.insight import Insight
from ace.reflector.reflector import beside

MAX_ATTEMPTS = 1_000
"""Runs that are remembered, to be compared with another attempt at the same task."""


class Attempts:
    """Of each task, the last run that failed and taught something by it, and the last that succeeded.

    Args:
        runs: That are known already, oldest first.

    Examples:
        >>> attempts = Attempts()
        >>> taught = Insight(section="Pitfalls", content="Did not work: refund.", trigger="Refund")
        >>> failed = Learned(run_id="r1", task_id="t", success=False, insights=(taught,))
        >>> attempts.other_way(failed), attempts.other_way(Learned(run_id="r2", task_id="t", success=True)) == failed
        (None, True)
    """

    def __init__(self, runs: Iterable[Learned] = ()) -> None:
        self._succeeded = FIFOCache[tuple[str | None, str], Learned](MAX_ATTEMPTS)
        self._failed = FIFOCache[tuple[str | None, str], Learned](MAX_ATTEMPTS)
        for run in runs:
            self.other_way(run)

    def other_way(self, run: Learned) -> Learned | None:
        """Keep a run, and return the earlier one of its task that ended the other way; no pair is compared twice."""
        task = (run.tenant, run.task_id)
        if run.success is None:
            return None  # it was taken back
        if run.success:
            if run.insights and run.insights[0].section == "Strategies":
                self._succeeded[task] = run
            return self._failed.pop(task, None)
        if task not in self._succeeded and run.insights:
            self._failed[task] = run  # one that shows no call at fault cannot be compared
        return self._succeeded.get(task)


class Replay:
    """Writes the part of a journal that may depend on a verdict once more, into a copy, with the verdict that holds now.

    What runs taught is curated again, in the order in which they were first heard; what people and others wrote is written
    again, as far as its lesson is there.

    Args:
        book: The playbook; it is not changed.
        change: What the run teaches by the new verdict.
        curator: Of the book.

    Attributes:
        bullets: What the book would hold, by the ids that it has given.
        fresh: Lessons that it has no id for.
        credited: By id, the runs that have given their credit.
        attempts: Of each task, the runs that count now.
    """

    def __init__(self, book: Playbook, change: Learned, curator: Curator) -> None:
        journal = book.history.deltas()
        heard = [(revision, delta) for revision, delta in journal if isinstance(delta, Learned)]
        first = {delta.run_id: revision for revision, delta in reversed(heard)}
        self._heard_first = {delta.run_id: delta.success for _, delta in reversed(heard)}
        self._now = {delta.run_id: delta for _, delta in heard} | {change.run_id: change}
        self._lost = {run for run, now in self._now.items() if self._heard_first[run] and not now.success}
        purged = {revision for revision, delta in journal if isinstance(delta, Purge) and delta.of_run}
        orphans = {d.bullet.id for revision, d in journal if isinstance(d, Add) and revision in purged}
        # beside a gate a run gives its credit before its lessons are written
        given = [(delta.run_id, revision) for revision, delta in journal if isinstance(delta, (Learned, Tag))]
        begins = dict(reversed(given))
        start = begins[change.run_id]
        """The first revision that may have come out otherwise."""
        for revision, delta in reversed(heard):
            if delta.again and revision >= start:
                start = min(start, begins[delta.run_id])
        self._original = fold((revision, delta) for revision, delta in journal if revision < start)
        known, heard_now = [*self._original.values(), *book.bullets], book.heard
        in_words = {digest: text for b in known for s in b.situations for digest, text in s.texts().items()}
        constants = {digest: value for b in known if b.plan for digest, value in b.plan.constants().items()}
        self._texts, self._constants = heard_now.texts | in_words, heard_now.written | constants
        self.attempts = Attempts()
        for run_id, run in self._now.items():
            if first[run_id] < start:
                self.attempts.other_way(run)
        self._ids = {bullet_id: bullet_id for bullet_id in self._original}
        """What the book calls a lesson, to what the copy does."""
        with book.fork(self._original.values(), journal=[pair for pair in journal if pair[0] < start]) as self._copy:
            self._curator = copy(curator)
            self._curator.playbook = self._copy
            for revision, group in groupby(((r, d) for r, d in journal if r >= start), key=lambda pair: pair[0]):
                self._repeat(revision, [delta for _, delta in group])
            names = {copied: own for own, copied in self._ids.items()}
            # what a purged run has brought stays only while another one teaches it
            alone = {self._ids.get(i, "") for i in orphans}
            held = {b.id: b for b in self._copy.bullets if b.provenance.run_ids or b.id not in alone}
            credits = self._copy.history.credits()
        self.bullets = {names[i]: _named(b, names[i]) for i, b in held.items() if i in names}
        self.fresh = [_named(b, "") for i, b in held.items() if i not in names]
        self.credited = {names[i]: runs for i, runs in credits.items() if i in names}

    def _repeat(self, revision: int, deltas: Sequence[Delta]) -> None:
        """Make one commit once more."""
        heard = [delta for delta in deltas if isinstance(delta, Learned)]
        if not heard:
            written = [found for delta in deltas if (found := self._mapped(delta)) is not None]
            self._copy.history.write_again(written)
        elif not heard[0].again:  # what an earlier correction wrote follows from what is written here
            self._teach(heard, [delta for delta in deltas if isinstance(delta, Tag)])
        for delta in deltas:
            apply(self._original, delta, revision)
        self._name_new()

    def _teach(self, heard: Sequence[Learned], tags: Sequence[Tag]) -> None:
        """Commit what runs taught in one commit, by the verdicts that hold now."""
        for before in heard:
            run = self._now[before.run_id]
            if run.success is not None:
                other = self.attempts.other_way(run)
                tools = {**(other.tools if other is not None else {}), **run.tools}
                insights = map(self._with_values, beside(run, other))
                credits = filter(None, (self._mapped(tag) for tag in tags if tag.run_id == run.run_id))
                self._copy.commit([*credits, *self._curator.curate(insights, tools)], tools=tools)

    def _with_values(self, insight: Insight) -> Insight:
        """Return a stored lesson with what of its values the book knows in the clear."""
        slots = insight.situation.slots if insight.situation is not None else ()
        values = {slot.name: self._texts[slot.digest] for slot in slots if slot.digest in self._texts}
        plan = insight.plan.with_constants(self._constants) if insight.plan is not None else None
        return insight.model_copy(update={"values": values, "plan": plan})

    def _mapped(self, delta: Any) -> Any:
        """Return a delta as the copy takes it; None for one about what is not there."""
        if isinstance(delta, Purge):
            return None
        if isinstance(delta, (Add, Restore)):
            own = delta.bullet.id
            bullet = _named(delta.bullet, self._ids.setdefault(own, own))
            evidence = self._evidence(bullet.provenance)
            if bullet.provenance.run_ids and not evidence.run_ids:
                return None
            given = getattr(delta, "credited", None) or ()
            credited = tuple(run for run in given if run not in self._now or self._now[run].success is not None)
            return Restore(bullet=bullet.model_copy(update={"provenance": evidence}), credited=credited)
        changes: dict[str, Any] = {"bullet_id": self._ids.get(delta.bullet_id, "")}
        if not self._copy.find([changes["bullet_id"]]):
            return None
        if isinstance(delta, Tag) and delta.run_id in self._now:
            now = self._now[delta.run_id].success
            if now is None:
                return None
            delta = delta if now == self._heard_first[delta.run_id] else _turned(delta)
        if isinstance(delta, Merge):
            changes["absorbed"] = tuple(self._copy.find(self._ids.get(other, "") for other in delta.absorbed))
            changes["provenance"] = self._evidence(delta.provenance)
        return delta.model_copy(update=changes)

    def _evidence(self, provenance: Provenance) -> Provenance:
        """Return what a lesson that several runs taught together rests on: not on a run whose success was taken back."""
        kept = [i for i, run in enumerate(provenance.run_ids) if run not in self._lost]
        if len(kept) == len(provenance.run_ids):
            return provenance
        paired = len(provenance.task_ids) == len(provenance.run_ids)
        tasks = tuple(provenance.task_ids[i] for i in kept) if paired else provenance.task_ids
        return provenance.model_copy(update={"run_ids": tuple(provenance.run_ids[i] for i in kept), "task_ids": tasks})

    def _name_new(self) -> None:
        """Give the copy's new lessons the names of the book's that say the same."""
        there, named = {bullet.id: bullet for bullet in self._copy.bullets}, set(self._ids.values())
        free = [bullet for own, bullet in self._original.items() if self._ids.get(own) not in there]
        for bullet_id, bullet in there.items():
            if bullet_id not in named:
                like = [other for other in free if _identity(other) == _identity(bullet)]
                if like:
                    best = max(like, key=lambda other: other.content == bullet.content)
                    self._ids[best.id] = bullet_id
                    free.remove(best)


def _identity(bullet: PlaybookBullet) -> tuple[Any, ...]:
    """Return what makes a lesson the same in both."""
    said = bullet.shape if bullet.plan is not None else bullet.content
    return (bullet.section, bullet.domain, bullet.tenant, said)


def _named(bullet: PlaybookBullet, bullet_id: str) -> PlaybookBullet:
    """Copy a lesson under another id; `model_copy` would keep the number that it has cached."""
    return PlaybookBullet.model_validate({**bullet.model_dump(), "id": bullet_id})


def _turned(tag: Tag) -> Tag:
    """Swap helpful and harmful: the verdict on the run was reversed."""
    success = None if tag.success is None else not tag.success
    return tag.model_copy(update={"helpful": tag.harmful, "harmful": tag.helpful, "success": success})
