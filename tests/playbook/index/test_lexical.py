"""The lexical index."""

import pytest

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
