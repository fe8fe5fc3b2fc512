"""Deltas: what is one, and what each does."""

import pytest
from playbook_kit import strategy

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    Merge,
    Provenance,
    Remove,
    Update,
    fold,
)


def test_an_illegal_change_says_what_is_wrong(book):
    bullet = book.add(section="Strategies", content="a")
    for delta, words in (
        (Update(bullet_id=bullet.id, changes={"colour": 1}), "colour"),
        (Update(bullet_id=bullet.id, changes={"id": "b-7"}), "given at commit"),
        (Update(bullet_id=bullet.id, changes={"content": ""}), "content"),
    ):
        with pytest.raises(PlaybookError, match=words):
            book.commit([delta])
    with pytest.raises(PlaybookError, match="section"):
        book.add(section="Ideas", content="a")


@pytest.mark.parametrize(
    "delta",
    [
        lambda: Merge(bullet_id="b-1", absorbed=("foo",)),
        lambda: Remove(bullet_id="b-²"),
        lambda: "x",
        lambda: {"kind": "remove", "bullet_id": "b-1"},
        lambda: Merge(bullet_id="b-1", avg_iterations=float("inf")),
    ],
)
def test_what_is_no_delta_is_refused_before_anything_is_written(book, delta):
    book.add(section="Strategies", content="a")
    with pytest.raises((PlaybookError, ValueError)):
        book.commit([delta()])
    assert (book.revision, len(book)) == (1, 1)


def test_surrogates_anywhere_in_a_delta_are_made_encodable(book):
    odd = "\ud800"
    bullet = strategy("x", odd, domain=odd, tags=(odd,), provenance=Provenance(task_ids=(odd,)))
    book.commit([Add(bullet=bullet, reason=odd)], author=odd)
    book.commit([Update(bullet_id="b-1", changes={"content": odd})])
    assert (book.bullets[0].domain, book.bullets[0].content) == ("?", "?")
    assert fold(book.history.deltas()) == {b.id: b for b in book.bullets}
