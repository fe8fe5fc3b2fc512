"""`RetrieveNode`."""

from __future__ import annotations

import pytest

from ace.graph.nodes import (
    RetrieveNode,
)
from ace.graph.state import Document


def test_what_a_playbook_knows_is_in_the_context(book):
    book.add(section="Strategies", trigger="Refund an order", content="Find the order first.", domain="shop")
    node = RetrieveNode(book, domain="shop", k=1)
    update = node.invoke({"user_input": "Refund order 17"})
    assert update["retrieved"][0].id == "b-1"
    assert "Find the order first." in update["context"]


@pytest.mark.parametrize(
    "found", [["a"], [{"content": "a"}], [Document(content="a")]], ids=["text", "dict", "retrieved"]
)
def test_any_retriever_will_do(found):
    assert RetrieveNode(lambda query: found * 3, k=2).invoke({"user_input": "q"})["context"] == "a\na"
