"""Nearest vectors with FAISS: exact while a book is small, approximate when it is large, changed without rebuild."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ace.playbook.index.ivf import (
    Ids,
    Quantization,
    Rows,
    capacity,
    contents,
    release_memory,
    reserve,
    sizes_of,
    train_ivf,
)

EXACT_LIMIT = 20_000
"""Up to here an exact scan takes about as long as a search through an inverted file, and finds everything."""
GROWTH = 4
"""The IVF index is retrained when the playbook has grown by this factor."""
DIGITS = 5
"""Inner products that agree in this many decimals are equal: the last bits depend on what was embedded along."""
TIES = 16
"""How many more are fetched than are asked for, so that of equal ones the same come."""


class DenseIndex:
    """Inner-product search over unit vectors; ids are the bullets' numbers.

    Args:
        dimension: Of the vectors.
        quantization: ``"8bit"`` keeps a quarter of the bytes once the book is large.
        per_number: Ids that share one place of an `allowed` mask: 1, or 16 where ids are numbers times 16 plus something.
        exact_limit: From more vectors on the index is approximate. The inverted file is trained in a thread, while the
            index as it is answers.

    Examples:
        >>> index = DenseIndex(2)
        >>> index.put([7, 8], np.eye(2, dtype=np.float32))
        >>> index.search(np.array([0.1, 0.9], dtype=np.float32), 1)[0]
        [8]
    """

    def __init__(
        self,
        dimension: int,
        quantization: Quantization = "none",
        exact_limit: int = EXACT_LIMIT,
        per_number: Literal[1, 16] = 1,
    ) -> None:
        import faiss

        self._faiss: Any = faiss
        self.dimension = dimension
        self.quantization: Quantization = quantization
        self.exact_limit = exact_limit
        self.per_number = per_number
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self.trained_on = 0
        """How many vectors there were when the inverted file was trained; 0 while the index is exact."""
        self.recall: float | None = None
        """What the sample showed when the inverted file was trained."""
        self._capacity = 0
        """How many vectors fit before the lists need more capacity."""
        self._lock = threading.Lock()
        self._trainer: threading.Thread | None = None
        """Sorts the vectors into lists; it ends before the process does."""
        self._since: list[tuple[Ids, Rows | None]] | None = None
        """What was forgotten, and added, since the training began; None while there is none."""

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def kind(self) -> Literal["exact", "approximate"]:
        """How it searches now."""
        return "approximate" if self.trained_on else "exact"

    def put(self, numbers: Sequence[int] | NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors, in place of older ones with the same numbers; shape (len(numbers), dimension)."""
        if not len(numbers):
            return
        ids = np.ascontiguousarray(numbers, dtype=np.int64)
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        with self._lock:
            self._change(ids, rows)
            due = len(self) > max(self.exact_limit, GROWTH * self.trained_on)
            if due and self._trainer is None:
                self._trainer = threading.Thread(target=self._train, args=([*self._contents()],), name="ace-ivf")
                self._since = []
                self._trainer.start()
            trainer = self._trainer if due and len(ids) >= len(self) // 2 else None
        if trainer is not None:  # the first filling of a large book: its old state serves no query
            trainer.join()

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget vectors; unknown numbers are fine."""
        if len(numbers):
            with self._lock:
                self._change(np.ascontiguousarray(numbers, dtype=np.int64))

    def _change(self, ids: Ids, rows: Rows | None = None) -> None:
        """Forget what has these ids, and add vectors in their place."""
        if self._since is not None:
            self._since.append((ids, rows))
        if len(self):
            selector = self._faiss.IDSelectorArray if self.trained_on else self._faiss.IDSelectorBatch
            self._index.remove_ids(selector(ids))
        if rows is None:
            return
        if self.trained_on and len(self) + len(ids) > self._capacity:
            reserve(self._index, sizes_of(self._index))
            self._capacity = capacity(len(self) + len(ids))
        self._index.add_with_ids(rows, ids)

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

    def search_many(
        self, vectors: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`search` for many: shapes (len(vectors), depth), padded with the number -1.

        Of equal ones the newest comes first: FAISS gives them as they lie in the index, and that depends on which process
        put what into it when.
        """
        depth = min(depth, len(self))
        if not depth or (allowed is not None and not allowed.any()):
            shape = (len(vectors), 0)
            return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.float32)
        selector = None
        if allowed is not None:
            packed = self.per_number == 1
            bits = np.packbits(allowed, bitorder="little") if packed else np.where(allowed, 0xFFFF, 0).astype("<u2")
            bits = bits.view(np.uint8)
            selector = self._faiss.IDSelectorBitmap(len(allowed) * self.per_number, self._faiss.swig_ptr(bits))
        with self._lock:
            share = 1.0 if allowed is None else float(allowed.mean())
            options: dict[str, Any] = {} if selector is None else {"params": self._parameters(selector, share)}
            threads = self._faiss.omp_get_max_threads()
            try:
                if len(vectors) == 1:  # threads cost more than they bring to one query
                    self._faiss.omp_set_num_threads(1)
                wanted = min(depth + TIES, len(self))  # equal ones may stand on both sides of the last place
                scores, numbers = self._index.search(np.ascontiguousarray(vectors, dtype=np.float32), wanted, **options)
            finally:
                self._faiss.omp_set_num_threads(threads)
        rounded = cast(Any, np.round(np.maximum(scores, -9.0), DIGITS))
        order = np.lexsort((-numbers, -rounded), axis=-1)[:, :depth]
        return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(scores, order, axis=1)

    def _parameters(self, selector: Any, share: float) -> Any:
        if not self.trained_on:
            return self._faiss.SearchParameters(sel=selector)
        # the fewer vectors may come, the further away the nearest ones are
        probes = min(self._index.nlist, math.ceil(self._index.nprobe / max(share, 1e-6)))
        return self._faiss.SearchParametersIVF(sel=selector, nprobe=probes)

    # -- large books -------------------------------------------------------------------------------------------------

    def _train(self, handed: list[Any]) -> None:
        """Sort everything into lists, in a thread, while the old index answers; then apply the changes made meanwhile."""
        ids, rows = handed
        handed.clear()  # a thread keeps its arguments until its end
        try:
            index, recall = train_ivf(ids, rows, self.quantization)
        except BaseException:
            with self._lock:
                self._since = self._trainer = None
            raise
        with self._lock:
            since, self._since = self._since or [], None
            self._index, self.trained_on, self.recall, self._capacity = index, len(ids), recall, capacity(len(ids))
            for changed, fresh in since:
                self._change(changed, fresh)
            self._trainer = None
        del rows
        release_memory()

    def wait(self) -> None:
        """Wait until no training is going on."""
        trainer = self._trainer
        if trainer is not None:
            trainer.join()

    def _contents(self) -> tuple[Ids, Rows]:
        if self.trained_on:
            return contents(self._index)
        ids = self._faiss.vector_to_array(self._index.id_map)
        return ids, self._index.index.reconstruct_n(0, len(ids))

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the index to a file."""
        self.wait()
        with self._lock:
            self._faiss.write_index(self._index, str(path))

    def load(self, path: Path, trained_on: int) -> None:
        """Read what `save` wrote; the caller has checked that the file is whole."""
        self._index = self._faiss.read_index(str(path))
        self.trained_on = trained_on
        if trained_on:  # a full list doubles; while few do, that is cheaper than reserving capacity in all
            self._capacity = len(self) + self._index.nlist // 8
