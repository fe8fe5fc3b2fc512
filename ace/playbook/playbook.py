"""`Playbook`: open one, commit deltas to it, retrieve from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from cachetools import LRUCache
from pydantic import ValidationError

from ace.core import PlaybookError, clean_text
from ace.playbook._retrieving import Retrieving
from ace.playbook._upkeep import Upkeep
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import Add, Delta, Restore, apply, checked
from ace.playbook.dense import Quantization
from ace.playbook.embedder import Embedder, Vectors, as_embedder
from ace.playbook.engine import book_url
from ace.playbook.files import cache_folder, read_bullets, write_bullets
from ace.playbook.render import TokenCounter, count_tokens, render_bullet, render_bullets
from ace.playbook.retrieval import Scored
from ace.playbook.search import Searcher, text_key
from ace.playbook.store import Credits, Plan, Row, Store
from ace.playbook.table import BulletTable, collector_paused
from ace.playbook.trust import Screen, Seen, held_back, screen

DEFAULT_PROMPT_BUDGET = 1_000
"""Tokens that bullets may take in a prompt."""


class Playbook(Retrieving, Upkeep):
    """A journaled memory of lessons, found by meaning and by words.

    Args:
        url: An SQLAlchemy URL; use `Playbook.open` for a path.
        embedder: MiniLM by default; anything that `as_embedder` takes.
        prompt_budget: Tokens that `retrieve` may fill.
        book_budget: Tokens that all bullets together may take; a commit that would exceed it is refused.
        cache_size: How many candidate lists are kept.
        count_tokens: Counts tokens for the budgets.
        half_life_days: Evidence this old counts half; None keeps all of it.
        quantization: ``"8bit"`` keeps a quarter of the vectors' bytes in memory once the book is large.
        index_folder: Where the indexes are saved; beside the file, or in the user's cache folder for a server.
        screen: Looks at new content before it may be shown; None lets everything pass.
        tools: Names of tools that are registered; the screen knows them.

    Example:
        >>> from ace.playbook import CallableEmbedder
        >>> book = Playbook(embedder=CallableEmbedder("toy", lambda texts: [[len(t), 1.0] for t in texts]))
        >>> book.add(section="Strategies", trigger="Refund an order", content="Find the order first.").id
        'b-1'
        >>> [bullet.id for bullet in book.retrieve("Refund order 17")]
        ['b-1']
    """

    def __init__(
        self,
        url: str | sa.URL = "sqlite://",
        *,
        embedder: Any = None,
        prompt_budget: int = DEFAULT_PROMPT_BUDGET,
        book_budget: int | None = None,
        cache_size: int = 1_024,
        count_tokens: TokenCounter | None = None,
        half_life_days: float | None = None,
        quantization: Quantization = "none",
        index_folder: str | Path | None = None,
        screen: Screen | None = screen,
        tools: Collection[str] = (),
    ) -> None:
        if cache_size < 1:
            raise ValueError(
                f"cache_size is {cache_size}, expected at least 1: a retrieval keeps what it is working on"
            )
        self.embedder: Embedder = as_embedder(embedder)
        self.prompt_budget = prompt_budget
        self.book_budget = book_budget
        self.half_life_days = half_life_days
        self.tools = frozenset(tools)
        self._seen = Seen(screen)
        self._sizes: dict[int, tuple[PlaybookBullet, int]] = {}
        """By number: a bullet and its tokens."""
        self._count_tokens = count_tokens
        self._quantization: Quantization = quantization
        self._store = Store(url)
        self._lock = threading.RLock()
        self._candidates: LRUCache[Any, list[Scored]] = LRUCache(cache_size)
        self._packed: LRUCache[Any, tuple[PlaybookBullet, ...]] = LRUCache(cache_size)
        self._query_vectors: LRUCache[str, Vectors] = LRUCache(cache_size)
        self.cache_hits = 0
        self.cache_misses = 0
        self._index_folder = Path(index_folder) if index_folder is not None else self._default_folder()
        self._load()

    @classmethod
    def open(cls, path: str | Path, **options: Any) -> Playbook:
        """Open a playbook file, or make a new one.

        Args:
            path: A file path or an SQLAlchemy URL.
            **options: As for the class.

        Raises:
            PlaybookError: The file is no playbook, or its folder does not exist.
        """
        return cls(book_url(path), **options)

    def close(self) -> None:
        """Save the indexes and release the database."""
        with self._lock:
            self._searcher.close(self.revision)
        self._store.close()

    def __enter__(self) -> Playbook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Playbook:
        # one memory, however often an optimizer copies the program around it
        return self

    @property
    def server_url(self) -> str | None:
        """Where other machines reach it, password included; None for a file and for memory."""
        url = self._store.engine.url
        return None if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=False)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _default_folder(self) -> Path | None:
        if self._store.file is not None:
            return Path(f"{self._store.file}.index")
        server = self._store.engine.dialect.name != "sqlite"
        return cache_folder() / "books" / str(self._store.book_id) if server else None

    def _load(self) -> None:
        with collector_paused():
            self.revision, rows = self._store.snapshot()
            self._take(rows)
        self.content_revision = self.evidence_revision = self.revision
        self._scopes = {}
        self._checked_at = time.monotonic()

    def _take(self, rows: Sequence[Row]) -> None:
        self._bullets = BulletTable(rows)
        self._searcher = Searcher(self._store, self.embedder, self._bullets, self._index_folder, self._quantization)

    def refresh(self) -> None:
        """Follow the commits of other processes, now."""
        with self._lock:
            self._checked_at = time.monotonic()
            self._follow([(entry.revision, entry.delta) for entry in self._store.entries(after=self.revision)])

    def _follow(self, journal: Sequence[tuple[int, Delta]]) -> None:
        """Apply committed deltas to what this process holds."""
        for revision, delta in journal:
            ids = () if isinstance(delta, (Add, Restore)) else (delta.bullet_id, *getattr(delta, "absorbed", ()))
            numbers = (int(i.removeprefix("b-")) for i in ids)
            current = {f"b-{n}": self._bullets[n] for n in numbers if n in self._bullets}
            for bullet_id, bullet in apply(current, delta, revision).items():
                number = int(bullet_id.removeprefix("b-"))
                old = self._bullets.get(number)
                if bullet is None:
                    self._bullets.remove(number)
                else:
                    self._bullets.put(bullet)
                self._searcher.changed(number, old, bullet)
                if _content(old) != _content(bullet):
                    self.content_revision = revision
                    for changed in (old, bullet):
                        if changed is not None:
                            self._scopes[changed.domain] = revision
                if old is None or bullet is None or old.provenance != bullet.provenance:
                    self.evidence_revision = revision
            self.revision = revision

    @property
    def bullets(self) -> tuple[PlaybookBullet, ...]:
        """All bullets in id order, whatever their stage."""
        with self._lock:
            return tuple(self._bullets.values())

    def __len__(self) -> int:
        return len(self._bullets)

    def get(self, bullet_id: str) -> PlaybookBullet:
        """One bullet.

        Raises:
            PlaybookError: There is none of that id.
        """
        digits = bullet_id.removeprefix("b-")
        found = self._bullets.get(int(digits)) if digits.isdecimal() and len(digits) < 10 else None
        if found is not None and found.id == bullet_id:
            return found
        raise PlaybookError(f"no bullet {bullet_id!r}; `ace playbook list` shows the ids")

    def some(self, bullet_ids: Iterable[str]) -> dict[str, PlaybookBullet]:
        """Those of the named bullets that are there, by id."""
        found: dict[str, PlaybookBullet] = {}
        for bullet_id in bullet_ids:
            with suppress(PlaybookError):
                found[bullet_id] = self.get(bullet_id)
        return found

    # -- writing -----------------------------------------------------------------------------------------------------

    def commit(
        self, deltas: Iterable[Delta], *, author: str = "", tools: Collection[str] = (), at: int | None = None
    ) -> int:
        """Write deltas as one revision: all of them, or none.

        New words that are tainted, or that the screen holds back, wait in quarantine for review.

        Args:
            deltas: What to change, in order.
            author: Who changes it.
            tools: Names of registered tools, besides the book's own: the screen knows them.
            at: Write only if the book is still at this revision, for deltas that rest on having looked at all of it.

        Returns:
            The new revision; the old one when there was nothing to write.

        Raises:
            PlaybookError: A delta does not apply, the book would exceed `book_budget`, or it is not at revision `at` any
                more.
        """
        self._commit(self._taken(deltas, tools, at), author, tools=tools)
        return self.revision

    def _taken(self, deltas: Iterable[Delta], tools: Collection[str] = (), at: int | None = None) -> Plan:
        wanted = [checked(delta) for delta in deltas]
        for delta in wanted:
            if isinstance(delta, Restore):
                raise PlaybookError(
                    "`Restore` is written by `Playbook.rollback` only; to bring words back, add or update"
                )
            if isinstance(delta, Add):  # looked at before others have to wait for the commit
                self._seen.look(delta.bullet, self.tools.union(tools))

        def plan(newest: int) -> Sequence[Delta]:
            if at is not None and newest != at:
                raise PlaybookError(f"the playbook is at revision {newest}, not at {at} any more; look at it again")
            return wanted

        return plan

    def _commit(
        self,
        plan: Plan,
        author: str,
        *,
        screened: bool = True,
        reviewed: bool = False,
        tools: Collection[str] = (),
        credited: Credits | None = None,
    ) -> tuple[Delta, ...]:
        def look(before: Mapping[str, PlaybookBullet], after: Mapping[str, PlaybookBullet | None]) -> Sequence[Delta]:
            held: Sequence[Delta] = ()
            if not reviewed:
                held = held_back(before, after, self._seen if screened else None, self.tools.union(tools))
            self._check_budget(after)
            return held

        def planned(newest: int) -> Sequence[Delta]:
            # inside the transaction: what is decided here still holds when it is written
            if newest != self.revision:
                self.refresh()
            return plan(newest)

        with self._lock:
            commit = self._store.commit(planned, clean_text(author), look, credited)
            if commit.deltas:
                self._follow([(commit.revision, delta) for delta in commit.deltas])
            return commit.deltas

    def _check_budget(self, after: Mapping[str, PlaybookBullet | None]) -> None:
        """Refuse what would make the book longer than `book_budget`; what makes it shorter is always welcome."""
        if self.book_budget is None:
            return
        then = [bullet for bullet in self._bullets.values() if bullet.id not in after]
        then += [bullet for bullet in after.values() if bullet is not None]
        # a bullet costs no more in the book than alone, apart from its line feed; counting all of them again is slow
        if sum(map(self._tokens_of, then)) + len(then) <= self.book_budget:
            return
        count = self._count_tokens or count_tokens
        tokens = count(render_bullets(then))
        if tokens > self.book_budget and tokens > count(render_bullets(list(self._bullets.values()))):
            raise PlaybookError(
                f"the book would take {tokens} tokens, book_budget is {self.book_budget}; nothing was written: prune or "
                "merge bullets first (`ace playbook prune`, `ace playbook dedup`), or raise the budget"
            )

    def tokens_of(self, bullet: PlaybookBullet) -> int:
        """Tokens that a bullet takes in a prompt or in the book, its line feed included."""
        if not bullet.id:  # not committed yet: an id of the usual length
            bullet = bullet.model_copy(update={"id": "b-1000"})
            return (self._count_tokens or count_tokens)(render_bullet(bullet)) + 1
        return self._tokens_of(bullet) + 1

    def _tokens_of(self, bullet: PlaybookBullet) -> int:
        known = self._sizes.get(bullet.number)
        if known is None or known[0] is not bullet:
            known = self._sizes[bullet.number] = (bullet, (self._count_tokens or count_tokens)(render_bullet(bullet)))
        return known[1]

    def objection(self, bullet: PlaybookBullet, tools: Collection[str] = ()) -> str:
        """Why a commit would hold a new bullet back for review; empty when it would not."""
        return self._seen.look(bullet, self.tools.union(tools))

    def add(self, *, author: str = "", **fields: Any) -> PlaybookBullet:
        """Commit one new bullet, given by its fields.

        Raises:
            PlaybookError: A field is unknown or has an illegal value.
        """
        try:
            bullet = PlaybookBullet(**fields)
        except ValidationError as error:
            raise PlaybookError(f"not a bullet: {error.errors(include_url=False, include_context=False)}") from error
        with self._lock:
            added = self._commit(self._taken([Add(bullet=bullet)]), author)[0]
            assert isinstance(added, Add)
            return self.get(added.bullet.id)

    def fork(self) -> Playbook:
        """A copy in memory with the same bullets, ids and settings: what is tried there leaves no trace here.

        It has no history but its own, and knows no run's credit.
        """
        with self._lock:
            bullets = self.bullets
            twin = Playbook(
                embedder=self.embedder,
                prompt_budget=self.prompt_budget,
                book_budget=self.book_budget,
                count_tokens=self._count_tokens,
                half_life_days=self.half_life_days,
                quantization=self._quantization,
                screen=self._seen.screen,
                tools=self.tools,
            )
            if bullets:
                twin._adopt(bullets, self.vectors(bullets))
        return twin

    def _adopt(self, bullets: Sequence[PlaybookBullet], vectors: Vectors) -> None:
        keys = (text_key(clean_text(bullet.searched)) for bullet in bullets)
        self._store.put_vectors(self.embedder.name, dict(zip(keys, vectors, strict=True)))
        self._store.start_ids_after(max(bullet.number for bullet in bullets))
        self._commit(lambda _: [Restore(bullet=bullet) for bullet in bullets], "fork", reviewed=True)

    # -- files ---------------------------------------------------------------------------------------------------------

    def export_jsonl(self, path: str | Path) -> int:
        """Write every bullet as one JSON line, in id order; returns how many.

        Raises:
            PlaybookError: The file cannot be written, or is the book itself.
        """
        if self._store.file is not None and str(Path(path).resolve()) in {
            f"{Path(self._store.file).resolve()}{ending}" for ending in ("", "-wal", "-shm", "-journal")
        }:
            raise PlaybookError(f"{str(path)!r} is the playbook itself; export to another file")
        return write_bullets(self.bullets, path)

    def import_jsonl(self, path: str | Path, *, author: str = "import") -> int:
        """Add every bullet of a file that `export_jsonl` wrote, under new ids, as one commit; returns how many.

        Raises:
            PlaybookError: A line is no bullet; nothing was written.
        """
        bullets = read_bullets(path)
        # ids of another book mean other bullets here; which were kept apart is settled anew
        fresh = {"id": "", "distinct_from": ()}
        self.commit(
            [Add(bullet=b.model_copy(update=fresh), reason=f"imported, was {b.id}") for b in bullets], author=author
        )
        return len(bullets)


def _content(bullet: PlaybookBullet | None) -> tuple[object, ...] | None:
    """What candidates depend on: texts, facets, the sequence; not counters, not evidence."""
    return (
        None if bullet is None else (bullet.searched, bullet.content, bullet.facets, bullet.tool_sequence, bullet.key)
    )
