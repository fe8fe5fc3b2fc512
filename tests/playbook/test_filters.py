"""What a filter lets through."""

import pytest
from playbook_kit import strategy

from ace.core import PlaybookError
from ace.playbook import Add, Filters, Playbook, Provenance


def test_filters(book):
    book.commit(
        [
            Add(bullet=strategy("refund", "a", domain="shop", provenance=Provenance(task_ids=("t1",), groups=("g1",)))),
            Add(bullet=strategy("refund it", "b", domain="mail")),
            Add(bullet=strategy("refund all", "c", tenant="acme")),
            Add(bullet=strategy("refund now", "d", stage="quarantined")),
            Add(bullet=strategy("refund new", "e", tool_schema_hashes={"e": "old"})),
        ]
    )

    def found(**options):
        return {b.key[0] for b in book.retrieve("refund", k=9, **options)}

    assert found() == {"a", "b", "e"}
    assert found(domain="shop") == {"a", "e"}
    assert found(tenant="acme") == {"a", "b", "c", "e"}
    assert found(filters=Filters(exclude_tasks=("t1",))) == {"b", "e"}
    assert found(filters=Filters(exclude_groups=("g1",))) == {"b", "e"}
    assert found(filters=Filters(tools={"a": "1", "e": "new"})) == {"a"}, "a changed tool hides its bullets"
    assert found(filters=Filters(sections=("Pitfalls",))) == set()


def test_a_dict_of_filters_is_enough_and_a_name_that_is_none_is_said():
    with Playbook() as book:
        book.add(
            section="Strategies", content="Find the order first.", domain="shop", tool_sequence=("find",), tags=("vip",)
        )
        book.add(section="Strategies", content="Be kind about the order.", domain="bank")
        for filters, ids in (
            ({"has_tool_sequence": True}, ["b-1"]),
            ({"has_tool_sequence": False}, ["b-2"]),
            ({"domain": "shop"}, ["b-1"]),
            ({"tags": ["vip"], "sections": "Strategies"}, ["b-1"]),
            (Filters(domain="bank", has_tool_sequence=True), []),
        ):
            assert [bullet.id for bullet in book.retrieve("order", filters=filters)] == ids
        assert {e.id for e in book.explain("order", filters={"domain": "bank"}).bullets} == {"b-2"}
        with pytest.raises(PlaybookError, match=r"no filter 'has_tools'; there are sections, tags"):
            book.retrieve("order", filters={"has_tools": True})
