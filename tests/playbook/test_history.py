"""The journal of a playbook: entries, diffs, rollback, verification."""

import sqlite3
import threading

import pytest
from hypothesis import given, settings, strategies as st
from playbook_kit import bullet, filled, opened, strategy

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    CallableEmbedder,
    Merge,
    Playbook,
    Promote,
    Quarantine,
    Remove,
    Tag,
    Update,
    fold,
)
from ace.playbook.history import verify_file


def test_history_names_who_what_and_why(book):
    filled(book, "a", "b")
    book.commit([Update(bullet_id="b-1", changes={"content": "c"}, reason="clearer")], author="bo")
    assert [(e["revision"], e["author"], e["kind"], e["reason"]) for e in book.history.entries("b-1")] == [
        (1, "ana", "add", "first"),
        (2, "bo", "update", "clearer"),
    ]


def test_history_is_read_in_parts(book):
    for text in "abc":
        filled(book, text, f"{text}2")
    found = [(e["revision"], e["bullet"]["id"]) for e in book.history.entries(after=1, until=2)]
    assert found == [(2, "b-3"), (2, "b-4")]
    assert [e["bullet"]["id"] for e in book.history.entries(newest=1)] == ["b-6"]
    assert book.history.entries(newest=0) == []
    assert book.history.entries("b-5", newest=5)[0]["revision"] == 3


def test_a_diff_tells_changes_from_credit(book):
    filled(book, "a", "b", "c", "d")
    book.commit(
        [
            Update(bullet_id="b-1", changes={"content": "better", "domain": "shop"}, reason="clearer"),
            Remove(bullet_id="b-2", reason="wrong"),
            Merge(bullet_id="b-1", absorbed=("b-3",)),
            Tag(bullet_id="b-4", helpful=1, run_id="r"),
            Add(bullet=bullet("new")),
        ],
        author="bo",
    )
    found = book.history.diff(1)
    assert {c.bullet_id: c.kind for c in found.changes} == {
        "b-1": "changed",
        "b-2": "removed",
        "b-3": "merged",
        "b-4": "credited",
        "b-5": "added",
    }
    changed = found.changes[0]
    assert (changed.fields, changed.reasons, changed.authors) == (("content", "domain"), ("clearer",), ("bo",))
    assert found.changes[2].into == "b-1"
    assert book.history.successor("b-3").id == "b-1"
    assert book.history.successor("b-2") is None
    back = book.history.diff(2, 1)
    assert {c.bullet_id: c.kind for c in back.changes}["b-5"] == "removed"
    with pytest.raises(PlaybookError, match="no revision 9"):
        book.history.diff(9)
    with pytest.raises(PlaybookError, match="never was"):
        book.history.successor("b-99")


def test_rollback_brings_every_byte_back(book):
    filled(book, "a", "b")
    then = [b.model_dump_json() for b in book.bullets]
    book.commit([Remove(bullet_id="b-1"), Update(bullet_id="b-2", changes={"content": "c"})])
    book.add(section="Pitfalls", content="z")
    newest = book.revision
    assert book.history.rollback(1, author="bo") == newest + 1
    assert [b.model_dump_json() for b in book.bullets] == then
    assert book.get("b-1").content in {b.content for b in book.retrieve("a")}
    assert book.add(section="Pitfalls", content="y").id == "b-4"  # b-3 was given, and never comes again
    book.history.rollback(newest)
    assert [b.id for b in book.bullets] == ["b-2", "b-3"]
    assert book.history.verify().ok
    assert book.history.rollback(book.revision) == book.revision  # nothing to do


def test_a_rollback_takes_credit_back_with_it(book):
    filled(book, "a")
    for _ in range(2):
        book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])
    assert (book.get("b-1").helpful_count, book.revision) == (1, 2)  # once per run and bullet
    book.history.rollback(1)
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])
    assert book.get("b-1").helpful_count == 1


def test_verify_sees_what_was_changed_behind_its_back(tmp_path, embedder):
    path = tmp_path / "x.db"
    with Playbook.open(path, embedder=embedder) as book:
        filled(book, "a", "b")
        book.remember_queue(tmp_path / "runs")
        found = [bullet.id for bullet in book.retrieve("a")]
        assert book.history.verify().ok
    for statement, words in (
        (
            "UPDATE journal SET delta = replace(delta, '\"a\"', '\"A\"') WHERE position = 0",
            "changed after it was written",
        ),
        ("UPDATE bullets SET bullet = replace(bullet, '\"b\"', '\"B\"')", "differs from the journal"),
        ("DELETE FROM bullets WHERE number = 2", "missing from the table"),
        ("DELETE FROM journal WHERE position = 1", "not in the journal"),
        ("UPDATE meta SET value = '1' WHERE key = 'next_number'", "given before"),
        ("UPDATE meta SET value = value || '0' WHERE key = 'book_id'", "in the table meta was changed"),
        ("UPDATE meta SET value = 'x' WHERE key = 'seal'", "'seal' in the table meta was changed"),
        ("DELETE FROM meta WHERE key = 'seal'", "the seal is missing"),
        ("UPDATE meta SET key = key || 'x' WHERE key LIKE 'queue:%'", "in the table meta was changed"),
        ("INSERT INTO meta VALUES ('queue:/etc', '')", "in the table meta was changed"),
        ("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE rowid = 1", "1 vectors were changed"),
        ("UPDATE vectors SET text_sha256 = 'x' WHERE rowid = 1", "1 vectors were changed"),
    ):
        copy = tmp_path / "copy.db"
        copy.unlink(missing_ok=True)
        source, target = sqlite3.connect(path), sqlite3.connect(copy)
        source.backup(target)
        source.close()
        target.execute(statement)
        target.commit()
        target.close()
        with Playbook.open(copy, embedder=embedder) as book:
            report = book.history.verify()
            if "vectors" in statement:  # they are computed again
                assert [bullet.id for bullet in book.retrieve("a")] == found
        assert not report.ok
        assert any(words in problem for problem in report.problems), (statement, report.problems)


