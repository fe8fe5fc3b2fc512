"""The part of `Playbook` that looks after the book: history, the way back, review, twins, pruning."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ace.core import PlaybookError, clean_text
from ace.playbook import history
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.dedup import THRESHOLDS, DedupReport, calibrate, find_twins, merging, text_of
from ace.playbook.delta import Add, Delta, Merge, Promote, Remove, Restore, Update
from ace.playbook.embedder import Embedder
from ace.playbook.engine import book_url
from ace.playbook.history import Diff, VerifyReport
from ace.playbook.results import BookStats, Judgement, ReviewItem
from ace.playbook.scoring import Null, chance_of_being_better, record, should_promote, should_prune
from ace.playbook.search import Searcher, text_key
from ace.playbook.store import Credits, Plan, Store
from ace.playbook.table import BulletTable

DEFAULT_NULL = 0.5
"""Assumed when nobody says how often the tasks succeed without a bullet: too low for easy tasks, too high for hard ones."""


def verify_book(url: str | Path) -> VerifyReport:
    """Recompute the checksums and the fold of a playbook's journal, however damaged its bullets are.

    Args:
        url: A file, or an SQLAlchemy URL.

    Raises:
        PlaybookError: It is no playbook, or out of reach.
    """
    store = Store(book_url(url))
    try:
        return history.verify(*store.everything())
    finally:
        store.close()


class Upkeep(ABC):
    """What a playbook can do besides taking and giving bullets."""

    embedder: Embedder
    revision: int
    half_life_days: float | None
    _store: Store
    _lock: threading.RLock
    _bullets: BulletTable
    _searcher: Searcher

    @property
    @abstractmethod
    def bullets(self) -> tuple[PlaybookBullet, ...]:
        """All bullets in id order."""

    @abstractmethod
    def get(self, bullet_id: str) -> PlaybookBullet:
        """One bullet."""

    @abstractmethod
    def refresh(self) -> None:
        """Follow the commits of other processes, now."""

    @abstractmethod
    def _commit(
        self,
        plan: Plan,
        author: str,
        *,
        screened: bool = True,
        reviewed: bool = False,
        tools: Collection[str] = (),
        credited: Credits | None = None,
    ) -> tuple[Delta, ...]: ...

    # -- history -------------------------------------------------------------------------------------------------------

    def history(self, bullet_id: str | None = None) -> list[dict[str, Any]]:
        """Every delta ever committed, oldest first; of one bullet when it is named.

        Raises:
            PlaybookError: There never was such a bullet.
        """
        entries = history.as_dicts(self._store.entries())
        if bullet_id is None:
            return entries
        found = [
            e
            for e in entries
            if bullet_id in (e.get("bullet_id"), e.get("bullet", {}).get("id"), *e.get("absorbed", ()))
        ]
        if not found:
            raise PlaybookError(f"there never was a bullet {bullet_id!r}")
        return found

    def journal(self) -> list[tuple[int, Delta]]:
        """(revision, delta) pairs, oldest first; `fold` of them is the bullet table."""
        return [(entry.revision, entry.delta) for entry in self._store.entries()]

    def at(self, revision: int) -> tuple[PlaybookBullet, ...]:
        """The bullets as they were at a revision: the journal, replayed.

        Raises:
            PlaybookError: There is no such revision.
        """
        self._check_revision(revision)
        bullets = history.state_at(self._store.entries(until=revision))
        return tuple(sorted(bullets.values(), key=lambda bullet: bullet.number))

    def diff(self, a: int, b: int | None = None) -> Diff:
        """What changed from revision `a` to revision `b`, the newest when it is not given.

        Raises:
            PlaybookError: There is no such revision.
        """
        b = self._store.revision() if b is None else b
        for revision in (a, b):
            self._check_revision(revision)
        return history.diff(self._store.entries(until=max(a, b)), a, b)

    def rollback(self, revision: int, *, author: str = "") -> int:
        """Make the book what it was at a revision, byte for byte, by a new commit; nothing in the journal is lost.

        Runs whose credit it takes back may give it again; runs whose credit it brings back may not.

        Returns:
            The new revision; the old one when nothing differs.

        Raises:
            PlaybookError: There is no such revision.
        """
        self._check_revision(revision)
        entries = self._store.entries(until=revision)
        then = history.state_at(entries)

        def plan(_: int) -> Sequence[Delta]:
            return history.way_back({bullet.id: bullet for bullet in self._bullets.values()}, then, revision)

        self._commit(plan, author, reviewed=True, credited=history.credits(entries))
        return self.revision

    def verify(self) -> VerifyReport:
        """Recompute the checksums and the fold of the journal, and compare them with what is stored."""
        return history.verify(*self._store.everything())

    def survivor(self, bullet_id: str) -> PlaybookBullet | None:
        """The bullet that took the place of one that was merged away; None when it was removed, itself when it is there.

        Raises:
            PlaybookError: There never was such a bullet.
        """
        into: dict[str, str] = {}
        known = False
        for entry in self._store.entries():
            delta = entry.delta
            known = known or (delta.kind == "add" and delta.bullet.id == bullet_id)
            if isinstance(delta, Merge):
                into |= dict.fromkeys(delta.absorbed, delta.bullet_id)
            elif isinstance(delta, Restore):
                into.pop(delta.bullet_id, None)
        if not known:
            raise PlaybookError(f"there never was a bullet {bullet_id!r}")
        there = {bullet.id: bullet for bullet in self.bullets}
        seen: set[str] = set()
        while bullet_id not in there and bullet_id in into and bullet_id not in seen:
            seen.add(bullet_id)
            bullet_id = into[bullet_id]
        return there.get(bullet_id)

    def _check_revision(self, revision: int) -> None:
        newest = self._store.revision()
        if not 0 <= revision <= newest:
            raise PlaybookError(f"no revision {revision}; there are 0 (empty) to {newest}")

    # -- review --------------------------------------------------------------------------------------------------------

    def review(self) -> list[ReviewItem]:
        """The bullets that wait in quarantine, oldest first, with what held them back."""
        self.refresh()
        waiting = {bullet.id: bullet for bullet in self.bullets if bullet.stage == "quarantined"}
        items: dict[str, ReviewItem] = {}
        for entry in self._store.entries() if waiting else ():
            delta = entry.delta
            bullet_id = delta.bullet.id if isinstance(delta, Add) else delta.bullet_id
            holds = delta.kind in ("add", "quarantine") or "held:" in delta.reason
            if bullet_id in waiting and holds:
                items[bullet_id] = ReviewItem(
                    bullet=waiting[bullet_id],
                    why=delta.reason or "quarantined",
                    author=entry.author,
                    revision=entry.revision,
                )
        return sorted(items.values(), key=lambda item: (item.revision, item.bullet.number))

    def approve(self, bullet_id: str, *, seen: int | None = None, author: str = "", note: str = "") -> int:
        """Let a bullet out of quarantine: from now on it may be shown.

        Args:
            bullet_id: The bullet.
            seen: The `updated_revision` of the bullet that was looked at: when it changed since, it keeps waiting.
            author: Who approves.
            note: Why, for the journal.

        Raises:
            PlaybookError: It does not wait for review, or has changed since it was looked at.
        """
        reason = clean_text(f"approved: {note}" if note else "approved")
        changes = {"stage": "active", "trust": "trusted"}

        def plan(_: int) -> Sequence[Delta]:
            waiting = self._waiting(bullet_id)
            if seen is not None and waiting.updated_revision != seen:
                raise PlaybookError(
                    f"{bullet_id} changed at revision {waiting.updated_revision}, after revision {seen} that was looked at; "
                    f"look again: `ace playbook review show`"
                )
            return [Update(bullet_id=bullet_id, changes=changes, reason=reason)]

        self._commit(plan, author, reviewed=True)
        return self.revision

    def reject(self, bullet_id: str, *, author: str = "", note: str = "") -> int:
        """Remove a bullet that waits in quarantine; the journal keeps it.

        Raises:
            PlaybookError: It does not wait for review.
        """
        reason = clean_text(f"rejected: {note}" if note else "rejected")
        self._commit(lambda _: [Remove(bullet_id=self._waiting(bullet_id).id, reason=reason)], author)
        return self.revision

    def _waiting(self, bullet_id: str) -> PlaybookBullet:
        bullet = self.get(bullet_id)
        if bullet.stage != "quarantined":
            raise PlaybookError(
                f"{bullet_id} is {bullet.stage} and waits for no review; `ace playbook review list` shows what does"
            )
        return bullet

    def confirm(self, bullet_ids: Sequence[str], tools: Mapping[str, str], *, author: str = "") -> int:
        """Say that bullets still hold for the tools as they are now (name to schema hash), so that they are shown again.

        Raises:
            PlaybookError: A bullet is not there, or one of its tools is not.
        """

        def confirmed(bullet_id: str) -> Delta:
            hashes = self.get(bullet_id).tool_schema_hashes
            if missing := sorted(hashes.keys() - tools.keys()):
                raise PlaybookError(f"{bullet_id} speaks of {', '.join(missing)}, which is not among these tools")
            changes = {"tool_schema_hashes": {name: tools[name] for name in hashes}}
            return Update(bullet_id=bullet_id, changes=changes, reason="confirmed for the tools as they are now")

        self._commit(lambda _: [confirmed(bullet_id) for bullet_id in bullet_ids], author, screened=False)
        return self.revision

    # -- twins ---------------------------------------------------------------------------------------------------------

    def dedup(self, *, dry_run: bool = False, threshold: float | None = None, author: str = "dedup") -> DedupReport:
        """Merge bullets that say the same into the better tried one; evidence is summed, nothing a text names is lost.

        Args:
            dry_run: Only say what would be done.
            threshold: A cosine; calibrated for the embedder when it is not given.
            author: Who is named in the journal.
        """
        self.refresh()
        if threshold is None:
            threshold = THRESHOLDS.get(self.embedder.name)
        if threshold is None:
            threshold = calibrate(self.embedder).threshold
        bullets = self.bullets
        vectors = self._searcher.vectors([text_of(bullet) for bullet in bullets])
        twins, report = find_twins(bullets, vectors, threshold)
        if twins and not dry_run:

            def plan(_: int) -> Sequence[Delta]:
                # whoever was changed while the others were compared is looked at next time
                report.twins = [t for t in twins if self._unchanged(t.survivor) and self._unchanged(t.removed)]
                return merging(report.twins)

            if self._commit(plan, author, screened=False):
                report.revision = self.revision
        return report

    def keep_both(self, one: str, other: str, *, author: str = "", note: str = "") -> int:
        """Remember that two near bullets are different, so that `dedup` never asks again.

        Raises:
            PlaybookError: A bullet is not there.
        """
        if one == other:
            raise PlaybookError(f"{one} and {other} are the same bullet; name two that are near each other")
        reason = clean_text(f"{one} and {other} are kept beside each other{': ' if note else ''}{note}")

        def beside(bullet_id: str, near: str) -> Delta:
            kept = tuple(dict.fromkeys((*self.get(bullet_id).distinct_from, self.get(near).id)))
            return Update(bullet_id=bullet_id, changes={"distinct_from": kept}, reason=reason)

        def plan(_: int) -> Sequence[Delta]:
            return [beside(one, other), beside(other, one)]

        self._commit(plan, author, screened=False)
        return self.revision

    # -- scores --------------------------------------------------------------------------------------------------------

    def judge(self, null: Null | Callable[[PlaybookBullet], Null] = DEFAULT_NULL) -> list[Judgement]:
        """What each bullet's record says against the success rate without it.

        Args:
            null: That rate, a record of runs without the bullet, or a function of the bullet that knows its task family.
        """
        if isinstance(null, (int, float)) and not 0 <= null <= 1:
            raise ValueError(f"null is {null!r}, expected the share of tasks that succeed without a bullet, 0 to 1")
        judged: list[Judgement] = []
        for bullet in self.bullets:
            known = record(bullet, time.time(), self.half_life_days)
            rate = null(bullet) if callable(null) else null
            action: Literal["prune", "promote", "keep"] = "keep"
            if bullet.stage in ("active", "shadow") and should_prune(known, rate):
                action = "prune"
            elif bullet.stage == "shadow" and should_promote(known, rate):
                action = "promote"
            judged.append(Judgement(bullet=bullet, better=chance_of_being_better(known, rate), action=action))
        return judged

    def prune(
        self,
        null: Null | Callable[[PlaybookBullet], Null] = DEFAULT_NULL,
        *,
        dry_run: bool = False,
        author: str = "prune",
    ) -> list[Judgement]:
        """Retire bullets that are worse than nothing with 99 % probability, promote shadow bullets that are better.

        Pinned bullets stay, and those that changed while they were judged. What is retired stays in the book, is not shown,
        and can be promoted again.

        Returns:
            What was decided, or would be.
        """
        self.refresh()
        due = [judgement for judgement in self.judge(null) if judgement.action != "keep"]

        def decided(judgement: Judgement) -> Delta:
            bullet, pruned = judgement.bullet, judgement.action == "prune"
            chance = f"{100 * (1 - judgement.better if pruned else judgement.better):.1f} %"
            reason = f"{'worse' if pruned else 'better'} than nothing with probability {chance}"
            return Promote(bullet_id=bullet.id, stage="retired" if pruned else "active", reason=reason)

        def plan(_: int) -> Sequence[Delta]:
            nonlocal due
            due = [judgement for judgement in due if self._unchanged(judgement.bullet)]
            return [decided(judgement) for judgement in due]

        if due and not dry_run:
            self._commit(plan, author, screened=False)
        return due

    def _unchanged(self, bullet: PlaybookBullet) -> bool:
        """Whether a bullet is still what was looked at before the commit."""
        return self._bullets.get(bullet.number) == bullet

    # -- housekeeping --------------------------------------------------------------------------------------------------

    def gc(self) -> int:
        """Forget vectors of texts that no bullet has any more, and of other embedders; returns how many went."""
        self.refresh()
        keys = {text_key(clean_text(bullet.searched)) for bullet in self.bullets}
        return self._store.drop_vectors({self.embedder.name: keys})

    def stats(self) -> BookStats:
        """Counts by stage, section and trust."""
        bullets = self.bullets
        return BookStats(
            revision=self.revision,
            bullets=len(bullets),
            stages=dict(Counter(bullet.stage for bullet in bullets)),
            sections=dict(Counter(bullet.section for bullet in bullets)),
            tainted=sum(bullet.trust == "tainted" for bullet in bullets),
            credited=sum(bool(bullet.helpful_count or bullet.harmful_count) for bullet in bullets),
            index=self._searcher.kind,
            embedder=self.embedder.name,
        )
