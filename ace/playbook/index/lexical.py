"""Bullets by their words: TF-IDF over words and word pairs, kept up to date without reading every text again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ace.core.language import FEATURES, column, search_words

MANY = 20_000
OUTDATED_SHARE = 0.01
"""In books of more than `MANY` texts, the share that may change before the weights are recomputed."""


def terms(text: str) -> list[str]:
    """List what a masked text is compared by: its words, counted twice, and its word pairs.

    Examples:
        >>> terms("Mail name files")
        ['mail', 'name', 'files', 'mail', 'name', 'files', 'mail name', 'name files']
    """
    found = search_words(text)
    return [*found, *found, *(f"{a} {b}" for a, b in pairwise(found))]


class _Postings(NamedTuple):
    """For each column the rows that have it, and their values."""

    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[np.float32]


def _counted(text: str, hidden: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Count the columns of a text's terms and of its hidden words, in order, and how often each stands there."""
    counted = Counter([column(term) for term in terms(text)] + list(hidden))
    columns = np.fromiter(counted, dtype=np.int32, count=len(counted))
    order = np.argsort(columns)
    return columns[order], np.fromiter(counted.values(), dtype=np.float32, count=len(counted))[order]


class LexicalIndex:
    """Cosine of sublinear TF-IDF weights (Salton and Buckley, 1988), as scikit-learn's `TfidfVectorizer` has it.

    Terms are hashed, as its `HashingVectorizer` does, so that a text may have words of which only the columns are known. The
    counts of a text are taken once. Document frequencies and weights follow from the counts that are there, so that the
    same texts give the same ranking in whatever order they came. Threads take turns outside.

    Examples:
        >>> index = LexicalIndex()
        >>> index.put({4: "refund an order", 9: "cancel a meeting"})
        >>> index.search("Refund order 17", 5)[0]
        [4]
    """

    def __init__(self) -> None:
        self._counts: dict[int, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}
        self._changed = 1
        self._numbers = np.zeros(0, dtype=np.int64)
        self._idf = np.zeros(0, dtype=np.float32)
        self._postings = _Postings(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))

    def __len__(self) -> int:
        return len(self._counts)

    def put(self, texts: Mapping[int, str], hidden: Mapping[int, Sequence[int]] | None = None) -> None:
        """Add texts by number, in place of older ones, with the columns of words that do not stand in them."""
        counts = {number: _counted(text, (hidden or {}).get(number, ())) for number, text in texts.items()}
        self._counts |= {number: (columns, 1 + np.log(found)) for number, (columns, found) in counts.items()}
        self._changed += len(texts)

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget texts; unknown numbers are fine."""
        for number in numbers:
            self._changed += self._counts.pop(number, None) is not None

    def known(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Return those of some columns that any text has."""
        self._weigh_when_due()
        starts = self._postings.starts
        return tuple(c for c in columns if len(starts) > 1 and starts[c] < starts[c + 1])

    def search(
        self, query: str, depth: int, only: Sequence[int] | None = None, hidden: Sequence[int] = ()
    ) -> tuple[list[int], list[float]]:
        """Find the numbers of the texts that share words with the query, best first, and their scores.

        Args:
            query: Any text.
            depth: How many at most.
            only: Numbers that may come; None for all.
            hidden: Columns of words that do not stand in the query as it is masked.
        """
        self._weigh_when_due()
        columns, found = _counted(query, hidden)
        if not len(self._numbers) or not len(columns):
            return [], []
        weights = (1 + np.log(found)) * self._idf[columns]
        starts, rows, values = self._postings
        parts = [slice(start, end) for start, end in zip(starts[columns], starts[columns + 1], strict=True)]
        # one pass over all postings: adding them term by term takes twice as long
        where = np.concatenate([rows[part] for part in parts])
        products = np.concatenate([weight * values[part] for weight, part in zip(weights, parts, strict=True)])
        numbers = self._numbers
        scores = np.bincount(where, products, len(numbers)).astype(np.float32)
        if only is not None:
            scores[~np.isin(numbers, only)] = 0
        norm = float(np.sqrt((weights**2).sum())) or 1.0
        # the best ones by score, equal ones by number
        least = np.partition(scores, -depth)[-depth] if len(scores) > depth else 0.0
        hits = np.flatnonzero(scores >= least if least > 0 else scores > 0)
        order = hits[np.lexsort((numbers[hits], -scores[hits]))][:depth]
        return numbers[order].tolist(), (scores[order] / norm).tolist()

    def _weigh_when_due(self) -> None:
        if self._changed > (OUTDATED_SHARE * len(self._counts) if len(self._counts) > MANY else 0):
            self._weigh()

    def _weigh(self) -> None:
        """Compute weights from the counts: idf over the texts that are there, rows of length one, ready to be read by
        column."""
        self._changed = 0
        self._numbers = np.fromiter(self._counts, dtype=np.int64, count=len(self._counts))
        if not self._counts:
            return
        columns = np.concatenate([columns for columns, _ in self._counts.values()])
        values = np.concatenate([values for _, values in self._counts.values()])
        sizes = np.fromiter((len(columns) for columns, _ in self._counts.values()), np.int64, len(self._counts))
        frequency = np.bincount(columns, minlength=FEATURES)
        self._idf = (np.log((1 + len(sizes)) / (1 + frequency)) + 1).astype(np.float32)
        values = values * self._idf[columns]
        rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        lengths = np.sqrt(np.bincount(rows, values**2, len(sizes))).astype(np.float32)
        values /= np.maximum(lengths, 1e-12)[rows]
        keys = (columns.astype(np.int64) << 32) | np.arange(len(columns))  # numbers are sorted faster than by argsort
        keys.sort()
        order = keys & 0xFFFFFFFF
        self._postings = _Postings(np.concatenate([[0], np.cumsum(frequency)]), rows[order], values[order])
