"""English: lists of words, and words without their endings."""

import pytest

from ace.core.language import ANTONYMS, FUNCTION_WORDS, NUMBERS, common_words, name_as_text, stem, stems, undoubled


def test_what_tells_nothing_is_there_and_what_tells_something_is_not():
    assert {"the", "of", "she", "would", "not", "because", "seven", "again"} <= FUNCTION_WORDS
    assert FUNCTION_WORDS.isdisjoint(
        {"forward", "cancel", "refund", "second", "like", "send", "delete", "pay", "order"}
    )
    assert all(word == word.lower().strip() and word for word in FUNCTION_WORDS)


@pytest.mark.parametrize(
    ("word", "without"),
    [
        ("refunding", "refund"),
        ("refunds", "refund"),
        ("rated", "rat"),  # three letters have to be left
        ("used", "used"),
        ("ring", "ring"),
        ("cancellations", "cancel"),
        ("cancelled", "cancel"),
        ("stopped", "stop"),
        ("ties", "tie"),
        ("flies", "fli"),
    ],
)
def test_a_word_without_its_ending_keeps_three_letters(word, without):
    assert undoubled(stem(word)) == without


def test_a_name_that_code_gave_is_read_as_its_words():
    assert name_as_text("send_mail, sendMail, mail.send") == "send mail, send Mail, mail send"
    assert stems("findOrders of_the shop") == {"find", "ord", "shop"} - FUNCTION_WORDS


def test_words_count_oppose_and_are_common():
    assert (NUMBERS["twelve"], NUMBERS["dozen"], NUMBERS["twice"]) == ("12", "12", "2x")
    assert frozenset(("before", "after")) in ANTONYMS
    assert {"refund", "order"} <= common_words()
    assert "ana" not in common_words()
