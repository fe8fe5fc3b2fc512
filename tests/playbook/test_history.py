"""The journal of a playbook: entries, diffs, rollback, verification."""

import sqlite3

import pytest
from playbook_kit import bullet, filled

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    Merge,
    Playbook,
    Remove,
    Tag,
    Update,
)


def test_history_names_who_what_and_why(book):
    filled(book, "a", "b")
    book.commit([Update(bullet_id="b-1", changes={"content": "c"}, reason="clearer")], author="bo")
    assert [(e["revision"], e["author"], e["kind"], e["reason"]) for e in book.history.entries("b-1")] == [
        (1, "ana", "add", "first"),
        (2, "bo", "update", "clearer"),
    ]


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
        assert not report.ok
        assert any(words in problem for problem in report.problems), (statement, report.problems)
