"""Lessons never merge across a negation, a number or a tool name, however alike they read."""

import numpy as np
import pytest
from learner.runs import run_of, step

from ace import Feedback, Learner, Playbook
from ace.curator import Curator
from ace.playbook import CallableEmbedder
from ace.playbook.bullet import Provenance
from ace.playbook.insight import Insight


def bags(texts):
    """Vectors of words: what shares words is near."""
    rows = np.zeros((len(texts), 512), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row[sum(map(ord, word)) % 512] += 1
    return rows


def book_of(*runs):
    book = Playbook(embedder=CallableEmbedder("bags", bags))
    learner = Learner(book, curator=Curator(book, 0.75))
    for number, (text, *steps) in enumerate(runs):
        learner.learn(run_of(*steps, text=text, run_id=f"r{number}", task_id=f"t{number}"), Feedback(success=True))
    return [bullet for bullet in book.bullets if bullet.section == "Strategies"]


def mail(**args):
    return step("send_mail", changes=True, **args)


@pytest.mark.parametrize(
    ("one", "other", "args"),
    [
        (
            "Please do not refund the order of the customer and mail him",
            "Please do refund the order of the customer and mail him",
            ({}, {}),
        ),
        (
            "Please do NOT refund the order of the customer and mail him",
            "Please do refund the order of the customer and mail him",
            ({}, {}),
        ),
        ("Tell Ana not to ship the order today", "Tell Bo to ship the order today", ({"to": "Ana"}, {"to": "Bo"})),
        ("Order two items of soap", "Order three items of soap", ({"n": "two"}, {"n": "three"})),
        ("Refund 20.5 euros to the customer", "Refund 30.75 euros to the customer", ({"n": 20.5}, {"n": 30.75})),
        ("Take 2, items off the list", "Take 20% items off the list", ({"n": "2,"}, {"n": "20%"})),
        ("Mark the invoice as paid", "Mark the invoice as unpaid", ({"s": "paid"}, {"s": "unpaid"})),
    ],
)
def test_mined_strategies_stay_apart(one, other, args):
    bullets = book_of((one, mail(**args[0])), (other, mail(**args[1])))
    assert all(len(bullet.provenance.run_ids) == 1 for bullet in bullets)


def test_what_is_only_filled_in_still_merges():
    (bullet,) = book_of(
        ("Tell Ana to ship the order on 2026-03-01", mail(to="Ana", day="2026-03-01")),
        ("Tell Bo to ship the order on 2026-04-12", mail(to="Bo", day="2026-04-12")),
    )
    assert bullet.provenance.run_ids == ("r0", "r1")


def test_two_ways_to_read_are_two_lessons():
    wiki, base = step("search_wiki", "2M", q="Paris"), step("query_db", "2M", city="Paris")
    bullets = book_of(("Find the population of Paris", wiki), ("Find the population of Paris", base))
    assert [bullet.tool_sequence for bullet in bullets] == [("search_wiki",), ("query_db",)]


def curated(one, other):
    book = Playbook(embedder=CallableEmbedder("bags", bags))
    curator = Curator(book, 0.75)
    for number, (trigger, content) in enumerate((one, other)):
        lesson = Insight(
            section="Pitfalls", trigger=trigger, content=content, provenance=Provenance(run_ids=(f"r{number}",))
        )
        book.commit(curator.curate([lesson], {}))
    return [bullet.provenance.run_ids for bullet in book.bullets]


ASK = "Ask for the order number before any refund is made"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("When the customer does not have a receipt", ASK), ("When the customer does have a receipt", ASK)),
        (("When the customer does NOT have a receipt", ASK), ("When the customer does have a receipt", ASK)),
        (
            ("When a call of GetOrder fails for a customer", ASK),
            ("When a call of CancelOrder fails for a customer", ASK),
        ),
        (
            ("When a call of get_order fails for a customer", ASK),
            ("When a call of cancel_order fails for a customer", ASK),
        ),
        (("When prices are in EUR for the shop", ASK), ("When prices are in USD for the shop", ASK)),
        (
            ("When refund is asked", "You should refund the order to the customer"),
            ("When refund is asked", "You should not refund the order to the customer"),
        ),
        (
            ("", "create_order_item needs open_order first: it failed before that call and worked after it."),
            ("", "delete_order_item needs open_order first: it failed before that call and worked after it."),
        ),
        (
            ("", "create_order needs open_order first: it failed before that call and worked after it."),
            ("", "open_order needs create_order first: it failed before that call and worked after it."),
        ),
        (
            (
                "",
                "refund failed (refused); it worked with order from find_orders, not from the task.",
            ),
            (
                "",
                "refund failed (refused); it worked with order from the task, not from find_orders.",
            ),
        ),
    ],
)
def test_reflected_lessons_and_details_stay_apart(one, other):
    assert curated(one, other) == [("r0",), ("r1",)]


def test_the_same_lesson_again_is_evidence():
    assert curated(("When a refund is asked", ASK), ("When a refund is asked", ASK)) == [("r0", "r1")]
