"""The index of a playbook: saved, read, followed, healed."""

import threading

from playbook_kit import answers, bullets, strategy

from ace.playbook import (
    Add,
    CallableEmbedder,
    Playbook,
    PlaybookBullet,
    Remove,
    Update,
)
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, Plan, Situation


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
    from ace.playbook.index.index import ENTRIES, BulletIndex

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
        assert set(known) == {2 * ENTRIES, 13 * ENTRIES}
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


def test_a_change_of_embedder_embeds_again_in_the_background_and_mixes_nothing(tmp_path, embedder):
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
        assert {cosine for _, cosine in book.index.similar("task xxxx 3", "Strategies")} == {0.0}
        gate.set()
        assert book.index.wait(10)
        assert book.explain("task xxxx 3").reasons[0].cosine is not None
        with Playbook.open(path, embedder=slow) as fresh:
            assert [b.id for b in book.retrieve("task xxxx 3")] == [b.id for b in fresh.retrieve("task xxxx 3")]
        assert book.maintenance.gc() > 0  # the first embedder's vectors
    with Playbook.open(path, embedder=slow) as book:
        assert book.explain("task xxxx 3").reasons[0].cosine is not None


def test_changed_and_removed_texts_leave_the_index(book):
    book.commit([Add(bullet=strategy("aaaa", "a")), Add(bullet=strategy("bbbb", "b"))])
    assert book.retrieve("aaaa", k=1)[0].id == "b-1"
    book.commit(
        [Update(bullet_id="b-1", changes={"trigger": "zzzz"}), Update(bullet_id="b-2", changes={"trigger": "aaaa"})]
    )
    assert book.retrieve("aaaa", k=1)[0].id == "b-2"
    book.commit([Remove(bullet_id="b-2")])
    assert [b.id for b in book.retrieve("aaaa")] == ["b-1"]


def test_vectors_are_computed_once(tmp_path):
    seen = []

    def embed(texts):
        seen.extend(texts)
        return [[len(t), 1.0] for t in texts]

    for _ in range(2):
        with Playbook.open(tmp_path / "v.db", embedder=CallableEmbedder("n", embed)) as book:
            if not len(book):
                book.commit([Add(bullet=strategy("one", "a")), Add(bullet=strategy("two", "b"))])
            book.retrieve("query")
    assert sorted(seen) == ["one", "query", "query", "two"]


def test_a_lesson_that_lost_wordings_is_searched_by_those_that_it_has(book):
    wordings = tuple(Situation(template=f"{word} the order") for word in ("refund", "cancel", "return"))
    plan = Plan(calls=(Call(tool="refund", changes=True),))
    book.commit([Add(bullet=PlaybookBullet(section="Strategies", **readable(plan, wordings)))])
    index = book._state.index
    book.retrieve("refund the order")
    assert (len(index._lexical), len(index._dense)) == (3, 3)
    for left in (2, 1):
        kept = [one.model_dump() for one in wordings[:left]]
        book.commit([Update(bullet_id="b-1", changes={"situations": kept})])
        book.retrieve("refund the order")
        assert (len(index._lexical), len(index._dense)) == (left, left)


def test_an_index_that_is_reset_leaves_no_file(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        book.commit(bullets(3))
        answers(book)
        assert book.index.save()
        index = book._state.index
        assert index.folder.is_dir()
        index.reset(book._state.bullets, book.revision)
        assert not index.folder.exists()
        assert answers(book), "it is made again"


def test_the_folder_of_an_index_is_made_with_those_above_it(tmp_path, embedder):
    folder = tmp_path / "cache" / "of" / "books"
    with Playbook.open(tmp_path / "b.db", embedder=embedder, index_folder=folder) as book:
        book.commit(bullets(3))
        book.retrieve("task")
        assert book.index.save()
    assert (folder / "header.json").is_file()
