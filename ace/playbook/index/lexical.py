"""Bullets by their words: TF-IDF over words and word pairs, kept up to date without reading every text again."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ace.playbook.index.dense import EXACT_LIMIT

FEATURES = 2**20
"""Words and word pairs are hashed to this many values."""
OUTDATED_SHARE = 0.01
"""In books of more than `EXACT_LIMIT` texts, the share that may change before the weights are recomputed."""

_WORD = re.compile(r"\b\w\w+\b")


def terms(text: str) -> list[str]:
    """What a masked text is compared by: its words, counted twice, and its word pairs.

    Example:
        >>> terms("Mail name number files")
        ['mail', 'name', 'number', 'files', 'mail', 'name', 'number', 'files', 'mail name', 'name number', 'number files']
    """
    words = _WORD.findall(text.lower())
    return [*words, *words, *(f"{a} {b}" for a, b in pairwise(words))]


COMMON_SHARE = 6
"""A term that one text in this many has is kept as a whole column too: adding that is faster than its postings."""
COMMON_NUMBERS = 1_000_000
"""At most this many numbers of whole columns are kept: 4 MB."""


class LexicalIndex:
    """Cosine of sublinear TF-IDF weights (Salton and Buckley, 1988), as scikit-learn's `TfidfVectorizer` has it.

    The counts of a text are taken once. Document frequencies and weights follow from the counts that are there, so that
    the same texts give the same ranking in whatever order they came.

    Example:
        >>> index = LexicalIndex()
        >>> index.put({4: "refund an order", 9: "cancel a meeting"})
        >>> index.search("Refund order 17", 5)[0]
        [4]
    """

    def __init__(self, per_number: int = 1) -> None:
        # an agent without a playbook need not load scikit-learn and SciPy
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.utils import murmurhash3_32  # pyright: ignore[reportUnknownVariableType]

        self._hash: Any = murmurhash3_32
        self._vectorizer: Any = HashingVectorizer(
            analyzer=cast(Any, terms),
            norm=cast(Any, None),
            alternate_sign=False,
            n_features=FEATURES,
            dtype=cast(Any, np.float32),
        )
        self._per_number = per_number
        self._counts: dict[int, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}
        self._changed = 1
        self._numbers = np.zeros(0, dtype=np.int64)
        self._idf = np.zeros(0, dtype=np.float32)
        self._columns: Any = None
        self._common: dict[int, NDArray[np.float32]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._counts)

    def put(self, texts: Mapping[int, str]) -> None:
        """Add texts by number, in place of older ones."""
        if not texts:
            return
        rows: Any = self._vectorizer.transform(texts.values())
        with self._lock:
            for row, number in enumerate(texts):
                part = slice(rows.indptr[row], rows.indptr[row + 1])
                self._counts[number] = (rows.indices[part].copy(), 1 + np.log(rows.data[part]))
            self._changed += len(texts)

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget texts; unknown numbers are fine."""
        with self._lock:
            for number in numbers:
                self._changed += self._counts.pop(number, None) is not None

    def search(self, query: str, depth: int, allowed: NDArray[np.bool_] | None = None) -> tuple[list[int], list[float]]:
        """The numbers of the texts that share words with the query, best first, and their scores.

        Args:
            query: Any text.
            depth: How many at most.
            allowed: By number, whether it may come; None allows all.
        """
        with self._lock:
            if self._changed > (OUTDATED_SHARE * len(self._counts) if len(self._counts) > EXACT_LIMIT else 0):
                self._weigh()
            if not len(self._numbers):
                return [], []
            counted = Counter(self._column(term) for term in terms(query))
            columns = np.fromiter(counted, dtype=np.int64, count=len(counted))
            weights = (1 + np.log(np.fromiter(counted.values(), dtype=np.float32, count=len(counted)))) * self._idf[
                columns
            ]
            indptr, rows, values = self._columns.indptr, self._columns.indices, self._columns.data
            scores = np.zeros(len(self._numbers), dtype=np.float32)
            parts: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
            for column, weight in zip(columns.tolist(), weights, strict=True):
                if column in self._common:
                    scores += weight * self._common[column]
                elif indptr[column] < indptr[column + 1]:
                    part = slice(indptr[column], indptr[column + 1])
                    parts.append((rows[part], weight * values[part]))
            if parts:  # one pass over all postings: adding them term by term takes twice as long
                where, products = (np.concatenate(column) for column in zip(*parts, strict=True))
                scores += np.bincount(where, products, len(scores))
            numbers = self._numbers
        norm = float(np.sqrt((weights**2).sum())) or 1.0
        if allowed is not None:
            places = numbers // self._per_number
            inside = places < len(allowed)
            scores[~inside] = 0
            scores[inside] *= allowed[places[inside]]
        # the best ones by score, equal ones by number
        least = np.partition(scores, -depth)[-depth] if len(scores) > depth else 0.0
        hits = np.flatnonzero(scores >= least if least > 0 else scores > 0)
        order = hits[np.lexsort((numbers[hits], -scores[hits]))][:depth]
        return numbers[order].tolist(), (scores[order] / norm).tolist()

    def _column(self, term: str) -> int:
        """Where scikit-learn's feature hasher counts a term; for one query this is a tenth of the vectorizer's work."""
        return abs(int(self._hash(term, 0))) % FEATURES

    def _weigh(self) -> None:
        """Weights from the counts: idf over the texts that are there, rows of length one, ready to be read by column."""
        import scipy.sparse as sp

        self._changed = 0
        self._numbers = np.fromiter(self._counts, dtype=np.int64, count=len(self._counts))
        if not self._counts:
            return
        indices = np.concatenate([columns for columns, _ in self._counts.values()])
        data = np.concatenate([values for _, values in self._counts.values()]).astype(np.float32)
        indptr = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in self._counts.values()])])
        frequency = np.bincount(indices, minlength=FEATURES)
        self._idf = (np.log((1 + len(self._counts)) / (1 + frequency)) + 1).astype(np.float32)
        matrix: Any = sp.csr_matrix((data * self._idf[indices], indices, indptr), shape=(len(self._counts), FEATURES))
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        matrix.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(indptr))
        self._columns = matrix.tocsc()
        most = np.argsort(-frequency, kind="stable")[: COMMON_NUMBERS // len(self._counts)]
        self._common = {
            int(column): self._columns[:, [column]].toarray().ravel()
            for column in most[frequency[most] * COMMON_SHARE >= len(self._counts)]
        }

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the counts to a file."""
        with self._lock:
            sizes = [len(columns) for columns, _ in self._counts.values()]
            with path.open("wb") as file:
                np.savez(
                    file,
                    numbers=np.fromiter(self._counts, dtype=np.int64, count=len(self._counts)),
                    sizes=np.asarray(sizes, dtype=np.int64),
                    indices=np.concatenate([c for c, _ in self._counts.values()] or [np.zeros(0, dtype=np.int32)]),
                    values=np.concatenate([v for _, v in self._counts.values()] or [np.zeros(0, dtype=np.float32)]),
                )

    def load(self, path: Path) -> None:
        """Read what `save` wrote; the caller has checked that the file is whole."""
        with np.load(path, allow_pickle=False) as stored:
            numbers, sizes = stored["numbers"], stored["sizes"]
            indices, values = stored["indices"], stored["values"]
        ends = np.cumsum(sizes)
        starts = ends - sizes
        self._counts = {
            int(n): (indices[a:b], values[a:b])
            for n, a, b in zip(numbers.tolist(), starts.tolist(), ends.tolist(), strict=True)
        }
        self._changed = 1 + len(self._counts)
