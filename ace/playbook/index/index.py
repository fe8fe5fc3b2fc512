"""The two indexes of a book, by meaning and by words, and the candidates that they give for a query."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from cachetools import LRUCache

from ace.core import PlaybookError, clean_text
from ace.core.language import column, is_foreign, search_words
from ace.playbook.bullet import PlaybookBullet, Section
from ace.playbook.index.dense import DenseIndex
from ace.playbook.index.lexical import LexicalIndex
from ace.playbook.index.minilm import Embedder, Vectors, embedded
from ace.playbook.masking import Kind, Masker, masked
from ace.playbook.ranking import DEPTH, Ranking, Scored, fuse
from ace.playbook.store import Store
from ace.playbook.table import BulletTable

ENTRIES = 16
"""Ids in the indexes that belong to one bullet: each situation is an entry of its own, the first has the first id."""
KEPT: tuple[Kind, ...] = ("name", "money")
"""Kinds that are not masked where meanings are compared: they tell MiniLM what kind of thing is spoken of."""
CACHED_QUERIES = 1_024
"""Vectors of queries that are kept."""
BATCH = 256
"""Texts are embedded in batches of this size, so that a long job can be watched and interrupted."""


class Masked(NamedTuple):
    """A text as the two indexes see it: by meaning names and amounts are kept, by words they are not."""

    meaning: str
    words: str
    hidden: tuple[int, ...] = ()
    """Columns of words that are not kept: of a query the names, of a lesson what too few tasks say."""


class BulletIndex:
    """Keeps a dense and a lexical index in step with a table of bullets.

    Args:
        store: Where vectors are kept.
        embedder: Makes them.
        masker: Masks lessons and queries alike.
        table: The bullets.
        lock: Held while the indexes change; the table's own.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        masker: Masker,
        table: BulletTable,
        lock: threading.RLock | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._masker = masker
        self._table = table
        self._lock = threading.RLock() if lock is None else lock
        self._dense: DenseIndex | None = None
        self._lexical = LexicalIndex()
        self._changed: set[int] = set(table)
        """Numbers of bullets that the indexes do not have as they are now."""
        self._masks: LRUCache[str, Masked] = LRUCache(CACHED_QUERIES)
        self._queries: LRUCache[str, Vectors] = LRUCache(CACHED_QUERIES)

    # -- for users -----------------------------------------------------------------------------------------------------

    def similar(
        self, text: str, section: Section, domain: str | None = None, tenant: str | None = None
    ) -> list[tuple[PlaybookBullet, float]]:
        """Find the bullets of one section and scope that are near a text, with their cosine, best first.

        Those that wait for review or are not shown are among them, retired ones are not: what is added is compared with
        them.
        """
        query = self.asked(clean_text(text))
        vector = self.query_vector(query)

        def comparable(number: int) -> bool:
            key = self._table.key(number)
            return key.stage != "retired" and (key.section, key.domain, key.tenant) == (section, domain, tenant)

        with self._lock:
            near = [(self._table[s.number], s.cosine or 0.0) for s in self.candidates(query, vector, comparable)]
        return sorted(near, key=lambda pair: (-pair[1], pair[0].number))

    def masked(self, text: str) -> Masked:
        """Return a text as it is compared."""
        with self._lock:
            known = self._masks.get(text)
        if known is None:
            spans = self._masker.spans(text)
            names = [s for s in spans if s.kind == "name"] if is_foreign(text) else []
            hidden = dict.fromkeys(column(word) for s in names for word in search_words(text[s.start : s.end]))
            known = Masked(masked(text, spans, keep=KEPT), masked(text, spans), tuple(hidden))
            with self._lock:
                self._masks[text] = known
        return known

    def asked(self, text: str) -> Masked:
        """Mask a query; of names it keeps what any lesson has as a word, so that other names are the same question."""
        query = self.masked(text)
        if not query.hidden:
            return query
        with self._lock:
            self._update()
            return query._replace(hidden=self._lexical.known(query.hidden))

    def entries(self, bullet: PlaybookBullet) -> list[Masked]:
        """Return what a bullet is searched by: each of its situations, or its own words."""
        if bullet.situations:
            return [Masked(s.searched, s.searched, s.hidden) for s in bullet.situations]
        text = clean_text(bullet.searched)
        spans = self._masker.spans(text)
        return [Masked(masked(text, spans, keep=KEPT), masked(text, spans))]

    def planned(
        self, shape: str, section: Section, domain: str | None = None, tenant: str | None = None
    ) -> list[PlaybookBullet]:
        """Return the lessons of one scope that have this shape, without retired ones."""
        with self._lock:
            return self._table.planned(shape, section, domain, tenant)

    def query_vector(self, query: Masked) -> Vectors | None:
        """Return the unit vector of a query; None while there is nothing to compare it with."""
        with self._lock:
            known, empty = self._queries.get(query.meaning), not len(self._table)
        if known is None and not empty:
            (known,) = embedded(self._embedder, [query.meaning])  # not under the lock: it takes longest
            with self._lock:
                self._queries[query.meaning] = known
        return known

    def vectors(self, bullets: Sequence[PlaybookBullet]) -> Vectors:
        """Return unit vectors of what bullets are searched by, shape (len(bullets), dimension)."""
        return self.text_vectors([self.entries(bullet)[0].meaning for bullet in bullets])

    @property
    def kind(self) -> Literal["exact", "approximate", "none"]:
        """How the dense index searches; none while there is nothing in it."""
        return self._dense.kind if self._dense is not None and len(self._dense) else "none"

    # -- following the table -------------------------------------------------------------------------------------------

    def changed(self, number: int, old: PlaybookBullet | None, new: PlaybookBullet | None) -> None:
        """Take in that a bullet was added, removed or changed."""
        if (old and _searched(old)) != (new and _searched(new)):
            self._changed.add(number)

    def _update(self) -> None:
        """Bring both indexes up to date with the table."""
        if self._changed:
            there = sorted(n for n in self._changed if n in self._table)
            entries = {n * ENTRIES + i: entry for n in there for i, entry in enumerate(self.entries(self._table[n]))}
            gone = [i for n in sorted(self._changed) for i in range(n * ENTRIES, (n + 1) * ENTRIES) if i not in entries]
            known = self._vectors([entry.meaning for entry in entries.values()])
            if known:
                dense = self._dense_index(len(next(iter(known.values()))))
                dense.put(list(entries), np.stack([known[entry.meaning] for entry in entries.values()]))
            if self._dense is not None:
                self._dense.remove(gone)
            hidden = {n: entry.hidden for n, entry in entries.items()}
            self._lexical.put({n: entry.words for n, entry in entries.items()}, hidden)
            self._lexical.remove(gone)
            self._changed.clear()

    def _dense_index(self, dimension: int) -> DenseIndex:
        if self._dense is None:
            self._dense = DenseIndex(dimension)
        if self._dense.dimension != dimension:
            raise PlaybookError(
                f"the embedder {self._embedder.name!r} gives vectors of {dimension} numbers, this book's have "
                f"{self._dense.dimension}: give another model another name"
            )
        return self._dense

    # -- vectors -------------------------------------------------------------------------------------------------------

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of texts, from the store where they were computed before; shape (len(texts), dimension)."""
        cleaned = [clean_text(text) for text in texts]
        known = self._vectors(cleaned)
        return np.stack([known[text] for text in cleaned]) if cleaned else np.zeros((0, 1), dtype=np.float32)

    def _vectors(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return vectors by their texts."""
        name, keys = self._embedder.name, {text: text_key(text) for text in texts}
        stored = self._store.vectors(name, list(keys.values()))
        found = {text: stored[key] for text, key in keys.items() if key in stored}
        missing = [text for text in keys if text not in found]
        for start in range(0, len(missing), BATCH):
            part = missing[start : start + BATCH]
            fresh = dict(zip(part, embedded(self._embedder, part), strict=True))
            self._store.put_vectors(name, {keys[text]: vector for text, vector in fresh.items()})
            found |= fresh
        return found

    # -- searching -----------------------------------------------------------------------------------------------------

    def candidates(self, query: Masked, vector: Vectors | None, allow: Callable[[int], bool]) -> list[Scored]:
        """Find what is near a query by meaning and by words, best first, of the bullets that may come by their numbers."""
        with self._lock:
            if vector is None:
                return []
            self._update()
            near: Ranking = ([], [])
            if self._dense is not None:
                near = self._allowed(partial(self._dense_index(len(vector)).search, vector), allow)
            words = self._allowed(partial(self._lexical.search, query.words, hidden=query.hidden), allow)
        return fuse(of_bullets(near), of_bullets(words))

    def _allowed(self, search: Callable[..., Ranking], allow: Callable[[int], bool]) -> Ranking:
        """Find the best entries of bullets that may come: out of what is found first, or, where few may, of these alone."""
        wanted = 2 * DEPTH  # a bullet may have several entries
        for depth in (wanted, 16 * wanted):
            entries, scores = search(depth)
            numbers = [entry // ENTRIES for entry in entries]
            # a large lexical index knows of those that have left for a while
            kept = [i for i, number in enumerate(numbers) if number in self._table and allow(number)][:wanted]
            if len(kept) == wanted or len(entries) < depth:
                return [entries[i] for i in kept], [scores[i] for i in kept]
        chosen = [number * ENTRIES + i for number in self._table if allow(number) for i in range(ENTRIES)]
        return search(wanted, only=chosen) if chosen else ([], [])

    def reset(self, table: BulletTable) -> None:
        """Forget everything that was made: another table takes its place."""
        with self._lock:
            self._table = table
            self._dense, self._lexical = None, LexicalIndex()
            self._queries.clear()
            self._masks.clear()
            self._changed = set(table)

    def text_keys(self) -> dict[str, set[str]]:
        """Return by embedder the keys of the vectors that are needed."""
        with self._lock:
            texts = {entry.meaning for bullet in self._table.values() for entry in self.entries(bullet)}
        return {self._embedder.name: set(map(text_key, texts))}


def of_bullets(ranking: Ranking) -> Ranking:
    """Convert a ranking of entries to one of bullets: each by its best entry."""
    best: dict[int, float] = {}
    for entry, score in zip(*ranking, strict=True):
        best.setdefault(entry // ENTRIES, score)
    found = dict(islice(best.items(), DEPTH))
    return list(found), list(found.values())


def _searched(bullet: PlaybookBullet) -> object:
    return [situation.wording for situation in bullet.situations] or bullet.searched


def text_key(text: str) -> str:
    """Return the key by which a text's vector is found again."""
    return hashlib.sha256(text.encode()).hexdigest()
