"""Bullets as JSON lines, out and in."""

import pytest
from playbook_kit import bullet, strategy

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    Playbook,
)


def test_export_and_import_keep_the_words(book, tmp_path, embedder):
    book.commit([Add(bullet=strategy("refund", "a", helpful_count=3)), Add(bullet=strategy("cancel", "b"))])
    path = tmp_path / "b.jsonl"
    assert book.export_jsonl(path) == 2
    with Playbook.open(tmp_path / "new.db", embedder=embedder) as other:
        other.add(section="Pitfalls", content="mine")
        assert other.import_jsonl(path, trust=True) == 2
        found = [(b.id, b.trigger, b.helpful_count, b.stage) for b in other.bullets[1:]]
        assert found == [("b-2", "refund", 3, "active"), ("b-3", "cancel", 0, "active")]
        assert other.import_jsonl(path) == 2
        found = [(b.id, b.trigger, b.helpful_count, b.stage, b.trust) for b in other.bullets[3:]]
        assert found == [("b-4", "refund", 0, "shadow", "tainted"), ("b-5", "cancel", 0, "shadow", "tainted")]
    path.write_text('{"section": "Ideas"}\n')
    with pytest.raises(PlaybookError, match=r"line 1 .*nothing was imported"):
        book.import_jsonl(path)
    assert len(book) == 2


def test_an_export_never_overwrites_the_book(book, tmp_path):
    book.commit([Add(bullet=bullet("naïve 日本"))])
    assert book.export_jsonl(tmp_path / "book.db.jsonl") == 1
    for own in ("book.db", "book.db-wal"):
        with pytest.raises(PlaybookError, match="the playbook itself"):
            book.export_jsonl(tmp_path / own)
    book.export_jsonl(tmp_path / "b.jsonl")
    assert "naïve 日本" in (tmp_path / "b.jsonl").read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.glob("*.part")] == []


def test_an_import_does_not_keep_strangers_apart(book, tmp_path):
    book.commit([Add(bullet=bullet("one")), Add(bullet=bullet("two"))])
    book.maintenance.keep_both("b-1", "b-2")
    book.export_jsonl(tmp_path / "b.jsonl")
    book.import_jsonl(tmp_path / "b.jsonl")
    assert [b.distinct_from for b in book.bullets] == [("b-2",), ("b-1",), (), ()]
