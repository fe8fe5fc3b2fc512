"""Indexes: exact and approximate, saved and damaged, and what follows a change of embedder."""

import threading

import numpy as np
import pytest

from ace.core import PlaybookError
from ace.playbook import Add, CallableEmbedder, MiniLMEmbedder, Playbook, PlaybookBullet, Remove, Update, as_embedder
from ace.playbook.index.dense import DenseIndex
from ace.playbook.index.lexical import LexicalIndex


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


def test_the_lexical_ranking_does_not_depend_on_the_order_of_changes():
    texts = {n: f"{'refund' if n % 2 else 'cancel'} order {n % 7} of customer{n}" for n in range(40)}
    one, other = LexicalIndex(), LexicalIndex()
    one.put(texts)
    for number in reversed(texts):
        other.put({number: "something else"})
        other.search("warm up", 3)
        other.put({number: texts[number]})
    other.put({99: "refund"})
    other.remove([99, 100])
    query = "refund order 3 of customer11"
    (ids, scores), (other_ids, other_scores) = one.search(query, 40), other.search(query, 40)
    assert ids == other_ids
    assert scores == pytest.approx(other_scores, abs=1e-6)
    assert one.search("nothing shared", 5) == ([], [])
    assert LexicalIndex().search("x", 5) == ([], [])


# -- on disk -----------------------------------------------------------------------------------------------------------


def bullets(n):
    return [
        Add(bullet=PlaybookBullet(section="Strategies", trigger=f"task {'xyz'[i % 3] * (i + 1)} {i}", content="x"))
        for i in range(n)
    ]


def answers(book):
    return [[b.id for b in book.retrieve(f"task {'xyz'[i % 3] * (i + 1)} {i}")] for i in range(12)]


def test_the_index_is_saved_read_followed_and_healed(tmp_path, embedder, monkeypatch):
    path, calls = tmp_path / "b.db", []

    class Counting(CallableEmbedder):
        def embed(self, texts):
            calls.extend(texts)
            return super().embed(texts)

    def opened():
        return Playbook.open(path, embedder=Counting("letters", embedder._func))

    with opened() as book:
        book.commit(bullets(12))
        expected = answers(book)
    folder = tmp_path / "b.db.index"
    assert {p.name for p in folder.iterdir()} == {"dense.faiss", "lexical.npz", "header.json"}

    known = monkeypatch.spy = []
    from ace.playbook.index.index import BulletIndex

    original = BulletIndex._known
    monkeypatch.setattr(BulletIndex, "_known", lambda self, texts: (known.extend(texts), original(self, texts))[1])
    with opened() as book:
        assert answers(book) == expected
        assert known == []  # nothing had to be read, let alone computed
    with opened() as book:  # another process goes on, the saved index is behind
        book.commit(
            [Remove(bullet_id="b-1"), Update(bullet_id="b-2", changes={"trigger": "another thing"}), *bullets(1)]
        )
        behind = answers(book)
        book._state.index.folder = None
        book._state.index._files = None
    known.clear()
    with opened() as book:
        assert answers(book) == behind
        assert set(known) == {2, 13}
    for harm in ("truncate", "flip", "header", "missing", "other book"):
        with opened() as book:
            answers(book)
            assert book.index.save()
        target = folder / "dense.faiss"
        data = target.read_bytes()
        if harm == "truncate":
            target.write_bytes(data[:-9])
        elif harm == "flip":
            target.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        elif harm == "header":
            (folder / "header.json").write_text("{")
        elif harm == "missing":
            (folder / "lexical.npz").unlink()
        else:
            header = folder / "header.json"
            header.write_text(header.read_text().replace('"book_id": "', '"book_id": "0'))
        with opened() as book:
            assert answers(book) == behind, harm
            book._state.index._unsaved = 1


def test_a_restored_backup_does_not_meet_the_index_of_its_future(tmp_path, embedder):
    path = tmp_path / "b.db"
    with Playbook.open(path, embedder=embedder) as book:
        book.commit(bullets(3))
    backup = path.read_bytes()
    with Playbook.open(path, embedder=embedder) as book:
        book.commit([Remove(bullet_id="b-1"), *bullets(6)])
        answers(book)
    path.write_bytes(backup)
    with Playbook.open(path, embedder=embedder) as book:
        book.commit(bullets(1))
        assert {i for found in answers(book) for i in found} <= {"b-1", "b-2", "b-3", "b-4"}
        assert "b-1" in {i for found in answers(book) for i in found}


