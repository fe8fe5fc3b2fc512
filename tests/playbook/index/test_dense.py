"""The dense index: exact, then approximate; retraining beside answers."""

import threading

import numpy as np
import pytest

from ace.playbook import Playbook, Tag
from ace.playbook.index.dense import TIES, DenseIndex


def clustered(n, dimension=32, clusters=40, seed=0):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dimension))
    rows = centres[random.integers(clusters, size=n)] + 0.3 * random.normal(size=(n, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("quantization", ["none", "8bit"])
def test_a_large_index_becomes_approximate_and_stays_right(quantization):
    rows = clustered(6_000)
    index, exact = DenseIndex(32, quantization, exact_limit=2_000), DenseIndex(32)
    for start in range(0, len(rows), 1_000):
        for target in (index, exact):
            target.put(np.arange(start, start + 1_000), rows[start : start + 1_000])
    index.wait()
    assert (index.kind, exact.kind, len(index)) == ("approximate", "exact", 6_000)
    gone, moved = list(range(0, 6_000, 7)), list(range(1, 6_000, 7))
    for target in (index, exact):
        target.remove(gone)
        target.put(moved, rows[moved][::-1])  # updates in place
    allowed = np.ones(6_000, dtype=bool)
    allowed[::2] = False
    hits = 0
    for query in clustered(100, seed=5):
        near, _ = index.search(query, 3, allowed)
        true, _ = exact.search(query, 3, allowed)
        assert not set(near) & set(gone)
        assert all(allowed[number] for number in near)
        hits += len(set(near) & set(true))
    assert hits >= (285 if quantization == "none" else 255)
    assert len(index) == len(exact) == 6_000 - len(gone)


def test_an_index_retrains_when_it_has_grown():
    rows = clustered(5_000)
    index = DenseIndex(32, exact_limit=500)
    index.put(np.arange(600), rows[:600])
    trained = index.trained_on
    index.put(np.arange(600, 5_000), rows[600:])
    assert 0 < trained < index.trained_on == 5_000
    assert index.search(rows[1234], 1)[0] == [1234]


def test_an_index_answers_while_its_inverted_file_is_trained(monkeypatch):
    from ace.playbook.index import dense

    rows, go, real = clustered(1_200), threading.Event(), dense.train_ivf

    def slow(*args):
        assert go.wait(30)
        return real(*args)

    monkeypatch.setattr(dense, "train_ivf", slow)
    index = DenseIndex(32, exact_limit=800)
    for start in range(0, 1_000, 100):
        index.put(np.arange(start, start + 100), rows[start : start + 100])
    assert index.kind == "exact"
    index.remove([3])
    index.put([5], rows[1_100:1_101])
    assert (index.search(rows[7], 1)[0], index.search(rows[1_100], 1)[0]) == ([7], [5])
    go.set()
    index.wait()
    assert (index.kind, index.trained_on, len(index)) == ("approximate", 900, 999)
    index._index.nprobe = index._index.nlist
    assert [index.search(rows[n], 1)[0] for n in (7, 950, 1_100)] == [[7], [950], [5]]
    assert 3 not in index.search(rows[3], 5)[0]


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


def test_a_book_ranks_duplicates_alike_after_a_process_that_did_not_save_its_index(tmp_path, embedder):
    path = tmp_path / "book.db"

    def ranked() -> list[str]:
        with Playbook.open(path, embedder=embedder, index_folder=tmp_path / "never") as book:
            return [b.id for b in book.retrieve("Refund order 17", k=4)]

    with Playbook.open(path, embedder=embedder) as book:
        for n, section in enumerate(["Strategies", "Pitfalls", "Observations"]):
            book.add(section=section, trigger="Refund an order", content=f"Advice {n}.", tool_sequence=("t", str(n)))
    first = ranked()
    writer = Playbook.open(path, embedder=embedder)
    writer.commit([Tag(bullet_id="b-1", helpful=0, harmful=0, run_id="r")])  # it dies before it saves its index
    del writer
    with Playbook.open(path, embedder=embedder) as book:  # reads the saved index, and adds b-1 to it again
        assert [b.id for b in book.retrieve("Refund order 17", k=4)] == first


def test_inner_products_that_agree_in_five_decimals_are_equal():
    index = DenseIndex(2)
    index.put([1, 2, 3], np.array([[0.600012, 0.8], [0.600002, 0.8], [0.6, 0.8]], dtype=np.float32))
    assert index.search(np.array([1.0, 0.0], dtype=np.float32), 3)[0] == [1, 3, 2]
