"""The database: files that are none, ids, names."""

import sqlite3

import pytest

from ace.core import PlaybookError
from ace.playbook import (
    Playbook,
    Remove,
)


def test_ids_are_never_given_again(book):
    first = book.add(section="Strategies", content="a")
    book.commit([Remove(bullet_id=first.id)])
    assert book.add(section="Strategies", content="b").id == "b-2"


def test_a_file_that_is_no_playbook_is_refused(tmp_path):
    (tmp_path / "x.db").write_text("not a database, but a text that is long enough to look like one")
    with pytest.raises(PlaybookError, match="file is not a database; name a playbook, or restore this one"):
        Playbook.open(tmp_path / "x.db")
    with pytest.raises(PlaybookError, match="does not exist"):
        Playbook.open(tmp_path / "nowhere" / "x.db")


@pytest.mark.parametrize("name", ["a?b.db", "h#x%20y.db", "p%41.db"])
def test_the_file_that_was_named_is_the_one_that_is_opened(tmp_path, embedder, name):
    Playbook.open(tmp_path / name, embedder=embedder).close()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_somebody_elses_database_is_left_alone(tmp_path, embedder):
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.execute("create table users (id integer)")
    connection.commit()
    connection.close()
    with pytest.raises(PlaybookError, match="something else"):
        Playbook.open(tmp_path / "app.db", embedder=embedder)
    connection = sqlite3.connect(tmp_path / "app.db")
    assert connection.execute("select name from sqlite_master").fetchall() == [("users",)]
    connection.close()


def test_a_store_says_where_another_process_opens_it(tmp_path, embedder):
    with Playbook.open(tmp_path / "x.db", embedder=embedder) as book:
        assert book._state.store.address == str(tmp_path / "x.db")
    with Playbook(embedder=embedder) as book:
        assert book._state.store.address is None


def test_setting_the_first_id_forgets_nothing_else(tmp_path, embedder):
    with Playbook.open(tmp_path / "x.db", embedder=embedder) as book:
        store = book._state.store
        store.remember_queue(tmp_path / "runs")
        for number in (40, 60):
            store.start_ids_after(number)
        assert store.queues() == [tmp_path / "runs"]
        assert book.add(section="Strategies", content="a").id == "b-61"


@pytest.mark.parametrize(
    "use", [lambda book: book.history.entries(), lambda book: book.add(section="Pitfalls", content="b")]
)
def test_a_screen_leaves_the_book_alone_whose_commit_it_looks_at(embedder, use):
    used = []

    def screen(text, tools):
        used.append(text)
        use(book)
        return ""

    with Playbook(embedder=embedder, screen=screen) as book:
        with pytest.raises(PlaybookError, match="in the middle of a commit"):
            book.add(section="Pitfalls", content="a")
        assert (len(used), len(book)) == (1, 0)
