"""Nearest vectors with FAISS: an exact scan, and beside it a graph of neighbours (HNSW) in a very large book."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal, cast

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
Found = tuple[NDArray[np.int64], NDArray[np.float32]]


class DenseIndex:
    """Inner-product search over unit vectors; ids are the bullets' numbers.

    Args:
        dimension: Of the vectors.
        per_number: Ids that share one place of an `allowed` mask: 1, or 16 where ids are numbers times 16 plus something.

    Examples:
        >>> index = DenseIndex(2)
        >>> index.put([7, 8], np.eye(2, dtype=np.float32))
        >>> index.search(np.array([0.1, 0.9], dtype=np.float32), 1)[0]
        [8]
    """

    def __init__(self, dimension: int, per_number: Literal[1, 16] = 1) -> None:
        import faiss

        self._faiss: Any = faiss
        self.dimension = dimension
        self.per_number = per_number
        self._flat: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self._graph: Any = None
        """Of a large book; made when it is searched."""
        self._since: set[int] = set()
        """Ids that came, changed or went since the graph was made: for these the exact scan answers."""
        self._lock = threading.Lock()

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
            with self._lock:
                ids = np.ascontiguousarray(numbers, dtype=np.int64)
                self._flat.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), ids)

    def remove(self, numbers: Sequence[int] | NDArray[np.int64]) -> None:
        """Forget vectors; unknown numbers are fine."""
        if not len(numbers):
            return
        ids = np.ascontiguousarray(numbers, dtype=np.int64)
        with self._lock:
            if len(self):
                self._flat.remove_ids(self._faiss.IDSelectorBatch(ids))
            if self._graph is not None:
                self._since.update(ids.tolist())

    def search(
        self, vector: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[list[int], list[float]]:
        """The numbers of the nearest vectors, best first, and their inner products.

        Args:
            vector: Shape (dimension,).
            depth: How many at most.
            allowed: By number, whether it may come; None allows all.
        """
        numbers, scores = self.search_many(vector[None, :], depth, allowed)
        kept = numbers[0] >= 0
        return numbers[0][kept].tolist(), scores[0][kept].tolist()

    def search_many(self, vectors: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None = None) -> Found:
        """`search` for many: shapes (len(vectors), depth), padded with the number -1.

        Of equal ones the newest comes first: FAISS gives them as they lie in the index, and that depends on which process
        put what into it when.
        """
        depth = min(depth, len(self))
        if not depth or (allowed is not None and not allowed.any()):
            shape = (len(vectors), 0)
            return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.float32)
        may = None if allowed is None else np.repeat(allowed, self.per_number)
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        with self._lock:
            threads = self._faiss.omp_get_max_threads()
            try:
                if len(rows) == 1:  # threads cost more than they bring to one query
                    self._faiss.omp_set_num_threads(1)
                wanted = min(depth + TIES, len(self))  # equal ones may stand on both sides of the last place
                # where few may come, a graph leads to others
                exact = self.kind == "exact" or (allowed is not None and allowed.mean() < CHANGED)
                numbers, scores = self._scan(rows, wanted, may) if exact else self._walk(rows, wanted, may)
            finally:
                self._faiss.omp_set_num_threads(threads)
        rounded = cast(Any, np.round(np.maximum(scores, -9.0), DIGITS))
        order = np.lexsort((-numbers, -rounded), axis=-1)[:, :depth]
        return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(scores, order, axis=1)

    def _scan(self, rows: NDArray[np.float32], wanted: int, may: NDArray[np.bool_] | None) -> Found:
        """The nearest of all vectors whose ids may come."""
        options: dict[str, Any] = {}
        if may is not None:
            bits = np.packbits(may, bitorder="little")
            chosen = self._faiss.IDSelectorBitmap(len(may), self._faiss.swig_ptr(bits))
            options["params"] = self._faiss.SearchParameters(sel=chosen)
        scores, numbers = self._flat.search(rows, wanted, **options)
        return numbers, scores

    def _walk(self, rows: NDArray[np.float32], wanted: int, may: NDArray[np.bool_] | None) -> Found:
        """The same by way of the graph, and by an exact scan of what has changed since it was made."""
        if self._graph is None or len(self._since) > CHANGED * len(self):
            self._graph = self._faiss.index_factory(self.dimension, LARGE, self._faiss.METRIC_INNER_PRODUCT)
            ids = self._faiss.vector_to_array(self._flat.id_map)
            self._graph.add_with_ids(self._flat.index.reconstruct_n(0, len(ids)), ids)
            self._since.clear()
        changed = np.fromiter(self._since, dtype=np.int64, count=len(self._since))
        size = 1 + max(int(self._faiss.vector_to_array(self._graph.id_map).max()), int(changed.max(initial=0)))
        unchanged = np.ones(max(size, 0 if may is None else len(may)), dtype=np.bool_)
        if may is not None:
            unchanged[: len(may)] = may
            unchanged[len(may) :] = False
        late = np.zeros_like(unchanged)
        late[changed] = unchanged[changed]
        unchanged[changed] = False
        bits = np.packbits(unchanged, bitorder="little")
        chosen = self._faiss.IDSelectorBitmap(len(unchanged), self._faiss.swig_ptr(bits))
        options = self._faiss.SearchParametersHNSW(sel=chosen, efSearch=max(SEARCHED, wanted))
        scores, numbers = self._graph.search(rows, wanted, params=options)
        if len(changed):
            more, their_scores = self._scan(rows, wanted, late)
            numbers, scores = np.hstack([numbers, more]), np.hstack([scores, their_scores])
        return numbers, scores
