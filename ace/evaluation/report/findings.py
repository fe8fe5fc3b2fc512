"""Where an arm helps and where it hurts: families, bullets, single tasks, and how it goes on while it learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ace.evaluation.report.models import (
    BulletEffect,
    CalibrationReport,
    ConfidenceBin,
    CurvePoint,
    FamilyEffect,
    Interval,
    RunReport,
    TaskEffect,
)
from ace.evaluation.stats import calibration, difference, learning_curve, share

MIN_RUNS = 5
"""A bullet that was shown in fewer runs is not reported."""
OUTCOMES = ("won", "lost", "equal")
MOST_BULLETS = 10
"""Of those that helped most, and of those that hurt most."""
Pair = tuple[RunReport, RunReport]
_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


def grouped(items: Iterable[tuple[_Key, _Item]]) -> dict[_Key, list[_Item]]:
    """Collect what comes with the same key: `grouped((run.arm, run) for run in runs)`."""
    found: dict[_Key, list[_Item]] = {}
    for key, item in items:
        found.setdefault(key, []).append(item)
    return found


def pairs_of(runs: Iterable[RunReport], before: str, after: str) -> list[Pair]:
    """Pair the runs of two arms by seed and task."""
    arms: dict[str, dict[tuple[int, str], RunReport]] = {before: {}, after: {}}
    for run in runs:
        if run.arm in arms:
            arms[run.arm][run.seed, run.id] = run
    both = sorted(arms[before].keys() & arms[after].keys())
    return [(arms[before][key], arms[after][key]) for key in both]


def families(pairs: Sequence[Pair]) -> list[FamilyEffect]:
    """Find what each family gains in success, the most first; the tasks of a family are drawn, with all their runs."""
    found: list[FamilyEffect] = []
    for group, some in grouped((pair[0].group, pair) for pair in pairs).items():
        gained, interval = _gained(some, [early.id for early, _ in some])
        iterations = sum(late.iterations - early.iterations for early, late in some) / len(some)
        arm, n = some[0][1].arm, len(some)
        found.append(
            FamilyEffect(after=arm, group=group, n=n, difference=gained, interval=interval, iterations=iterations)
        )
    return sorted(found, key=lambda effect: (-effect.difference, effect.group))


def bullets(pairs: Sequence[Pair], by_seed: bool = False) -> list[BulletEffect]:
    """Find what runs gain in success that were shown a bullet, the most first; not what the bullet alone caused.

    Args:
        pairs: Of two arms.
        by_seed: Whether each seed has a playbook of its own, whose ids are its own.
    """
    shown = grouped(((pair[1].seed if by_seed else None, bullet), pair) for pair in pairs for bullet in pair[1].bullets)
    found: list[BulletEffect] = []
    for (seed, bullet), some in shown.items():
        if len(some) >= MIN_RUNS:
            gained, interval = _gained(some, [early.group for early, _ in some])
            arm = some[0][1].arm
            found.append(
                BulletEffect(after=arm, bullet=bullet, seed=seed, n=len(some), difference=gained, interval=interval)
            )
    ordered = sorted(found, key=lambda effect: (-effect.difference, -effect.n, effect.bullet))
    return ordered if len(ordered) <= 2 * MOST_BULLETS else [*ordered[:MOST_BULLETS], *ordered[-MOST_BULLETS:]]


def _gained(pairs: Sequence[Pair], units: Sequence[str]) -> tuple[float, Interval]:
    before, after = ([float(pair[i].correct) for pair in pairs] for i in (0, 1))
    gained = difference(before, after, units, binary=True)
    return gained.value, gained.interval


def tasks(pairs: Sequence[Pair]) -> list[TaskEffect]:
    """Return each task, those won first and then those lost, the clearest first; each with one seed to look at."""
    found: list[TaskEffect] = []
    for task, some in grouped((pair[0].id, pair) for pair in pairs).items():
        lost = [pair for pair in some if pair[0].correct and not pair[1].correct]
        gained = [pair for pair in some if pair[1].correct and not pair[0].correct]
        change = len(gained) - len(lost)
        shown = max(gained if change > 0 else lost or some, key=lambda pair: pair[1].iterations - pair[0].iterations)
        found.append(
            TaskEffect(
                after=shown[1].arm,
                id=task,
                group=shown[0].group,
                outcome="won" if change > 0 else "lost" if change < 0 else "equal",
                gained=len(gained),
                lost=len(lost),
                n=len(some),
                seed=shown[0].seed,
                bullets=shown[1].bullets,
            )
        )
    return sorted(found, key=lambda row: (OUTCOMES.index(row.outcome), -abs(row.gained - row.lost), row.id))


def curve(runs: Iterable[RunReport], arm: str, points: int = 10) -> list[CurvePoint]:
    """Return the success of an arm over how many runs it had learned from; empty for one that does not learn."""
    rows = [run for run in runs if run.arm == arm]
    if not any(row.learned_from for row in rows):
        return []
    values = [float(row.correct) for row in rows]
    found = learning_curve(values, [row.learned_from for row in rows], [row.group for row in rows], points)
    return [
        CurvePoint(arm=arm, learned_from=step, success=point.value, interval=point.interval) for step, point in found
    ]


def calibrations(runs: Iterable[RunReport]) -> dict[str, CalibrationReport]:
    """Compare stated confidence with success, for each arm whose runs state one."""
    arms = grouped((run.arm, run) for run in runs if run.confidence is not None)
    return {arm: _calibration(rows) for arm, rows in arms.items()}


def _calibration(rows: Sequence[RunReport]) -> CalibrationReport:
    stated = [float(row.confidence or 0.0) for row in rows]
    found = calibration(stated, [row.correct for row in rows])
    bins: list[ConfidenceBin] = []
    for part in found.bins:
        of = [rows[place] for place in part.runs]
        came = share([float(row.correct) for row in of], [row.group for row in of])
        bins.append(ConfidenceBin(confidence=part.confidence, success=came.value, interval=came.interval, n=part.n))
    return CalibrationReport(n=len(rows), brier=found.brier, error=found.error, bins=bins)
