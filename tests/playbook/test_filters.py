"""What a filter lets through."""

from playbook_kit import strategy

from ace.playbook import (
    Add,
    Filters,
    Provenance,
)


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
