"""Bullets as JSON lines, out and in."""

import pytest
from playbook_kit import strategy

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
        assert other.import_jsonl(path) == 2
        assert [(b.id, b.trigger, b.helpful_count) for b in other.bullets[1:]] == [
            ("b-2", "refund", 3),
            ("b-3", "cancel", 0),
        ]
    path.write_text('{"section": "Ideas"}\n')
    with pytest.raises(PlaybookError, match=r"line 1 .*nothing was imported"):
        book.import_jsonl(path)
    assert len(book) == 2
