"""The table of bullets, and what is done while one is read."""

import gc
from contextlib import suppress

import pytest
from playbook_kit import strategy

from ace.playbook import Add, Filters, Playbook, Provenance
from ace.playbook.table import collector_paused


@pytest.mark.parametrize("running", [True, False])
def test_the_collector_rests_while_a_book_is_read_and_goes_on_as_it_was(running):
    before = gc.isenabled()
    try:
        (gc.enable if running else gc.disable)()
        with suppress(KeyError), collector_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is running
    finally:
        (gc.enable if before else gc.disable)()


def test_a_guard_leaves_out_what_rests_on_a_task_everywhere(embedder):
    with Playbook(embedder=embedder) as book:
        for task in ("t-1", "t-2"):
            evidence = Provenance(task_ids=(task,), groups=(f"of {task}",))
            book.commit([Add(bullet=strategy(f"Refund {task}", task, provenance=evidence))])
        table, guard = book._state.bullets, Filters(exclude_tasks=("t-1",))
        group = Filters(exclude_groups=("of t-2",))
        assert list(map(table.allowing(guard, None, None), (1, 2))) == [False, True]
        assert list(map(table.allowing(Filters(), None, None), (1, 2))) == [True, True]
        assert list(map(table.allowing(group, None, None), (1, 2))) == [True, False]
        assert table.why_excluded(1, guard, None, None) == "it rests on a task that is left out"
        assert table.why_excluded(2, guard, None, None) == ""
        assert table.why_excluded(1, Filters(), None, None) == ""
        assert [b.id for b in book.retrieve("Refund t-1", filters=guard)] == ["b-2"]
