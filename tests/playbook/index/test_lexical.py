"""The lexical index."""

import pytest

from ace.core.language import column
from ace.playbook.index import lexical
from ace.playbook.index.lexical import LexicalIndex


def test_the_lexical_ranking_does_not_depend_on_the_order_of_changes():
    texts = {n: f"{'refund' if n % 2 else 'cancel'} order {n % 7} of customer{n}" for n in range(40)}
    one, other = LexicalIndex(), LexicalIndex()
    one.put(texts)
    for number in reversed(texts):
        other.put({number: "something else"})
        other.search("warm up", 3)
        other.put({number: texts[number]})
    other.put({99: "refund"})
    other.remove([99, 100])
    query = "refund order 3 of customer11"
    (ids, scores), (other_ids, other_scores) = one.search(query, 40), other.search(query, 40)
    assert ids == other_ids
    assert scores == pytest.approx(other_scores, abs=1e-6)
    assert one.search("nothing shared", 5) == ([], [])
    assert LexicalIndex().search("x", 5) == ([], [])
    assert one.search("", 5) == ([], [])


def test_the_best_match_comes_first_and_equal_ones_by_number():
    index = LexicalIndex()
    index.put({0: "cancel order", 2: "refund order", 1: "refund order"})
    numbers, scores = index.search("refund order", 3)
    assert numbers == [1, 2, 0]
    assert scores[0] == scores[1] > scores[2] > 0


def test_a_large_index_weighs_its_words_again_once_a_share_has_changed(monkeypatch):
    monkeypatch.setattr(lexical, "MANY", 4)
    index = LexicalIndex()
    index.put(dict.fromkeys(range(20), "refund order"))
    assert index.search("parcel", 3) == ([], [])
    few = int(20 * lexical.OUTDATED_SHARE)
    index.put({100 + number: "parcel" for number in range(few)})
    index.put({200 + number: "parcel" for number in range(few + 2)})
    assert len(index.search("parcel", 50)[0]) == 2 * few + 2


def test_a_word_that_every_text_has_is_found_and_weighs_less_than_a_rare_one():
    index = LexicalIndex()
    index.put({0: "order parcel", 1: "order stamp", 2: "order stamp"})
    assert sorted(index.search("order", 3)[0]) == [0, 1, 2]
    numbers, scores = index.search("order parcel", 3)
    assert numbers[0] == 0
    assert scores[0] == pytest.approx(1.0, abs=1e-6)
    assert 0 < scores[1] < 0.5


def test_a_word_of_which_only_the_column_is_known_is_found_like_the_word_itself():
    index = LexicalIndex()
    index.put({1: "refund order", 2: "order"}, {2: [column("watchlist")]})
    assert index.search("watchlist", 5)[0] == [2]
    assert index.search("nothing", 5, hidden=[column("watchlist")])[0] == [2]
    assert index.known([column("watchlist"), column("refund"), column("nobody")]) == (
        column("watchlist"),
        column("refund"),
    )
    assert LexicalIndex().known([1]) == ()


def test_one_text_that_is_put_or_removed_counts_at_once():
    index = LexicalIndex()
    index.put({0: "refund order"})
    assert index.search("parcel", 3) == ([], [])
    index.put({1: "send parcel"})
    assert index.search("parcel", 3)[0] == [1]
    index.remove([1])
    assert index.search("parcel", 3) == ([], [])
