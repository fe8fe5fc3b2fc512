"""Two ways to find bullets by text: dense vectors in FAISS, and words weighted by TF-IDF."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


class DenseIndex:
    """Exact inner-product search over unit vectors; ids are the bullets' numbers. Deletes without rebuild."""

    def __init__(self, dimension: int) -> None:
        import faiss

        self._faiss = faiss
        self._index = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def put(self, numbers: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Add vectors, in place of older ones with the same numbers."""
        if not len(numbers):
            return
        ids = np.asarray(numbers, dtype=np.int64)
        with self._lock:
            self._index.remove_ids(ids)
            self._index.add_with_ids(np.ascontiguousarray(vectors), ids)

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget vectors; unknown numbers are fine."""
        if numbers:
            with self._lock:
                self._index.remove_ids(np.asarray(numbers, dtype=np.int64))

    def search(self, vector: NDArray[np.float32], depth: int, allowed: Sequence[int] | None) -> list[int]:
        """The numbers of the nearest vectors, best first.

        Args:
            vector: Shape (dimension,).
            depth: How many at most.
            allowed: Only these numbers may come; None allows all.
        """
        if not len(self) or (allowed is not None and not len(allowed)):
            return []
        options = {}
        if allowed is not None:
            selector = self._faiss.IDSelectorBatch(np.asarray(allowed, dtype=np.int64))
            options["params"] = self._faiss.SearchParameters(sel=selector)
        with self._lock:
            _, ids = self._index.search(vector[None, :], min(depth, len(self)), **options)
        return [int(i) for i in ids[0] if i >= 0]


class LexicalIndex:
    """Sparse TF-IDF over words and word pairs (scikit-learn), refitted when the texts changed."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._numbers = np.asarray(list(texts), dtype=np.int64)
        self._row = {number: row for row, number in enumerate(texts)}
        self._vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        try:
            self._matrix = self._vectorizer.fit_transform(texts.values()) if texts else None
        except ValueError:  # no text holds a word
            self._matrix = None

    def search(self, query: str, depth: int, allowed: Sequence[int] | None) -> list[int]:
        """The numbers of the texts that share words with the query, best first."""
        if self._matrix is None:
            return []
        scores = (self._matrix @ self._vectorizer.transform([query]).T).toarray().ravel()
        rows = np.arange(len(scores)) if allowed is None else np.asarray([self._row[n] for n in allowed], dtype=int)
        kept = scores[rows]
        order = np.argsort(-kept, kind="stable")[:depth]
        return [int(self._numbers[rows[i]]) for i in order if kept[i] > 0]
