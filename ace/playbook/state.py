"""The bullets that a process holds, in step with the store; every part of a `Playbook` works on this."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from ace.core import PlaybookError, clean_text
from ace.playbook.budget import TokenBudget
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.database import cache_folder
from ace.playbook.delta import Add, Delta, Purge, Restore, apply
from ace.playbook.index.index import BulletIndex
from ace.playbook.index.minilm import Embedder
from ace.playbook.insight import HeardValues
from ace.playbook.masking import Masker
from ace.playbook.ranking import least_for
from ace.playbook.stage_rules import Screen, required_stage_changes
from ace.playbook.store import Store, Transaction
from ace.playbook.table import BulletTable, collector_paused

REFRESH_SECONDS = 0.5
"""Commits of other processes are seen after at most this long."""


class PlaybookState:
    """Bullets, index and settings of one playbook in this process.

    Args:
        store: Where journal and bullets are kept.
        embedder: Makes the vectors of bullets and queries.
        masker: Masks bullets and queries alike.
        budget: Of prompts and of the book.
        screen: Looks at new words before they may be shown; None lets all pass.
        tools: Names of tools that are registered; the screen knows them.
        promote_after: Distinct tasks that show a lesson which runs have taught.
        least_similarity: How near the nearest lesson has to be, or none comes; None for what was calibrated.

    Attributes:
        revision: The newest one that this process has seen.
        lock: Held while any of this changes.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        masker: Masker,
        *,
        budget: TokenBudget,
        screen: Screen | None = None,
        tools: Collection[str] = (),
        promote_after: int = 1,
        least_similarity: float | None = None,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self.masker = masker
        self.budget = budget
        self.screen = screen
        self.promote_after = promote_after
        self.tools = frozenset(tools)
        self.least_similarity = least_similarity
        self.heard = HeardValues()
        self.lock = threading.RLock()
        with collector_paused():
            self.revision, rows = store.snapshot()
            self.bullets = BulletTable(rows)
        self.index = BulletIndex(store, embedder, masker, self.bullets, self.lock)
        self._refreshed_at = time.monotonic()

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, bullet_id: str) -> PlaybookBullet:
        """Return one bullet.

        Raises:
            PlaybookError: There is none of that id.
        """
        found = self.find([bullet_id])
        if not found:
            raise PlaybookError(f"no lesson {bullet_id!r}; `ace playbook list` shows the ids")
        return found[bullet_id]

    def find(self, bullet_ids: Iterable[str]) -> dict[str, PlaybookBullet]:
        """Return those of the named bullets that are there, by id."""
        found: dict[str, PlaybookBullet] = {}
        for bullet_id in bullet_ids:
            digits = bullet_id.removeprefix("b-")
            bullet = self.bullets.get(int(digits)) if digits.isdecimal() and len(digits) < 10 else None
            if bullet is not None and bullet.id == bullet_id:
                found[bullet_id] = bullet
        return found

    def all(self) -> tuple[PlaybookBullet, ...]:
        """Return all bullets in id order, whatever their stage."""
        with self.lock:
            return tuple(self.bullets.values())

    def unchanged(self, bullet: PlaybookBullet) -> bool:
        """Check whether a bullet is still what it was when it was read."""
        return self.bullets.get(bullet.number) == bullet

    @property
    def least(self) -> float:
        """How near the nearest lesson has to be."""
        given = self.least_similarity
        return least_for(self.embedder.name, len(self.bullets)) if given is None else given

    # -- following the store -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Follow the commits of other processes, now."""
        with self.lock:
            self._refreshed_at = time.monotonic()
            self._follow([(entry.revision, entry.delta) for entry in self.store.entries(after=self.revision)])

    def keep_up(self) -> None:
        """Follow the commits of other processes, unless that was done a moment ago."""
        if time.monotonic() - self._refreshed_at > REFRESH_SECONDS:
            self.refresh()

    def _follow(self, journal: Sequence[tuple[int, Delta]]) -> None:
        """Apply committed deltas to what this process holds.

        All are read before one is applied: a damaged entry must not leave half of what was committed.
        """
        for revision, delta in journal:
            if isinstance(delta, Purge) and delta.bullet_id == "b-0":
                self.reload()  # what came before is not what this process has read
                return
            ids = () if isinstance(delta, (Add, Restore)) else (delta.bullet_id, *getattr(delta, "absorbed", ()))
            numbers = (int(i.removeprefix("b-")) for i in ids)
            current = {f"b-{n}": self.bullets[n] for n in numbers if n in self.bullets}
            for bullet_id, bullet in apply(current, delta, revision).items():
                self._put(int(bullet_id.removeprefix("b-")), bullet)
            self.revision = revision

    def reload(self) -> None:
        """Read everything again, after a purge."""
        self.heard.clear()
        with collector_paused():
            self.revision, rows = self.store.snapshot()
            self.bullets = BulletTable(rows)
        self.index.reset(self.bullets)

    def _put(self, number: int, bullet: PlaybookBullet | None) -> None:
        old = self.bullets.get(number)
        if bullet is None:
            self.bullets.remove(number)
        else:
            self.bullets.put(bullet)
        self.index.changed(number, old, bullet)

    # -- writing -----------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(
        self, author: str, *, reviewed: bool = False, screened: bool = True, tools: Collection[str] = ()
    ) -> Generator[Transaction]:
        """Write one revision, or nothing. While it is open no other commit can begin, and `bullets` are the newest.

        What is tainted, or the screen holds back, goes to quarantine with the same revision; see `ace.playbook.stage_rules`.

        Args:
            author: Who changes the book.
            reviewed: Whether a person, or an earlier revision, vouches for every word.
            screened: Whether new words are screened and stages follow the evidence; a bullet never leaves the quarantine
                either way.
            tools: Names of registered tools, besides the book's own.

        Raises:
            PlaybookError: A delta does not apply, or the book would exceed its budget; nothing was written.
        """
        with self.lock:
            with self.store.transaction(clean_text(author), self.find) as tx:
                if tx.newest != self.revision:
                    self._follow([(entry.revision, entry.delta) for entry in tx.entries_after(self.revision)])
                yield tx
                if not reviewed:
                    added = required_stage_changes(
                        tx.before,
                        tx.after,
                        tx.deltas,
                        screen=self.screen if screened else None,
                        tools=self.tools.union(tools),
                        promote_after=self.promote_after if screened else 1,
                    )
                    tx.add(*added)
                self.budget.check(self.bullets.values(), tx.after)
            self._follow([(tx.revision, delta) for delta in tx.deltas])

    @property
    def postponed(self) -> Path | None:
        """Where runs wait that could not be learned from; None for a book in memory."""
        if self.store.file is not None:
            return Path(f"{self.store.file}.postponed")
        if self.store.server_url is None:
            return None
        return cache_folder() / "books" / f"{self.store.book_id}.postponed"

    def queues(self) -> list[Path]:
        """Return every folder in which runs of this book may be."""
        own = self.postponed
        return [*self.store.queues(), *([own] if own is not None and own.exists() else [])]
