"""Nearest vectors with FAISS: an exact scan, and beside it a graph of neighbours (HNSW) in a very large book."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT = 100_000
"""Up to so many vectors an exact scan takes some tens of milliseconds, and finds everything."""
LARGE = "IDMap2,HNSW32"
"""FAISS's index of a larger book (Malkov and Yashunin, TPAMI 2020)."""
SEARCHED = 512
"""Candidates that it keeps while it looks for a vector's neighbours."""
CHANGED = 0.1
"""Share of the vectors that may come or go before it is made again."""
DIGITS = 5
"""Inner products that agree in this many decimals are equal: the last bits depend on what was embedded along."""
TIES = 16
"""How many more are fetched than are asked for, so that of equal ones the same come."""
Found = tuple[NDArray[np.float32], NDArray[np.int64]]


class DenseIndex:
    """Inner-product search over unit vectors; ids are the bullets' numbers. Threads take turns outside.

    Args:
        dimension: Of the vectors.

    Examples:
        >>> index = DenseIndex(2)
        >>> index.put([7, 8], np.eye(2, dtype=np.float32))
        >>> index.search(np.array([0.1, 0.9], dtype=np.float32), 1)[0]
        [8]
    """

    def __init__(self, dimension: int) -> None:
        import faiss

        self._faiss: Any = faiss
        self.dimension = dimension
        self._flat: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self._graph: Any = None
        """Of a large book; made when it is searched."""
        self._since: set[int] = set()
        """Ids that came, changed or went since the graph was made: it does not answer for these."""

    def __len__(self) -> int:
        return int(self._flat.ntotal)

    @property
    def kind(self) -> Literal["exact", "approximate"]:
        """How it searches now."""
        return "approximate" if len(self) > EXACT_LIMIT else "exact"

    def put(self, numbers: Sequence[int] | NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors, in place of older ones with the same numbers; shape (len(numbers), dimension)."""
        if len(numbers):
            self.remove(numbers)
            ids = np.ascontiguousarray(numbers, dtype=np.int64)
            self._flat.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), ids)

    def remove(self, numbers: Sequence[int] | NDArray[np.int64]) -> None:
        """Forget vectors; unknown numbers are fine."""
        if not len(numbers):
            return
        ids = np.ascontiguousarray(numbers, dtype=np.int64)
        if len(self):
            self._flat.remove_ids(self._faiss.IDSelectorBatch(ids))
        if self._graph is not None:
            self._since.update(ids.tolist())

    def search(
        self, vector: NDArray[np.float32], depth: int, only: Sequence[int] | None = None
    ) -> tuple[list[int], list[float]]:
        """Find the numbers of the nearest vectors, best first, and their inner products.

        Of equal ones the newest comes first: FAISS gives them as they lie in the index, and that depends on which process
        put what into it when.

        Args:
            vector: Shape (dimension,).
            depth: How many at most.
            only: Numbers that may come; None for all.
        """
        if not len(self):
            return [], []
        row = np.ascontiguousarray(vector[None, :], dtype=np.float32)
        wanted = min(depth + TIES, len(self))  # equal ones may stand on both sides of the last place
        threads = self._faiss.omp_get_max_threads()
        try:
            self._faiss.omp_set_num_threads(1)  # threads cost more than they bring to one query
            if only is not None:
                scores, numbers = self._scan(row, wanted, np.asarray(only, dtype=np.int64))
            elif self.kind == "exact":
                scores, numbers = self._flat.search(row, wanted)
            else:
                scores, numbers = self._walk(row, wanted)
        finally:
            self._faiss.omp_set_num_threads(threads)
        numbers, scores = numbers[numbers >= 0], scores[numbers >= 0]
        order = np.lexsort((-numbers, -np.round(scores, DIGITS)))[:depth]
        return numbers[order].tolist(), scores[order].tolist()

    def _walk(self, row: NDArray[np.float32], wanted: int) -> Found:
        """Find the nearest by way of the graph, and of what has changed since it was made."""
        if self._graph is None or len(self._since) > CHANGED * len(self):
            self._graph = self._faiss.index_factory(self.dimension, LARGE, self._faiss.METRIC_INNER_PRODUCT)
            ids = self._faiss.vector_to_array(self._flat.id_map)
            self._graph.add_with_ids(self._flat.index.reconstruct_n(0, len(ids)), ids)
            self._since.clear()
        late = np.fromiter(self._since, dtype=np.int64, count=len(self._since))
        changed = self._faiss.IDSelectorBatch(late)
        others = self._faiss.IDSelectorNot(changed)
        walking = self._faiss.SearchParametersHNSW(sel=others, efSearch=max(SEARCHED, wanted))
        found = self._graph.search(row, wanted, params=walking)
        more = self._scan(row, wanted, late)
        return np.hstack([found[0], more[0]]), np.hstack([found[1], more[1]])

    def _scan(self, row: NDArray[np.float32], wanted: int, numbers: NDArray[np.int64]) -> Found:
        """Find the nearest of some."""
        chosen = self._faiss.IDSelectorBatch(numbers)
        return self._flat.search(row, wanted, params=self._faiss.SearchParameters(sel=chosen))
