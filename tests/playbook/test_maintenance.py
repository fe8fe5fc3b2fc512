"""Pruning, promotion, duplicates, decisions to keep both, the budget of a book."""

import pytest
from playbook_kit import bullet, filled, opened

from ace.core import PlaybookError
from ace.playbook import (
    Add,
    Playbook,
    Promote,
    Quarantine,
    Remove,
    Tag,
    Update,
)
from ace.playbook.statistics import Record


def test_pruning_retires_and_promotes_beyond_doubt_only(book):
    contents = {"bad": (0, 8), "good": (8, 0), "unsure": (1, 3), "tried": (6, 0)}
    filled(book, *contents)
    stages = {"tried": "shadow"}
    for number, (name, (helpful, harmful)) in enumerate(contents.items(), start=1):
        book.commit([Tag(bullet_id=f"b-{number}", helpful=helpful, harmful=harmful)])
        if name in stages:
            book.commit([Update(bullet_id=f"b-{number}", changes={"stage": stages[name]})])
    due = book.maintenance.prune(0.5, dry_run=True)
    assert {(j.bullet.content, j.action) for j in due} == {("bad", "prune"), ("tried", "promote")}
    assert book.maintenance.prune(Record(10, 10))
    assert {b.content: b.stage for b in book.bullets} == {
        "bad": "retired",
        "good": "active",
        "unsure": "active",
        "tried": "active",
    }
    assert book.maintenance.stats().stages == {"active": 3, "retired": 1}


def test_what_a_person_wrote_is_retired_by_a_person_alone(book):
    book.add(section="Pitfalls", content="Never guess an id.", author="ana")
    book.commit([Tag(bullet_id="b-1", harmful=200)])
    assert book.maintenance.prune(0.5) == []
    book.review.set_stage("b-1", "retired", author="ana")
    assert book.get("b-1").stage == "retired"


def test_without_a_baseline_a_lesson_for_hard_tasks_stays(book):
    """One run of four succeeds with it: much, where none does without it, and little, where half of them do."""
    filled(book, "hard", "controlled", "useless")
    for number, (helpful, harmful) in enumerate([(10, 30), (10, 30), (0, 120)], start=1):
        book.commit([Tag(bullet_id=f"b-{number}", helpful=helpful, harmful=harmful)])
    book.commit(Tag(bullet_id="b-2", arm="control", success=run % 2 == 0, run_id=f"run-{run}") for run in range(60))
    assert {j.bullet.content for j in book.maintenance.prune(0.5, dry_run=True)} == {"hard", "controlled", "useless"}
    assert {j.bullet.content for j in book.maintenance.prune()} == {"controlled", "useless"}


def test_duplicates_are_merged_and_the_journal_names_the_successor(book):
    filled(
        book,
        "Check the balance before you pay.",
        "Check the balance before you pay!",
        "Never check the balance before you pay.",
    )
    book.commit([Tag(bullet_id="b-2", helpful=3), Tag(bullet_id="b-1", helpful=1)])
    assert book.maintenance.dedup(threshold=0.9, dry_run=True).duplicates
    assert len(book) == 3
    report = book.maintenance.dedup(threshold=0.9)
    assert [(t.removed.id, t.successor.id) for t in report.duplicates] == [("b-1", "b-2")]
    assert book.get("b-2").helpful_count == 4
    assert book.history.successor("b-1").id == "b-2"
    assert any("negation" in what for *_, what in report.near)
    assert book.maintenance.dedup(threshold=0.9).revision is None


def test_a_decision_to_keep_both_is_remembered(book):
    filled(book, "Check the balance before you pay.", "Check the balance before you pay!")
    book.maintenance.keep_both("b-1", "b-2", author="bo", note="two customers")
    assert book.maintenance.dedup(threshold=0.9).duplicates == []
    book.history.rollback(1)
    assert len(book.maintenance.dedup(threshold=0.9).duplicates) == 1


def test_a_book_has_a_budget_of_its_own(tmp_path, embedder):
    with Playbook.open(tmp_path / "b.db", embedder=embedder, book_budget=30) as book:
        filled(book, "Find the order first.")
        with pytest.raises(PlaybookError, match="book_budget is 30"):
            filled(book, "word " * 60)
        assert (len(book), book.revision) == (1, 1)
        book.commit([Remove(bullet_id="b-1")])


def test_upkeep_leaves_alone_what_changed_meanwhile(book, tmp_path):
    book.commit([Add(bullet=bullet("one lesson", stage="shadow", harmful_count=50)) for _ in range(2)])
    with opened(tmp_path / "book.db") as other:

        def null(of):
            if of.id == "b-1" and of.stage == "shadow":
                other.commit([Promote(bullet_id="b-1", stage="pinned")])
            return 0.5

        assert [assessment.bullet.id for assessment in book.maintenance.prune(null)] == ["b-2"]
        assert [b.stage for b in book.bullets] == ["pinned", "retired"]
        book.commit([Promote(bullet_id="b-2", stage="active")])
        real = book._state.index.text_vectors

        def edited(texts):
            other.commit([Update(bullet_id="b-2", changes={"content": "another lesson"})])
            return real(texts)

        book._state.index.text_vectors = edited
        assert book.maintenance.dedup(threshold=0.9).duplicates == []
    assert [b.content for b in book.bullets] == ["one lesson", "another lesson"]


def test_pruning_leads_nobody_out_of_quarantine(book, tmp_path):
    book.commit([Add(bullet=bullet("one", stage="shadow", helpful_count=50))])
    with opened(tmp_path / "book.db") as other:

        def null(of):
            other.commit([Quarantine(bullet_id="b-1")])
            return 0.5

        book.maintenance.prune(null)
    assert book.get("b-1").stage == "quarantined"


def test_the_journal_says_why_two_bullets_were_kept(book):
    filled(book, "a", "b", "c")
    book.maintenance.keep_both("b-1", "b-2", note="other carriers")
    book.maintenance.keep_both("b-2", "b-3")
    reasons = [entry["reason"] for entry in book.history.entries() if "kept" in entry["reason"]]
    kept = "{} and {} are kept beside each other"
    assert reasons == [kept.format("b-1", "b-2") + ": other carriers"] * 2 + [kept.format("b-2", "b-3")] * 2


def test_a_lesson_has_an_effect_once_there_are_runs_with_and_without_it(book):
    filled(book, "a")
    for arm, success, effect in (("control", False, None), ("treated", True, 1.0), ("treated", False, 0.5)):
        book.commit([Tag(bullet_id="b-1", arm=arm, success=success, run_id=f"{arm} {success}")])
        assert book.maintenance.assess()[0].effect == effect
