"""Two parts of a suite: tasks to learn from, and tasks to compare on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

from ace.core import SuiteError
from ace.suites.protocol import SuiteTask

Parts = tuple[list[SuiteTask], list[SuiteTask]]
SPLITS = ("halves", "random", "family", "time", "own")
DEFAULT_SHARE = 0.5


def default_split(tasks: Sequence[SuiteTask]) -> str:
    """Return `own` where tasks have a `split`; `halves`, or `random` where each task is a family by itself."""
    if any(task.split for task in tasks):
        return "own"
    return "halves" if len({task.group for task in tasks}) < len(tasks) else "random"


def split(tasks: Sequence[SuiteTask], how: str = "", *, seed: int = 0) -> Parts:
    """Split tasks in two.

    Args:
        tasks: In any order; both parts keep it, except that `time` sorts.
        how: ``halves``: every family, one task here and the next there. ``random``: each task at random.
            ``family``: whole families, so that the second part holds none that were learned from. ``time``: the earliest
            first. ``own``: as the tasks' `split` says. ``NAME:SHARE``, as in ``family:0.7``, sets the first part's share of
            `random`, `family` and `time`; a half by default. Empty for `default_split`.
        seed: Of the draw.

    Raises:
        SuiteError: There is no such split, the tasks lack what it needs, or a part is empty.

    Examples:
        >>> from ace.suites import load_suite
        >>> first, second = split(load_suite("office").tasks, "family:0.8")
        >>> len(first), len(second), {t.group for t in first} & {t.group for t in second}
        (160, 40, set())
    """
    name, _, text = (how or default_split(tasks)).partition(":")
    share = _share(how, name, text)
    if name == "halves":
        parts = halves(tasks)
    elif name == "own":
        parts = _own(tasks)
    elif name == "time":
        parts = _by_time(tasks, share)
    else:
        units = sorted({task.group if name == "family" else task.id for task in tasks})
        drawn = set(random.Random(f"{seed}|{name}").sample(units, round(share * len(units))))
        parts = _by(tasks, [(task.group if name == "family" else task.id) in drawn for task in tasks])
    if not all(parts):
        raise SuiteError(
            f"the split {how or name!r} of {len(tasks)} tasks in {len({t.group for t in tasks})} families leaves one part "
            "empty; expected another split, random for example"
        )
    return parts


def halves(tasks: Sequence[SuiteTask]) -> Parts:
    """Split every family in two, `halves(suite.tasks)`: its 1st, 3rd, 5th ... task, and the others."""
    seen: dict[str, int] = {}
    first: list[bool] = []
    for task in tasks:
        count = seen[task.group] = seen.get(task.group, 0) + 1
        first.append(count % 2 == 1)
    return _by(tasks, first)


def _by(tasks: Sequence[SuiteTask], first: Sequence[bool]) -> Parts:
    pairs = list(zip(tasks, first, strict=True))
    return [task for task, here in pairs if here], [task for task, here in pairs if not here]


def _share(how: str, name: str, text: str) -> float:
    if name not in SPLITS or (text and name in ("halves", "own")):
        raise SuiteError(f"no split {how!r}; there are halves, own, and random, family and time, as in family:0.7")
    try:
        share = float(text) if text else DEFAULT_SHARE
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise SuiteError(f"the split {how!r}: expected a share between 0 and 1 after the colon, as in family:0.7")
    return share


def _own(tasks: Sequence[SuiteTask]) -> Parts:
    unset = [task.id for task in tasks if task.split not in ("train", "test")]
    if unset:
        raise SuiteError(
            f"the split 'own' needs tasks that have 'train' or 'test' as `split`; {len(unset)} do not, {unset[0]!r} is one"
        )
    return _by(tasks, [task.split == "train" for task in tasks])


def _by_time(tasks: Sequence[SuiteTask], share: float) -> Parts:
    missing = [task.id for task in tasks if task.time is None]
    if missing:
        raise SuiteError(f"the split 'time' needs tasks with a `time`; {len(missing)} have none, {missing[0]!r} is one")
    ordered = sorted(tasks, key=_when)
    cut = round(share * len(ordered))
    return ordered[:cut], ordered[cut:]


def _when(task: SuiteTask) -> datetime:
    assert task.time is not None
    return task.time if task.time.tzinfo else task.time.replace(tzinfo=UTC)
