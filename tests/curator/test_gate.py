from types import SimpleNamespace

import pytest

from ace.curator import AcceptanceGate
from ace.playbook import Add, PlaybookBullet, Remove


def adds(*contents):
    return [Add(bullet=PlaybookBullet(section="Pitfalls", content=content)) for content in contents]


def score(task, repeat, book):
    """A task is solved by the bullet that names it, unless a bullet hurts it."""
    texts = {bullet.content for bullet in book.bullets}
    return float(task in texts and f"hurts {task}" not in texts)


def test_what_helps_is_accepted_and_nothing_is_written(book):
    book.commit(adds("a"))
    before = book.export_jsonl, book.revision, [b.model_dump_json() for b in book.bullets]
    verdict = AcceptanceGate(score, ["a", "b"], ["a"])(book, adds("b"))
    assert verdict.accepted
    assert (verdict.held_in, verdict.held_out) == ((0.5, 1.0), (1.0, 1.0))
    assert (verdict.calls, verdict.families) == (6, 3)
    assert "(3 families of tasks)" in verdict.reason
    assert (book.revision, [b.model_dump_json() for b in book.bullets]) == before[1:]


def test_tasks_of_one_family_are_no_independent_evidence(book):
    tasks = [SimpleNamespace(group="refund") for _ in range(5)]
    verdict = AcceptanceGate(lambda task, repeat, book: float(len(book) > 0), tasks)(book, adds("a"))
    assert (verdict.accepted, verdict.families) == (True, 1)
    assert "1 family of tasks" in verdict.reason


def test_tasks_may_come_from_a_generator(book):
    gate = AcceptanceGate(lambda task, repeat, book: float(len(book) > 0), (task for task in "ab"))
    assert gate(book, [Add(bullet=PlaybookBullet(section="Pitfalls", content="x"))]).held_in == (0.0, 1.0)


def test_what_does_not_help_is_refused_before_held_out_tasks_are_run(book):
    verdict = AcceptanceGate(score, ["a"], ["a"])(book, adds("zebra"))
    assert (verdict.accepted, verdict.calls, verdict.held_out) == (False, 2, None)
    assert "expected a gain" in verdict.reason


def test_what_hurts_elsewhere_is_refused(book):
    book.commit(adds("b"))
    verdict = AcceptanceGate(score, ["a"], ["b"])(book, adds("a", "hurts b"))
    assert not verdict.accepted
    assert (verdict.held_in, verdict.held_out) == ((0.0, 1.0), (1.0, 0.0))
    assert "at most 0.01 may be lost" in verdict.reason


def test_scores_of_the_book_as_it_is_are_kept_until_it_changes(book):
    gate = AcceptanceGate(score, ["a"], ["a"])
    gate(book, adds("a"))
    assert gate(book, adds("a")).calls == 2
    book.commit(adds("b"))
    assert gate(book, adds("a")).calls == 4


def test_the_number_of_runs_is_bounded(book):
    gate = AcceptanceGate(score, ["a", "b"], ["c"], repeats=2, max_calls=11)
    verdict = gate(book, adds("a"))
    assert (verdict.accepted, verdict.calls) == (False, 0)
    assert "11 of 11 runs left and may need 12" in verdict.reason


def test_a_proposal_that_does_not_apply_is_refused(book):
    verdict = AcceptanceGate(score, ["a"])(book, [Remove(bullet_id="b-9")])
    assert not verdict.accepted
    assert "does not apply" in verdict.reason


@pytest.mark.parametrize(
    "options", [{"held_in": []}, {"held_in": ["a"], "repeats": 0}, {"held_in": ["a"], "max_calls": 0}]
)
def test_settings_that_make_no_sense(options):
    with pytest.raises(ValueError, match=r"held_in|at least 1"):
        AcceptanceGate(score, **options)


def test_a_fork_is_the_same_book_and_another(book):
    book.commit(adds("a", "b", "c"))
    book.commit([Remove(bullet_id="b-2")])
    with book.fork() as fork:
        assert [b.model_dump_json() for b in fork.bullets] == [b.model_dump_json() for b in book.bullets]
        assert [b.id for b in fork.retrieve("a")] == [b.id for b in book.retrieve("a")]
        assert fork.add(section="Pitfalls", content="d").id == "b-4"
        assert fork.history.verify().ok
    assert len(book) == 2
    with book.fork().fork() as twice:
        assert len(twice) == 2
