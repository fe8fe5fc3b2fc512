"""Equal vectors come newest first, whichever process put them into the index when."""

from __future__ import annotations

import numpy as np

from ace.playbook import Playbook, Tag
from ace.playbook.index.dense import TIES, DenseIndex


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
