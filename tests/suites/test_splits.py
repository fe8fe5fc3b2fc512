"""Splits of a suite's tasks."""

import json
from datetime import datetime

import pytest

from ace.core import SuiteError
from ace.suites import load_suite, split
from ace.suites.files import FileSuite

SHOP = '''
"""A shop."""
from typing import Any

READ_ONLY = {"find_order"}


def find_order(state: dict[str, Any], order: str) -> str:
    """Look an order up."""
    return state["orders"].get(order, "Error: order not found")


def refund(state: dict[str, Any], order: str, amount: float = 10.0) -> str:
    """Refund an order."""
    state.setdefault("refunds", []).append([order, amount])
    return "done"
'''


def rows():
    for number in range(6):
        call = {"name": "refund", "args": {"order": f"o{number}"}}
        yield {
            "id": f"refund-{number}",
            "task": f"Refund order o{number}",
            "gold": [{"name": "find_order", "args": {"order": f"o{number}"}}, call],
            "family": f"refunds {number % 2}",
            "split": "train" if number < 2 else "test",
            "time": f"2026-01-0{9 - number}",
        }
    yield {"id": "status", "task": "What is the status of o1?", "answer": ["open", "not closed"], "gold": [], "split": "train",
           "time": "2026-01-01T00:00:00Z"}  # fmt: skip


def write(folder, tasks, tools=SHOP):
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tasks), encoding="utf-8")
    (folder / "tools.py").write_text(tools, encoding="utf-8")
    state = {"orders": {f"o{n}": "open" for n in range(6)}}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


@pytest.fixture
def shop(tmp_path):
    return FileSuite.from_folder(write(tmp_path, rows()))


def test_tasks_without_families_are_split_by_chance(tmp_path):
    alone = [{**row, "family": "", "split": ""} for row in rows()]
    first, second = split(FileSuite.from_folder(write(tmp_path, alone)).tasks)
    assert sorted((len(first), len(second))) == [3, 4]


def test_splits(shop):
    sizes = {how: tuple(map(len, split(shop.tasks, how))) for how in ("", "own", "halves", "random:0.3", "time:0.6")}
    assert sizes == {"": (3, 4), "own": (3, 4), "halves": (5, 2), "random:0.3": (2, 5), "time:0.6": (4, 3)}
    first, second = split(shop.tasks, "family:0.4", seed=3)
    assert not {task.group for task in first} & {task.group for task in second}
    first, second = split(shop.tasks, "time:0.5")
    whens = [task.time.replace(tzinfo=None) for task in (*first, *second)]
    assert whens == sorted(whens)
    assert isinstance(whens[0], datetime)
    assert split(shop.tasks, "random", seed=1) == split(shop.tasks, "random", seed=1)
    office = load_suite("office").tasks
    for how, message in (("own", "200 do not"), ("time", "have none"), ("thirds", "no split"), ("random:2", "between 0 and 1"),
                         ("halves:0.2", "no split")):  # fmt: skip
        with pytest.raises(SuiteError, match=message):
            split(office, how)
    with pytest.raises(SuiteError, match="leaves one part empty"):
        split(office[:1])
