"""Nearest vectors with FAISS: exact while a book is small, approximate when it is large, changed without rebuild."""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT = 20_000
"""Up to here an exact scan takes about as long as a search through cells, and finds everything."""
GROWTH = 4
"""The cells are trained anew when the book has grown by this factor since."""
TARGET_RECALL = 0.98
"""Of the three nearest, on a sample of the book's own vectors; decides how many cells a search visits."""
MAX_PROBE_SHARE = 0.05
MIN_PROBES = 32
"""A search visits at most this share of the cells, or this many where there are few; more under a filter."""
SAMPLE = 256
BATCH = 65_536
ROOM = 1.15
"""Each cell has room for so many times its vectors."""
TRAINING_PER_CELL = 64
Quantization = Literal["none", "8bit"]


class DenseIndex:
    """Inner-product search over unit vectors; ids are the bullets' numbers.

    Args:
        dimension: Of the vectors.
        quantization: ``"8bit"`` keeps a quarter of the bytes once the book is large.
        exact_limit: From more vectors on the index is approximate: an inverted file (Jégou et al., TPAMI 2011) whose
            number of visited cells is chosen on the book's own vectors.

    Example:
        >>> index = DenseIndex(2)
        >>> index.put([7, 8], np.eye(2, dtype=np.float32))
        >>> index.search(np.array([0.1, 0.9], dtype=np.float32), 1)[0]
        [8]
    """

    def __init__(self, dimension: int, quantization: Quantization = "none", exact_limit: int = EXACT_LIMIT) -> None:
        import faiss

        self._faiss = faiss
        self.dimension = dimension
        self.quantization: Quantization = quantization
        self.exact_limit = exact_limit
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self.trained_on = 0
        """How many vectors there were when the cells were trained; 0 while the index is exact."""
        self.recall: float | None = None
        """What the sample showed when the cells were trained."""
        self._room_for = 0
        """So many vectors fit before the cells need more room."""
        self._lock = threading.Lock()

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
            self._remove(ids)
            due = len(self) + len(ids) > max(self.exact_limit, GROWTH * self.trained_on)
            if due:
                self._train(ids, rows)
                _give_back()
            else:
                if self.trained_on and len(self) + len(ids) > self._room_for:
                    lists = self._index.invlists
                    sizes = np.asarray([lists.list_size(cell) for cell in range(self._index.nlist)])
                    self._make_room(self._index, sizes, len(self) + len(ids))
                self._index.add_with_ids(rows, ids)

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget vectors; unknown numbers are fine."""
        if len(numbers):
            with self._lock:
                self._remove(np.ascontiguousarray(numbers, dtype=np.int64))

    def _remove(self, ids: NDArray[np.int64]) -> None:
        if not len(self):
            return
        selector = self._faiss.IDSelectorArray if self.trained_on else self._faiss.IDSelectorBatch
        self._index.remove_ids(selector(ids))

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
        """`search` for many: shapes (len(vectors), depth), padded with the number -1."""
        depth = min(depth, len(self))
        if not depth or (allowed is not None and not allowed.any()):
            shape = (len(vectors), 0)
            return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.float32)
        selector = None
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            selector = self._faiss.IDSelectorBitmap(len(allowed), self._faiss.swig_ptr(bits))
        with self._lock:
            options = {} if selector is None else {"params": self._parameters(selector, float(allowed.mean()))}
            threads = self._faiss.omp_get_max_threads()
            try:
                if (
                    len(vectors) == 1
                ):  # threads cost more than they bring to one query, above all beside busy neighbours
                    self._faiss.omp_set_num_threads(1)
                scores, numbers = self._index.search(np.ascontiguousarray(vectors, dtype=np.float32), depth, **options)
            finally:
                self._faiss.omp_set_num_threads(threads)
        return numbers, scores

    def _parameters(self, selector: Any, share: float) -> Any:
        if not self.trained_on:
            return self._faiss.SearchParameters(sel=selector)
        # the fewer vectors may come, the further away the nearest ones are
        probes = min(self._index.nlist, math.ceil(self._index.nprobe / max(share, 1e-6)))
        return self._faiss.SearchParametersIVF(sel=selector, nprobe=probes)

    # -- large books -------------------------------------------------------------------------------------------------

    def _train(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Sort everything into cells, and choose how many of them a search visits."""
        if len(self):
            old_ids, old_rows = self._contents()
            ids, rows = np.concatenate([old_ids, ids]), np.concatenate([old_rows, rows])
        cells = int(4 * math.sqrt(len(ids)))
        quantizer = self._faiss.IndexFlatIP(self.dimension)
        if self.quantization == "8bit":
            bits = self._faiss.ScalarQuantizer.QT_8bit
            metric = self._faiss.METRIC_INNER_PRODUCT
            index = self._faiss.IndexIVFScalarQuantizer(quantizer, self.dimension, cells, bits, metric)
        else:
            index = self._faiss.IndexIVFFlat(quantizer, self.dimension, cells, self._faiss.METRIC_INNER_PRODUCT)
        index.cp.max_points_per_centroid = TRAINING_PER_CELL
        index.cp.min_points_per_centroid = 1  # few points make poor cells, and more probes make up for it
        index.cp.spherical = True
        random = np.random.default_rng(0)
        chosen = random.choice(len(rows), size=min(len(rows), cells * TRAINING_PER_CELL), replace=False)
        index.train(rows[np.sort(chosen)])
        index.set_direct_map_type(self._faiss.DirectMap.Hashtable)  # deletes and updates touch one entry, not all
        self._fill(index, ids, rows)
        self._index, self.trained_on = index, len(ids)
        self._tune(ids, rows, random)

    def _fill(self, index: Any, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Sort vectors into their cells."""
        parts = [slice(start, start + BATCH) for start in range(0, len(ids), BATCH)]
        cells = np.concatenate([index.quantizer.search(rows[part], 1)[1][:, 0] for part in parts])
        self._make_room(index, np.bincount(cells, minlength=index.nlist), len(ids))
        pointer = self._faiss.swig_ptr
        for part in parts:
            index.add_core(len(ids[part]), pointer(rows[part]), pointer(ids[part]), pointer(cells[part]))

    def _make_room(self, index: Any, sizes: NDArray[np.int64], count: int) -> None:
        """Give each cell its room and some more; left alone, a full cell doubles, and with it the memory of a large book."""
        old, new = index.invlists, self._faiss.ArrayInvertedLists(index.nlist, index.code_size)
        for cell, size in enumerate(sizes.tolist()):
            new.resize(cell, int(ROOM * size) + 8)
            new.resize(cell, 0)  # the room stays
            if old.list_size(cell):
                new.add_entries(cell, old.list_size(cell), old.get_ids(cell), old.get_codes(cell))
        index.replace_invlists(new, True)
        new.this.disown()
        self._room_for = int(count * (1 + ROOM) / 2)  # cells do not grow evenly
        _give_back()

    def _tune(self, ids: NDArray[np.int64], rows: NDArray[np.float32], random: np.random.Generator) -> None:
        """Visit as few cells as find the three nearest neighbours of a sample often enough."""
        sample = rows[random.choice(len(rows), size=min(SAMPLE, len(rows)), replace=False)]
        scores, exact = self._faiss.knn(sample, rows, 4, metric=self._faiss.METRIC_INNER_PRODUCT)
        # the nearest of all is the vector itself; of equal ones any will do
        wanted, third = ids[exact[:, 1:]], scores[:, 3]
        most = min(self._index.nlist, max(MIN_PROBES, int(self._index.nlist * MAX_PROBE_SHARE)))
        probes = 1
        while True:
            self._index.nprobe = probes
            found_scores, found = self._index.search(sample, 4)
            hits = (found[:, :, None] == wanted[:, None, :]).any(axis=2).sum(axis=1)
            if self.quantization == "none":
                hits = np.maximum(hits, (found_scores >= third[:, None] - 1e-5).sum(axis=1) - 1)
            self.recall = float(np.minimum(hits, 3).mean() / 3)
            if self.recall >= TARGET_RECALL or probes >= most:
                return
            probes = min(2 * probes, most)

    def _contents(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Every id with its vector (as it was quantised, if it was)."""
        if not self.trained_on:
            ids = self._faiss.vector_to_array(self._index.id_map)
            return ids, self._index.index.reconstruct_n(0, len(ids))
        lists = self._index.invlists
        parts = [
            self._faiss.rev_swig_ptr(lists.get_ids(i), lists.list_size(i)).copy()
            for i in range(self._index.nlist)
            if lists.list_size(i)
        ]
        ids = np.concatenate(parts)
        return ids, self._index.reconstruct_batch(ids)

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the index to a file."""
        with self._lock:
            self._faiss.write_index(self._index, str(path))

    def load(self, path: Path, trained_on: int) -> None:
        """Read what `save` wrote; the caller has checked that the file is whole."""
        self._index = self._faiss.read_index(str(path))
        self.trained_on = trained_on
        if trained_on:  # a full cell doubles; while few do, that is cheaper than making room in all
            self._room_for = len(self) + self._index.nlist // 8


def _give_back() -> None:
    """Let glibc return what was freed to the system; it would keep the memory of a whole book otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
