"""Explanations of a retrieval."""

import threading

import pytest
from playbook_kit import bullet, filled, opened
from pydantic import ValidationError

from ace.learner import Learner
from ace.playbook import Add, Remove


def test_explanations_beside_a_writer(book):
    book.commit([Add(bullet=bullet(f"order {n}")) for n in range(30)])
    stop, errors = threading.Event(), []

    def explain():
        while not stop.is_set():
            try:
                book.explain("order")
            except Exception as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=explain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(1, 31):
        book.commit([Remove(bullet_id=f"b-{n}"), Add(bullet=bullet(f"order {n}"))])
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_an_explanation_follows_other_processes(book, tmp_path, monkeypatch):
    monkeypatch.setattr("ace.playbook.state.REFRESH_SECONDS", 0.0)
    book.commit([Add(bullet=bullet("order"))])
    with opened(tmp_path / "book.db") as other:
        other.commit([Add(bullet=bullet("order too"))])
    assert len(book.explain("order").bullets) == 2


def test_ranks_are_counted_from_1_and_are_none_where_a_ranking_lacks_the_bullet(book):
    filled(book, "refund the order", "zzz")
    found = book.explain("refund the order")
    ranks = {reason.bullet.content: (reason.dense_rank, reason.lexical_rank) for reason in found.reasons}
    assert ranks["refund the order"] == (1, 1)
    assert ranks["zzz"] == (2, None)


def test_what_a_book_tells_of_itself_cannot_be_changed(book):
    filled(book, "refund the order")
    explanation = book.explain("refund the order")
    assert (len(explanation.bullets), explanation.near) == (1, [])
    for told in (*explanation.reasons, *book.maintenance.assess()):
        with pytest.raises(ValidationError, match="frozen"):
            told.bullet = bullet("another")


def test_a_plan_that_only_reads_is_named_beside_one_that_changes_something(book):
    learner = Learner(book)
    refunded = {"tool_name_0": "refund", "tool_args_0": {"order": "o-17"}, "observation_0": "done"}
    looked = {"tool_name_0": "find_order", "tool_args_0": {"order": "o-21"}, "observation_0": "not refundable"}
    for task, calls in (("Refund the order o-17", refunded), ("Refund the order o-21", looked)):
        trace = {"task": task, "trajectory": calls, "answer": "."}
        learner.learn_from_traces([trace], [True], read_only=["find_order"])
    found = book.explain("Refund the order o-18")
    assert [bullet.tool_sequence for bullet in found.bullets] == [("refund",)]
    (near,) = found.near
    assert near.bullet.tool_sequence == ("find_order",)
    assert near.why == "changes nothing, and another lesson changes something in the same situation"


def test_an_explanation_after_another_process_has_purged(book, tmp_path, monkeypatch):
    monkeypatch.setattr("ace.playbook.state.REFRESH_SECONDS", 0.0)
    book.commit([Add(bullet=bullet("ship parcels"))])
    book.explain("ship parcels")
    with opened(tmp_path / "book.db") as other:
        other.purge(text="parcels")
        other.commit([Add(bullet=bullet("water the plants"))])
        assert book.explain("ship it").bullets == other.explain("ship it").bullets
