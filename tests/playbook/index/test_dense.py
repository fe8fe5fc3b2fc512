"""The dense index: exact, and approximate in a very large book."""

import faiss
import numpy as np

from ace.playbook.index import dense
from ace.playbook.index.dense import TIES, DenseIndex


def clustered(n, dimension=32, clusters=40, seed=0):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dimension))
    rows = centres[random.integers(clusters, size=n)] + 0.3 * random.normal(size=(n, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_a_large_index_becomes_approximate_and_stays_right(monkeypatch):
    monkeypatch.setattr(dense, "EXACT_LIMIT", 2_000)
    rows, exact = clustered(6_000), faiss.IndexIDMap2(faiss.IndexFlatIP(32))
    index = DenseIndex(32)
    for start in range(0, len(rows), 1_000):
        index.put(np.arange(start, start + 1_000), rows[start : start + 1_000])
    assert index.kind == "approximate"
    index.search(rows[0], 1)  # from now on there is a graph, which has to follow
    gone, moved = np.arange(0, 6_000, 70), np.arange(1, 6_000, 70)
    index.remove(gone)
    index.put(moved, rows[moved][::-1])
    kept = np.setdiff1d(np.arange(6_000), gone)
    rows[moved] = rows[moved][::-1]
    exact.add_with_ids(rows[kept], kept)
    hits = 0
    for query in (*clustered(100, seed=5), *rows[moved[:20]]):
        near, _ = index.search(query, 3)
        _, true = exact.search(query[None, :], 3)
        assert not set(near) & set(gone.tolist())
        hits += len(set(near) & set(true[0].tolist()))
    assert hits >= 342  # 95 % of 360
    assert len(index) == 6_000 - len(gone)
    index.put(np.arange(6_000, 7_000), clustered(1_000, seed=9))  # so many that it is made again
    assert index.search(rows[1_234], 1)[0] == [1_234]


def test_equal_vectors_come_newest_first_in_whatever_order_they_were_put():
    rows = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[1:TIES] = rows[0] + np.random.default_rng(1).normal(scale=1e-8, size=(TIES - 1, 8)).astype(np.float32)
    orders = []
    for seed in range(5):
        index = DenseIndex(8)
        for i in np.random.default_rng(seed).permutation(30):
            index.put([int(i)], rows[i : i + 1])
        orders.append(index.search(rows[0], 5)[0])
    assert orders == [[15, 14, 13, 12, 11]] * 5


def test_inner_products_that_agree_in_five_decimals_are_equal():
    index = DenseIndex(2)
    index.put([1, 2, 3], np.array([[0.600012, 0.8], [0.600002, 0.8], [0.6, 0.8]], dtype=np.float32))
    assert index.search(np.array([1.0, 0.0], dtype=np.float32), 3)[0] == [1, 3, 2]
