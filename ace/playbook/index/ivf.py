"""An inverted file (IVF; Jégou et al., TPAMI 2011), tuned on the vectors that it holds."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

TARGET_RECALL = 0.98
"""Of the three nearest, on a sample of the book's own vectors; decides how many lists a search visits."""
MAX_PROBE_SHARE = 0.05
MIN_PROBES = 32
"""A search visits at most this share of the lists, or this many where there are few; more under a filter."""
SAMPLE = 256
BATCH = 65_536
CAPACITY_FACTOR = 1.15
"""Each list has capacity for this many times its vectors."""
TRAINING_PER_LIST = 64
Quantization = Literal["none", "8bit"]
Ids = NDArray[np.int64]
Rows = NDArray[np.float32]


def train_ivf(ids: Ids, rows: Rows, quantization: Quantization) -> tuple[Any, float]:
    """A trained FAISS index over some vectors, and the recall that a sample showed.

    Args:
        ids: Shape (n,).
        rows: Unit vectors, shape (n, dimension).
        quantization: ``"8bit"`` keeps a quarter of the bytes.
    """
    import faiss

    lists, dimension = int(4 * math.sqrt(len(ids))), rows.shape[1]
    quantizer, metric = faiss.IndexFlatIP(dimension), faiss.METRIC_INNER_PRODUCT
    if quantization == "8bit":
        bits = faiss.ScalarQuantizer.QT_8bit
        index = faiss.IndexIVFScalarQuantizer(quantizer, dimension, lists, bits, metric)
    else:
        index = faiss.IndexIVFFlat(quantizer, dimension, lists, metric)
    index.cp.max_points_per_centroid = TRAINING_PER_LIST
    index.cp.min_points_per_centroid = 1  # few points make poor lists, and more probes make up for it
    index.cp.spherical = True
    random = np.random.default_rng(0)
    chosen = random.choice(len(rows), size=min(len(rows), lists * TRAINING_PER_LIST), replace=False)
    untyped: Any = faiss  # its types name torch's, which is not installed
    cast(Any, index).train(rows[np.sort(chosen)])
    index.set_direct_map_type(untyped.DirectMap.Hashtable)  # deletes and updates touch one entry, not all
    _fill(index, ids, rows)
    return index, _tune(index, ids, rows, quantization, random)


def _fill(index: Any, ids: Ids, rows: Rows) -> None:
    import faiss

    parts = [slice(start, start + BATCH) for start in range(0, len(ids), BATCH)]
    lists = np.concatenate([index.quantizer.search(rows[part], 1)[1][:, 0] for part in parts])
    reserve(index, np.bincount(lists, minlength=index.nlist))
    pointer = faiss.swig_ptr
    for part in parts:
        index.add_core(len(ids[part]), pointer(rows[part]), pointer(ids[part]), pointer(lists[part]))


def sizes_of(index: Any) -> Ids:
    """How many vectors there are in each list; shape (lists,)."""
    return np.asarray([index.invlists.list_size(number) for number in range(index.nlist)])


def reserve(index: Any, sizes: Ids) -> None:
    """Reserve capacity in each list; otherwise a full list doubles, and with it the memory of a large book."""
    import faiss

    old, new = index.invlists, faiss.ArrayInvertedLists(index.nlist, index.code_size)
    for number, size in enumerate(sizes.tolist()):
        new.resize(number, int(CAPACITY_FACTOR * size) + 8)
        new.resize(number, 0)  # the capacity stays
        if old.list_size(number):
            new.add_entries(number, old.list_size(number), old.get_ids(number), old.get_codes(number))
    index.replace_invlists(new, True)
    untyped: Any = new
    untyped.this.disown()
    release_memory()


def capacity(count: int) -> int:
    """How many vectors fit into lists that were made for `count`; they do not grow evenly."""
    return int(count * (1 + CAPACITY_FACTOR) / 2)


def _tune(index: Any, ids: Ids, rows: Rows, quantization: Quantization, random: np.random.Generator) -> float:
    """Visit as few lists as find the three nearest neighbours of a sample often enough; how often they do."""
    import faiss

    sample = rows[random.choice(len(rows), size=min(SAMPLE, len(rows)), replace=False)]
    untyped: Any = faiss
    scores, exact = untyped.knn(sample, rows, 4, metric=faiss.METRIC_INNER_PRODUCT)
    # the nearest of all is the vector itself; of equal ones any will do
    wanted, third = ids[exact[:, 1:]], scores[:, 3]
    most = min(index.nlist, max(MIN_PROBES, int(index.nlist * MAX_PROBE_SHARE)))
    probes = 1
    while True:
        index.nprobe = probes
        found_scores, found = index.search(sample, 4)
        hits = (found[:, :, None] == wanted[:, None, :]).any(axis=2).sum(axis=1)
        if quantization == "none":
            hits = np.maximum(hits, (found_scores >= third[:, None] - 1e-5).sum(axis=1) - 1)
        recall = float(np.minimum(hits, 3).mean() / 3)
        if recall >= TARGET_RECALL or probes >= most:
            return recall
        probes = min(2 * probes, most)


def contents(index: Any) -> tuple[Ids, Rows]:
    """Every id with its vector (as it was quantised, if it was)."""
    import faiss

    lists = index.invlists
    parts = [
        faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)).copy()
        for number in range(index.nlist)
        if lists.list_size(number)
    ]
    ids = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    return ids, index.reconstruct_batch(ids)


def release_memory() -> None:
    """Let glibc return what was freed to the system; it would keep the memory of a whole book otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
