"""`Playbook`: open one, commit deltas to it, retrieve from it."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from cachetools import LRUCache
from pydantic import ValidationError

from ace.core import PlaybookError, clean_text
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import Add, Delta, Tag, apply, checked
from ace.playbook.embedder import Embedder, MiniLMEmbedder, Vectors
from ace.playbook.files import read_bullets, write_bullets
from ace.playbook.index import DenseIndex, LexicalIndex
from ace.playbook.render import TokenCounter, pack
from ace.playbook.retrieval import DEPTH, Filters, Scored, diversify, fuse, pinned_first
from ace.playbook.store import Store

if TYPE_CHECKING:
    from ace.tasks import TaskInput

DEFAULT_K = 3
"""More bullets than this help less (SkillsBench: 2-3 skills +18.6 points, 4 and more +5.9)."""
DEFAULT_PROMPT_BUDGET = 1_000
"""Tokens that bullets may take in a prompt."""
REFRESH_SECONDS = 1.0
"""Commits of other processes are seen after at most this long."""


class Playbook:
    """A journaled memory of lessons, found by meaning and by words.

    Args:
        url: An SQLAlchemy URL; use `Playbook.open` for a path.
        embedder: MiniLM by default.
        prompt_budget: Tokens that `retrieve` may fill.
        cache_size: How many candidate lists are kept.
        count_tokens: Counts tokens for the budget.

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
        embedder: Embedder | None = None,
        prompt_budget: int = DEFAULT_PROMPT_BUDGET,
        cache_size: int = 1_024,
        count_tokens: TokenCounter | None = None,
    ) -> None:
        self.embedder: Embedder = embedder or MiniLMEmbedder()
        self.prompt_budget = prompt_budget
        self._count_tokens = count_tokens
        self._store = Store(url)
        self._lock = threading.RLock()
        self._candidates: LRUCache[Any, list[Scored]] = LRUCache(cache_size)
        self._query_vectors: LRUCache[str, Vectors] = LRUCache(cache_size)
        self.cache_hits = 0
        self.cache_misses = 0
        self._dense: DenseIndex | None = None
        self._dense_stale: set[int] = set()
        self._lexical: LexicalIndex | None = None
        self._bullets: dict[int, PlaybookBullet] = {}
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
        text = str(path)
        if "://" in text:
            return cls(text, **options)
        parent = Path(path).resolve().parent
        if not parent.is_dir():
            raise PlaybookError(f"cannot open the playbook {text!r}: the folder {str(parent)!r} does not exist")
        return cls(sa.URL.create("sqlite", database=str(Path(path).resolve())), **options)

    def close(self) -> None:
        """Release the database."""
        self._store.close()

    def __enter__(self) -> Playbook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Playbook:
        # one memory, however often an optimizer copies the program around it
        return self

    # -- reading -----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        self.revision, bullets = self._store.snapshot()
        self._bullets = {bullet.number: bullet for bullet in bullets.values()}
        self.content_revision = self.revision
        self._dense, self._lexical = None, None
        self._checked_at = time.monotonic()

    def refresh(self) -> None:
        """Follow the commits of other processes, now."""
        with self._lock:
            self._checked_at = time.monotonic()
            self._follow(self._store.journal(after=self.revision))

    def _follow(self, journal: Sequence[tuple[int, Delta]]) -> None:
        """Apply committed deltas to what this process holds."""
        for revision, delta in journal:
            current = {bullet.id: bullet for bullet in self._bullets.values()} if isinstance(delta, Add) else {}
            if not isinstance(delta, Add):
                ids = (delta.bullet_id, *getattr(delta, "absorbed", ()))
                numbers = (int(i.removeprefix("b-")) for i in ids)
                current = {f"b-{n}": self._bullets[n] for n in numbers if n in self._bullets}
            for bullet_id, bullet in apply(current, delta, revision).items():
                number = int(bullet_id.removeprefix("b-"))
                old = self._bullets.pop(number, None)
                if bullet is not None:
                    self._bullets[number] = bullet
                if (old and old.searched) != (bullet and bullet.searched):
                    self._dense_stale.add(number)
                    self._lexical = None
            self.revision = revision
            if not isinstance(delta, Tag):
                self.content_revision = revision
        if journal:
            self._bullets = dict(sorted(self._bullets.items()))

    @property
    def bullets(self) -> tuple[PlaybookBullet, ...]:
        """All bullets in id order, whatever their stage."""
        return tuple(self._bullets.values())

    def __len__(self) -> int:
        return len(self._bullets)

    def get(self, bullet_id: str) -> PlaybookBullet:
        """One bullet.

        Raises:
            PlaybookError: There is none of that id.
        """
        for bullet in self._bullets.values():
            if bullet.id == bullet_id:
                return bullet
        raise PlaybookError(f"no bullet {bullet_id!r}; `ace playbook list` shows the ids")

    def history(self) -> list[dict[str, Any]]:
        """Every delta ever committed, oldest first."""
        return self._store.history()

    def journal(self) -> list[tuple[int, Delta]]:
        """(revision, delta) pairs, oldest first; `fold` of them is the bullet table."""
        return self._store.journal()

    # -- writing -----------------------------------------------------------------------------------------------------

    def commit(self, deltas: Iterable[Delta], *, author: str = "") -> int:
        """Write deltas as one revision: all of them, or none.

        Returns:
            The new revision; the old one when there was nothing to write.

        Raises:
            PlaybookError: A delta does not apply.
        """
        wanted = [checked(delta) for delta in deltas]
        with self._lock:
            if wanted:
                commit = self._store.commit(wanted, clean_text(author), check=lambda newest: None)
                if commit.revision == self.revision + 1:
                    self._follow([(commit.revision, delta) for delta in commit.deltas])
                else:  # somebody else committed in between
                    self.refresh()
            return self.revision

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
            self.commit([Add(bullet=bullet)], author=author)
            return self._bullets[max(self._bullets)]

    # -- retrieval -----------------------------------------------------------------------------------------------------

    def retrieve(
        self,
        query: str,
        domain: str | None = None,
        filters: Filters | None = None,
        k: int = DEFAULT_K,
        *,
        tenant: str | None = None,
    ) -> list[PlaybookBullet]:
        """The bullets that fit a task, best first, pinned ones before them.

        Args:
            query: The task in its own words.
            domain: Only bullets of this domain, or of none.
            filters: What else may come.
            k: How many at most; each with another tool sequence.
            tenant: Bullets of other tenants never come.

        Returns:
            At most `k` bullets that fit `prompt_budget` together.
        """
        if k < 1:
            return []
        filters = filters or Filters()
        query = clean_text(query)
        with self._lock:
            if time.monotonic() - self._checked_at > REFRESH_SECONDS:
                self.refresh()
            key = (self.embedder.name, query, domain, tenant, filters.cache_key, self.content_revision)
            candidates = self._candidates.get(key)
            if candidates is None:
                self.cache_misses += 1
                candidates = self._search(query, domain, tenant, filters)
                self._candidates[key] = candidates
            else:
                self.cache_hits += 1
            ordered = diversify(candidates, self._bullets)
        # one that is too long for the budget must not cost a slot
        return pinned_first(pack(ordered, self.prompt_budget, k, self._count_tokens))

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> list[PlaybookBullet]:
        """The bullets for a task of an agent that has these tools (name to schema hash)."""
        return self.retrieve(task.text, domain=task.domain, tenant=task.tenant, filters=Filters(tools=tools))

    def guarded(self, filters: Filters) -> GuardedPlaybook:
        """A view for evaluation: `retrieve_for` leaves out what the guard names."""
        return GuardedPlaybook(self, filters)

    def nearest(self, text: str, bullets: Sequence[PlaybookBullet]) -> list[tuple[PlaybookBullet, float]]:
        """Cosine similarity of a text to some bullets, best first."""
        if not bullets:
            return []
        vectors = self._vectors([bullet.searched for bullet in bullets])
        scores = vectors @ self._vectors([text])[0]
        order = np.argsort(-scores, kind="stable")
        return [(bullets[int(i)], float(scores[int(i)])) for i in order]

    def _search(self, query: str, domain: str | None, tenant: str | None, filters: Filters) -> list[Scored]:
        allowed = [n for n, bullet in self._bullets.items() if filters.allow(bullet, domain, tenant)]
        if not allowed:
            return []
        only = None if len(allowed) == len(self._bullets) else allowed
        vector = self._query_vectors.get(query)
        if vector is None:
            vector = self._query_vectors[query] = self.embedder.embed([query])[0]
        dense = self._dense_index().search(vector, DEPTH, only)
        if self._lexical is None:
            self._lexical = LexicalIndex({n: clean_text(b.searched) for n, b in self._bullets.items()})
        return fuse([dense, self._lexical.search(query, DEPTH, only)])

    def _dense_index(self) -> DenseIndex:
        """The dense index, brought up to date with the bullets."""
        if self._dense is None:
            self._dense_stale = set(self._bullets)
        if self._dense is None or self._dense_stale:
            numbers = sorted(n for n in self._dense_stale if n in self._bullets)
            gone = sorted(n for n in self._dense_stale if n not in self._bullets)
            vectors = self._vectors([self._bullets[n].searched for n in numbers])
            if self._dense is None:
                self._dense = DenseIndex(vectors.shape[1])
            self._dense.remove(gone)
            self._dense.put(numbers, vectors)
            self._dense_stale = set()
        return self._dense

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts, from the store where they were computed before."""
        texts = [clean_text(text) for text in texts]
        keys = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        known = self._store.vectors(self.embedder.name, list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            computed = self.embedder.embed(list(missing.values()))
            fresh = dict(zip(missing, computed, strict=True))
            self._store.put_vectors(self.embedder.name, fresh)
            known |= fresh
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, 1), dtype=np.float32)

    # -- files ---------------------------------------------------------------------------------------------------------

    def export_jsonl(self, path: str | Path) -> int:
        """Write every bullet as one JSON line, in id order; returns how many.

        Raises:
            PlaybookError: The file cannot be written.
        """
        return write_bullets(self.bullets, path)

    def import_jsonl(self, path: str | Path, *, author: str = "import") -> int:
        """Add every bullet of a file that `export_jsonl` wrote, under new ids, as one commit; returns how many.

        Raises:
            PlaybookError: A line is no bullet; nothing was written.
        """
        bullets = read_bullets(path)
        self.commit(
            [Add(bullet=b.model_copy(update={"id": ""}), reason=f"imported, was {b.id}") for b in bullets], author=author
        )
        return len(bullets)


class GuardedPlaybook:
    """A playbook seen through a leave-out guard."""

    def __init__(self, playbook: Playbook, filters: Filters) -> None:
        self.playbook = playbook
        self.filters = filters

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> list[PlaybookBullet]:
        """As `Playbook.retrieve_for`, without what the guard names."""
        filters = Filters(
            sections=self.filters.sections,
            tags=self.filters.tags,
            tools=tools,
            exclude_tasks=self.filters.exclude_tasks,
            exclude_groups=self.filters.exclude_groups,
        )
        return self.playbook.retrieve(task.text, domain=task.domain, tenant=task.tenant, filters=filters)
