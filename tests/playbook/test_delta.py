"""Deltas: what is one, and what each does."""

import pytest
from playbook_kit import bullet, strategy
from pydantic import ValidationError

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    Merge,
    Promote,
    Provenance,
    Remove,
    Tag,
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
    bullet = strategy("x", domain=odd, tags=(odd,), provenance=Provenance(task_ids=(odd,)))
    book.commit([Add(bullet=bullet, reason=odd)], author=odd)
    book.commit([Update(bullet_id="b-1", changes={"content": odd})])
    assert (book.bullets[0].domain, book.bullets[0].content) == ("?", "?")
    assert fold(book.history.deltas()) == {b.id: b for b in book.bullets}


@pytest.mark.parametrize("odd", ["b-01", "b-", "b-99999999999999999999", "1"])
def test_an_odd_id_is_no_delta(book, odd):
    with pytest.raises((PlaybookError, ValueError)):
        book.commit([Remove(bullet_id=odd)])
    with pytest.raises(PlaybookError):
        book.get(odd)


def test_a_merge_takes_everything_over(book):
    one = bullet(tags=("a",), tool_schema_hashes={"find": "1"})
    other = bullet(tags=("b",), tool_schema_hashes={"pay": "2"}, distinct_from=("b-9",))
    book.commit([Add(bullet=one), Add(bullet=other)])
    book.commit([Tag(bullet_id="b-2", arm="treated", success=True, run_id="r1")])
    book.commit([Tag(bullet_id="b-2", arm="control", success=False, run_id="r2")])
    book.commit([Tag(bullet_id="b-2", helpful=3)])
    book.commit([Merge(bullet_id="b-1", absorbed=("b-2",))])
    found = book.get("b-1")
    assert found.helpful_count == 3
    assert (found.tags, found.tool_schema_hashes) == (("a", "b"), {"find": "1", "pay": "2"})
    assert (found.treated_successes, found.control_failures, found.distinct_from) == (1, 1, ("b-9",))
    book.commit([Tag(bullet_id="b-1", helpful=1, run_id="r1")])  # it gave its credit to the one that went
    assert book.get("b-1").helpful_count == 3
    assert book.history.verify().ok


@pytest.mark.parametrize(
    "delta", [Update(bullet_id="b-1", changes={"content": "x"}), Remove(bullet_id="b-1"), Tag(bullet_id="b-1")]
)
def test_a_delta_cannot_be_changed_once_it_is_made(delta):
    with pytest.raises(ValidationError, match="frozen"):
        delta.bullet_id = "b-2"


def test_a_refused_delta_is_told_in_few_words(book):
    book.add(section="Strategies", content="a")
    with pytest.raises(PlaybookError, match="stage") as refusal:
        book.commit([Promote.model_construct(bullet_id="b-1", stage="gone")])
    assert "ctx" not in str(refusal.value)
    assert "https" not in str(refusal.value)
