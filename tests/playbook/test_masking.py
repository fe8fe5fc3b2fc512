"""The masker finds what belongs to one person or one case, and one function masks lessons and queries."""

import itertools
import time

import pytest
from hypothesis import given, strategies as st

from ace.core.language import common_words
from ace.playbook import CallableEmbedder, Playbook
from ace.playbook.masking import PatternMasker, Span, masked, shouted


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Mail ana.b+c@shop.example.org now", "Mail email now"),
        ("See https://x.io/a?b=1 and www.shop.com/x", "See url and url"),
        ("Pay DE89 3704 0044 0532 0130 00 today", "Pay account today"),
        ("Charge 4111 1111 1111 1111", "Charge card"),
        ("Meet on 2026-03-04 or March 5th, 2026 at 14:30", "Meet on date or date at time"),
        ("Refund $12.50 and 30 EUR", "Refund money and money"),
        ("Call +49 30 1234567", "Call phone"),
        ("Ship #W237 and o-17", "Ship id and id"),
        ("Refund order 17", "Refund order number"),
        ("Write 'It is off' to them", "Write quoted to them"),
        ("Refund the order of Ana Kovač, please", "Refund the order of name, please"),
        ("I need it on Monday, NOT later", "I need it on Monday, NOT later"),
        ("See rose-garden.shop/mark, banks.info and ftp://files.bank.uk/rose", "See url url and url"),
        ("Tell rose@localhost or rose[at]banks[dot]org", "Tell email or email"),
        ("Block 192.168.0.1 and 10.22.33.44", "Block id and id"),
        ("call Dr. Brown about the lamp", "call name. name about the lamp"),
        ("talk to अभिषेक नेपाली today", "talk to name today"),
        ("talk to Pe\u0300re Noe\u0308l today", "talk to name today"),
        ("PLEASE CANCEL MY ORDER 17", "PLEASE CANCEL MY ORDER number"),
        ("Edit main.py, e.g. twice.Then rest", "Edit main.py, e.g. twice.Then rest"),
    ],
)
def test_patterns(text, found):
    assert masked(text, PatternMasker().spans(text)) == found


@given(st.text(max_size=200))
def test_spans_are_in_order_and_do_not_overlap(text):
    spans = PatternMasker().spans(text)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(one.end <= other.start for one, other in itertools.pairwise(spans))


def test_common_words_hold_no_proper_names():
    words = common_words()
    assert {"refund", "order", "cancel", "flight"} <= words
    assert not {"ana", "zbigniew", "paris", "berlin"} & words
    assert all(word == word.lower() for word in words)


def letters(texts):
    return [[text.lower().count(letter) + 0.1 for letter in "aeinorstu"] for text in texts]


class Shouting:
    """Masks every word in capitals."""

    name = "capitals-1"

    def spans(self, text):
        found, at = [], 0
        for word in text.split(" "):
            if word.isupper() and len(word) > 1:
                found.append(Span(at, at + len(word), "name"))
            at += len(word) + 1
        return found


def test_requests_that_differ_in_what_is_masked_are_one_question(tmp_path):
    with Playbook.open(tmp_path / "p.db", embedder=CallableEmbedder("letters", letters)) as book:
        book.add(section="Strategies", trigger="Refund order 1", content="Refund it.")
        assert book.index.asked("Refund order 17") == book.index.asked("Refund order 18")
        assert book.retrieve("Refund order 17") == book.retrieve("Refund order 18") != []


def test_another_masker_is_another_index(tmp_path):
    embedder = CallableEmbedder("letters", letters)
    for masker in (None, Shouting(), None):
        with Playbook.open(tmp_path / "p.db", embedder=embedder, masker=masker) as book:
            if not len(book):
                book.add(section="Strategies", trigger="Refund order 1", content="Refund it.")
            assert book.retrieve("Refund order 1")
            assert book.masker.name == ("capitals-1" if masker else "patterns-1")
            assert book.index.masked("Refund XY 17").words == ("Refund name 17" if masker else "Refund name number")


@pytest.mark.parametrize(
    ("text", "loud"),
    [
        ("CALL ROSE NOW", False),
        ("CALL ROSE BANKS NOW", True),
        ("Call Rose Banks In Paris", False),
        ("Call Rose Banks In Paris Now", True),
        ("Call Rose about the order of the day", False),
    ],
)
def test_a_few_capitals_are_names_and_many_are_not(text, loud):
    assert shouted(text) is loud


@pytest.mark.parametrize(
    ("text", "loud"),
    [
        ("PLEASE CANCEL MY", False),  # three words are few
        ("PLEASE CANCEL MY ORDER", True),
        ("Please Cancel My Order Now", False),  # five are few for a headline
        ("Please Cancel My Order Now Then", True),
        ("please cancel my order now then", False),
        ("Please cancel my Order now then", False),
    ],
)
def test_how_many_capitals_tell_nothing(text, loud):
    assert shouted(text) is loud


@pytest.mark.parametrize(
    "unit", ["a-", "a.", "a1-", "1,", "a@", "a.b/", "0-", "1.", "a_", "#a", "Jan ", "a [at] ", "(", '"', "+1 "]
)
def test_no_text_takes_time_that_grows_with_its_square(unit):
    masker, took = PatternMasker(), []
    for length in (2_000, 32_000):
        text, tries = (unit * length)[:length], []
        for _ in range(3):
            started = time.thread_time()  # of this thread alone: what else the machine does is not counted
            masker.spans(text)
            tries.append(time.thread_time() - started)
        took.append(min(tries))
    assert took[1] < 100 * took[0] + 0.1, took  # its square would be 256 times
