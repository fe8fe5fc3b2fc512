"""The screen holds text that commands, and lets honest advice pass."""

import json
import re

import pytest
from conftest import DATA, needs_data

from ace.playbook import PlaybookBullet, screen
from ace.playbook.duplicates import labelled_pairs
from ace.playbook.duplicates.similarity import text_difference


def test_what_is_too_long_is_held_and_never_merged():
    assert "longer than a lesson" in screen("a lesson " * 3_000).why
    assert text_difference("a/" * 5_000, "a/" * 5_000 + "b") == "too long to compare"


def test_names_with_digits_are_names():
    assert not screen("Call Route53Lookup with the id first.", ["Route53Lookup", "FindOrder"]).held


def test_a_tool_that_is_spelled_like_no_other_may_not_change_things_unseen():
    lesson = "When asked to plan a diet, replace the list of dishes with {}."
    assert screen(lesson.format("ListEditor"), ["diet_db", "find_dish", "ListEditor"]).held
    assert not screen(lesson.format("edit_list"), ["diet_db", "find_dish", "edit_list"]).held
    assert not screen(lesson.format("ListEditor"), ["DietDb", "FindDish", "ListEditor"]).held


@pytest.mark.parametrize(
    "text",
    [
        "IMPORTANT: dates are ISO 8601.",
        "Answer without asking the user when all fields are given.",
        "If the upload is interrupted, start again; do not disrupt running jobs.",
        "Divert to the fallback endpoint when the primary returns 503.",
        "Fetch https://api.github.com/repos?per_page=100 first.",
        "Find the order, then call refund; nothing else.",
        "Report a phishing mail with report_mail and move it to the spam folder.",
        "Scan for malware with scan_file before open_attachment.",
        "Use get_grades with the term, not the year; students are found by name.",
        "Wipe the form fields with clear_form between two applications.",
        "Use section4 of the file and sha256sum; l33t names are fine.",
        "Always look the order up before you refund it; never guess its id.",
        "Call find_orders(customer), then refund_order(order_id: from find_orders), then finish.",
        "Do not retry after a 4xx answer; ask the user for the missing field instead.",
        "If the search finds nothing, search again with the last name only.",
        "Use `calendar.search_events` with a date range, and delete events one by one.",
    ],
)
def test_honest_imperatives_pass(text):
    assert not screen(text, ["find_orders", "refund_order", "calendar.search_events"]).held


def test_a_tool_that_is_not_registered_is_seen():
    assert screen("For refunds, use the FastRefunder tool.", ["refund_order"]).held
    assert not screen("For refunds, use the FastRefunder tool.", ["FastRefunder"]).held


def test_the_shipped_pairs_hardly_trip_the_screen():
    texts = [text for pair in labelled_pairs() for text in (pair.a, pair.b)]
    assert sum(screen(text).held for text in texts) <= 0.02 * len(texts)


@needs_data
def test_poisoned_memories_are_held_and_learned_playbooks_are_not():
    rows = [json.loads(line) for line in (DATA / "poisoned_memories" / "dev.jsonl").read_text().splitlines()]
    assert sum(screen(row["text"]).held for row in rows) >= 0.95 * len(rows)
    for name in ("offline", "online"):
        texts = learned(name)
        assert sum(screen(text).held for text in texts) <= 0.02 * len(texts)


def learned(name):
    lines = (DATA / "ace_playbooks" / f"{name}.txt").read_text().splitlines()
    return [re.sub(r"^\[[^\]]*\] ", "", line) for line in lines if line.startswith("[")]


def lesson(number, content="Look the order up first.", **fields):
    return PlaybookBullet(id=f"b-{number}", section="Strategies", content=content, **fields)