# -- embedders ---------------------------------------------------------------------------------------------------------


def test_a_change_of_embedder_embeds_anew_in_the_background_and_mixes_nothing(tmp_path, embedder):
    path, gate = tmp_path / "b.db", threading.Event()
    with Playbook.open(path, embedder=embedder) as book:
        book.commit(bullets(100))
        book.retrieve("task")

    class Slow(CallableEmbedder):
        def embed(self, texts):
            if len(texts) > 1:
                assert gate.wait(10)
            return super().embed(texts)

    slow = Slow("other", lambda texts: [[len(t) % 7 + 1, t.count("x") + 1.0, 1.0] for t in texts])
    with Playbook.open(path, embedder=slow) as book:
        early = [b.id for b in book.retrieve("task xxxx 3")]  # by its words, at once
        assert early
        assert book.explain("task xxxx 3").reasons[0].cosine is None
        gate.set()
        assert book.index.wait(10)
        assert book.explain("task xxxx 3").reasons[0].cosine is not None
        with Playbook.open(path, embedder=slow) as fresh:
            assert [b.id for b in book.retrieve("task xxxx 3")] == [b.id for b in fresh.retrieve("task xxxx 3")]
        assert book.maintenance.gc() > 0  # the first embedder's vectors
    with Playbook.open(path, embedder=slow) as book:
        assert book.explain("task xxxx 3").reasons[0].cosine is not None


def mean_length(texts):
    return [[float(len(text)), 1.0] for text in texts]


def test_many_things_can_embed():
    import dspy

    assert as_embedder(mean_length).name.endswith("mean_length")
    assert as_embedder(dspy.Embedder(mean_length)).embed(["abc"]).shape == (1, 2)
    assert as_embedder(None).name == MiniLMEmbedder.name
    given = CallableEmbedder("x", mean_length)
    assert as_embedder(given) is given

    assert as_embedder(dspy.Embedder(mean_length, dimensions=256)).name.endswith("mean_length?dimensions=256")

    def made(texts):
        return mean_length(texts)

    for nonsense in (3, made, lambda texts: texts):
        with pytest.raises(PlaybookError, match=r"embed|name"):
            as_embedder(nonsense)


def test_two_models_on_disk_have_two_names():
    import copy

    import torch

    model = MiniLMEmbedder().model()
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(other.parameters()).add_(0.01)
    names = [as_embedder(one).name for one in (model, other, copy.deepcopy(model))]
    assert names[0] == names[2] != names[1]
    assert as_embedder(model).embed(["a", "b"]).shape == (2, 384)


@pytest.mark.parametrize("wrong", [[[np.nan, 1.0]], [1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [[]]])
def test_wrong_vectors_are_refused_and_not_kept(tmp_path, wrong):
    answers = {"now": wrong}
    embedder = CallableEmbedder("odd", lambda texts: answers["now"])
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        book.commit(bullets(1))
        with pytest.raises(PlaybookError, match="'odd'"):
            book.retrieve("a task")
        answers["now"] = [[1.0, 0.0]]
        assert len(book.retrieve("a task")) == 1
        answers["now"] = [[1.0, 0.0, 0.0]]
        with pytest.raises(PlaybookError, match="another name"):
            book.retrieve("another task")


def test_onnx_gives_the_same_vectors(tmp_path):
    from ace.playbook.index.onnx import OnnxMiniLMEmbedder

    texts = ["Refund the order.", "", "word " * 600, "naïve café ✓", *[f"text number {n} of many" for n in range(70)]]
    fast = OnnxMiniLMEmbedder(tmp_path)
    vectors, expected = fast.embed(texts), MiniLMEmbedder().embed(texts)
    assert (vectors * expected).sum(axis=1).min() > 0.9999
    assert fast.embed([]).shape == (0, 384)
    (model,) = tmp_path.glob("*/model.onnx")
    stamp = model.stat().st_mtime_ns
    assert OnnxMiniLMEmbedder(tmp_path).embed(["again"]).shape == (1, 384)
    assert model.stat().st_mtime_ns == stamp  # exported once
    model.write_bytes(model.read_bytes()[:-100])
    assert (OnnxMiniLMEmbedder(tmp_path).embed(texts[:1]) @ expected[0])[0] > 0.9999  # damaged: exported again
