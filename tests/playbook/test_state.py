"""The bullets in memory follow the store."""

import sqlite3
import threading

import pytest
from hypothesis import strategies as st
from playbook_kit import strategy

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    Playbook,
    Remove,
    Tag,
)


def test_a_commit_is_all_or_nothing(book):
    book.add(section="Strategies", content="a")
    before = book.bullets
    with pytest.raises(PlaybookError, match="b-99"):
        book.commit([Add(bullet=strategy("x", "t")), Remove(bullet_id="b-99")])
    assert (book.bullets, book.revision) == (before, 1)
    book.refresh()
    assert book.bullets == before


ids = st.sampled_from([f"b-{n}" for n in range(1, 6)])


def test_another_process_is_followed(tmp_path, embedder):
    with (
        Playbook.open(tmp_path / "a.db", embedder=embedder) as one,
        Playbook.open(tmp_path / "a.db", embedder=embedder) as two,
    ):
        one.commit([Add(bullet=strategy("refund order", "refund"))])
        two.refresh()
        assert [b.id for b in two.retrieve("refund order")] == ["b-1"]
        two.commit([Tag(bullet_id="b-1", helpful=1)])
        one.commit([Add(bullet=strategy("cancel order", "cancel"))])  # one is behind by a revision here
        assert one.get("b-1").helpful_count == 1
        assert one.revision == 3


def test_a_commit_while_another_opens_is_not_counted_twice(tmp_path, embedder, monkeypatch):
    path = tmp_path / "a.db"
    with Playbook.open(path, embedder=embedder) as one:
        one.add(section="Strategies", content="a")
        from ace.playbook.store import Store

        plain = Store.snapshot

        def slow(self):
            taken = plain(self)
            monkeypatch.setattr(Store, "snapshot", plain)
            one.commit([Add(bullet=strategy("b", "t")), Tag(bullet_id="b-1", helpful=1)])
            return taken

        monkeypatch.setattr(Store, "snapshot", slow)
        with Playbook.open(path, embedder=embedder) as two:
            two.refresh()
            assert {b.id: b for b in two.bullets} == {b.id: b for b in one.bullets}


def test_of_a_damaged_revision_nothing_is_followed(tmp_path, embedder):
    path = tmp_path / "a.db"
    with Playbook.open(path, embedder=embedder) as one, Playbook.open(path, embedder=embedder) as two:
        two.commit([Add(bullet=strategy("a", "first")), Add(bullet=strategy("b", "second"))])
        connection = sqlite3.connect(path)
        connection.execute("update journal set delta = 'no delta' where position = 1")
        connection.commit()
        connection.close()
        for _ in range(2):
            with pytest.raises((PlaybookError, ValueError)):
                one.refresh()
            assert (one.revision, len(one)) == (0, 0)


def test_a_book_in_memory_may_be_shared_by_threads(embedder):
    with Playbook(embedder=embedder) as book:
        errors = []

        def work(n):
            try:
                for i in range(15):
                    book.add(section="Strategies", content=f"{n} {i}")
                    book.retrieve("x")
                    book.history.deltas()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(book) == 60


def test_a_damaged_row_is_named_when_it_is_written_to(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder) as book:
        book.add(section="Strategies", content="a")
    with sqlite3.connect(tmp_path / "b.db") as connection:
        connection.execute("UPDATE bullets SET bullet = '{'")
    connection.close()
    with (
        Playbook.open(tmp_path / "b.db", embedder=embedder) as book,
        pytest.raises(PlaybookError, match="b-1 cannot be read: its row is damaged"),
    ):
        book.commit([Tag(bullet_id="b-1", helpful=1)])