ids = st.sampled_from([f"b-{n}" for n in range(1, 6)])


deltas = st.one_of(
    st.builds(lambda text, tool: Add(bullet=strategy(text, tool)), st.text(min_size=1), st.sampled_from("abc")),
    st.builds(Tag, bullet_id=ids, helpful=st.integers(0, 3), harmful=st.integers(0, 3)),
    st.builds(lambda i, text: Update(bullet_id=i, changes={"content": text}), ids, st.text(min_size=1)),
    st.builds(Merge, bullet_id=ids, helpful=st.integers(0, 2), absorbed=st.lists(ids, max_size=2).map(tuple)),
    st.builds(Remove, bullet_id=ids),
    st.builds(Promote, bullet_id=ids, stage=st.sampled_from(["shadow", "active", "pinned", "retired"])),
    st.builds(Quarantine, bullet_id=ids),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(deltas, max_size=3), max_size=12))
def test_the_fold_of_the_journal_is_the_table(commits):
    embedder = CallableEmbedder("len", lambda texts: [[len(t), 1.0] for t in texts])
    with Playbook(embedder=embedder) as book:
        for commit in commits:
            before = {bullet.id: bullet.model_dump_json() for bullet in book.bullets}
            named = {getattr(d, "bullet_id", "") for d in commit} | {
                i for d in commit for i in getattr(d, "absorbed", ())
            }
            try:
                book.commit(commit)
            except PlaybookError:
                named = set()
            after = {bullet.id: bullet.model_dump_json() for bullet in book.bullets}
            # bullets that no delta names keep every byte
            assert all(after[i] == text for i, text in before.items() if i not in named)
        table = {bullet.id: bullet for bullet in book.bullets}
        assert fold(book.history.deltas()) == table
        rows = book._state.store.snapshot()[1]
        assert [row.bullet for row in rows] == [bullet.model_dump_json() for bullet in table.values()]
        assert book.history.verify().ok


def test_rollbacks_beside_a_writer_hit_their_target(book, tmp_path):
    book.commit([Add(bullet=bullet())])
    target = [b.model_dump_json() for b in book.bullets]
    stop = threading.Event()

    def write():
        with opened(tmp_path / "book.db") as other:
            while not stop.is_set():
                other.commit([Add(bullet=bullet("more"))])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            revision = book.history.rollback(1)
            assert [b.model_dump_json() for b in book.history.at(revision)] == target
    finally:
        stop.set()
        writer.join()
    assert book.history.verify().ok


def test_credit_that_a_rollback_brings_back_is_not_given_again(book):
    book.commit([Add(bullet=bullet())])
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])
    book.history.rollback(1)
    book.history.rollback(2)
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])
    assert book.get("b-1").helpful_count == 1
    book.history.rollback(1)
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])
    assert book.get("b-1").helpful_count == 1
    assert book.history.verify().ok


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE journal SET delta = substr(delta, 1, 20) WHERE revision = 2", "2.0 cannot be read"),
        ("UPDATE bullets SET bullet = substr(bullet, 1, 20)", "b-1 differs"),
        ("UPDATE bullets SET filter_key = '['", "b-1 has a filter key"),
        ("DELETE FROM credits", "which runs have given"),
        ("INSERT INTO credits (run_id, number) VALUES ('r9', 1)", "which runs have given"),
        ("UPDATE meta SET value = '7' WHERE key = 'next_number'", "its end is missing"),
        ("UPDATE meta SET value = '1' WHERE key = 'next_number'", "given before"),
    ],
)
def test_damage_is_reported(tmp_path, statement, problem):
    with opened(tmp_path / "book.db") as book:
        book.commit([Add(bullet=bullet())])
        book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])
    connection = sqlite3.connect(tmp_path / "book.db")
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert any(problem in found for found in verify_file(tmp_path / "book.db").problems)


def test_what_cannot_be_read_says_so(tmp_path):
    with opened(tmp_path / "book.db") as book:
        book.commit([Add(bullet=bullet())])
    connection = sqlite3.connect(tmp_path / "book.db")
    connection.execute("UPDATE bullets SET bullet = '{'")
    connection.commit()
    connection.close()
    with opened(tmp_path / "book.db") as book, pytest.raises(PlaybookError, match="b-1 cannot be read"):
        book.retrieve("order")


def test_a_diff_tells_what_is_so_in_the_end(book):
    book.commit([Add(bullet=bullet("one")), Add(bullet=bullet("two"))])
    for content in ("three", "one"):
        book.commit([Update(bullet_id="b-1", changes={"content": content})])
    assert book.history.diff(1).changes == ()
    book.commit([Merge(bullet_id="b-1", absorbed=("b-2",))])
    book.history.rollback(1)
    book.commit([Remove(bullet_id="b-2")])
    assert [change.kind for change in book.history.diff(1).changes] == ["removed"]
    assert book.history.successor("b-2") is None


def test_a_rollback_to_no_revision_changes_nothing(book):
    book.add(section="Strategies", content="a")
    for revision in (-1, 2, 99):
        with pytest.raises(PlaybookError, match="revision"):
            book.history.rollback(revision)
    assert (len(book), book.revision) == (1, 1)
