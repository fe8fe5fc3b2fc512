"""The inverted file of the dense index."""

import numpy as np

from ace.playbook.index.dense import DenseIndex


def clustered(n, dimension=32, clusters=40, seed=0):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dimension))
    rows = centres[random.integers(clusters, size=n)] + 0.3 * random.normal(size=(n, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_lists_get_more_room_before_they_are_full():
    rows = clustered(2_000)
    index = DenseIndex(32, exact_limit=800)
    index.put(np.arange(1_000), rows[:1_000])
    trained = index.trained_on
    for start in range(1_000, 2_000, 50):
        index.put(np.arange(start, start + 50), rows[start : start + 50])
        assert len(index) <= index._capacity
    assert index.trained_on == trained == 1_000
    index._index.nprobe = index._index.nlist
    assert [index.search(row, 1)[0] for row in rows[::100]] == [[n] for n in range(0, 2_000, 100)]
