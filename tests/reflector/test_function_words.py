"""Words that tell nothing of what a text is about."""

from ace.reflector.function_words import FUNCTION_WORDS


def test_what_tells_nothing_is_there_and_what_tells_something_is_not():
    assert {"the", "of", "she", "would", "not", "because", "seven", "again"} <= FUNCTION_WORDS
    assert FUNCTION_WORDS.isdisjoint(
        {"forward", "cancel", "refund", "second", "like", "send", "delete", "pay", "order"}
    )
    assert all(word == word.lower().strip() and word for word in FUNCTION_WORDS)
