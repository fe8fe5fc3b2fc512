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
