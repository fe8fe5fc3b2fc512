"""Intervals, from scipy and numpy; all at 95 %."""
# pyright: basic

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

LEVEL = 0.95


def share_interval(successes: int, n: int) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson, JASA 1927); (0, 1) without data.

    Example:
        >>> low, high = share_interval(8, 10)
        >>> round(low, 2), round(high, 2)
        (0.49, 0.94)
    """
    if n == 0:
        return 0.0, 1.0
    found = stats.binomtest(successes, n).proportion_ci(LEVEL, method="wilson")
    return float(found.low), float(found.high)


def mean_interval(
    values: Sequence[float], clusters: Sequence[str] | None = None, *, seed: int = 0, draws: int = 2_000
) -> tuple[float, float]:
    """Bootstrap percentile interval of a mean, where whole clusters are drawn: tasks of a family are no independent data.

    Args:
        values: Shape (n,).
        clusters: The cluster of each value; each value by itself when None.
        seed: Of the draws.
        draws: How many resamples.
    """
    if not values:
        return float("nan"), float("nan")
    names = list(clusters) if clusters is not None else [str(i) for i in range(len(values))]
    kinds = {name: i for i, name in enumerate(dict.fromkeys(names))}
    index = np.asarray([kinds[name] for name in names])
    sums = np.bincount(index, weights=np.asarray(values, dtype=float))
    counts = np.bincount(index)
    picks = np.random.default_rng(seed).integers(0, len(kinds), size=(draws, len(kinds)))
    means = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def share_closed(
    none: Sequence[float],
    arm: Sequence[float],
    gold: Sequence[float],
    clusters: Sequence[str],
    *,
    seed: int = 0,
    draws: int = 2_000,
) -> tuple[float, float, float]:
    """How much of the way from one arm to another a third one goes: a ratio of differences of means, with its interval.

    Whole clusters are drawn, and each draw takes the same tasks in all three arms: the arms are paired.

    Args:
        none: The start, shape (n,).
        arm: In between.
        gold: The end.
        clusters: The cluster of each task.
        seed: Of the draws.
        draws: How many resamples.

    Returns:
        Estimate, lower and upper bound; nan where start and end do not differ.

    Example:
        >>> share_closed([0, 0, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1], ["a", "b", "c", "d"])[0]
        0.75
    """
    kinds = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    index = np.asarray([kinds[name] for name in clusters])
    values = np.asarray([none, arm, gold], dtype=float)
    sums = np.stack([np.bincount(index, weights=row, minlength=len(kinds)) for row in values])
    picks = np.random.default_rng(seed).integers(0, len(kinds), size=(draws, len(kinds)))
    start, middle, end = (row[picks].sum(axis=1) for row in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (middle - start) / (end - start)
        estimate = (values[1].sum() - values[0].sum()) / (values[2].sum() - values[0].sum())
    shares = shares[np.isfinite(shares)]
    low, high = np.quantile(shares, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(shares) else (np.nan, np.nan)
    return float(estimate), float(low), float(high)
