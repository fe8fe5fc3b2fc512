"""Splits of a suite's tasks."""

from datetime import datetime

import pytest
from suite_shop import rows, write

from ace.core import SuiteError
from ace.suites import load_suite, split
from ace.suites.files import FileSuite


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
