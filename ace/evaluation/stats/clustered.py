"""Estimates from tasks that come in families: a family is drawn as a whole, and its tasks are no independent data.

With a dozen families the usual percentile bootstrap is too narrow: its "95 %" covers in 90 %. Here variances are those of
families (CR2, Bell and McCaffrey 2002), quantiles are Student's with Satterthwaite's degrees of freedom, and shares have
Wilson's shape with the effective number of tasks (Korn and Graubard 1998). How often they cover:
`benchmarks/evaluation/estimators.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ace.core.distributions import normal_quantile, student_cdf, student_quantile, wilson

LEVEL = 0.95
ALIKE = 1e-12
"""A variance below it is none, and says nothing of how far others may lie."""
_Floats = NDArray[np.float64]
Labels = Sequence[object] | None
"""Of each value: what it shares with others, its family or its seed; None for nothing."""


class Estimate(NamedTuple):
    """A number, and where it lies with 95 % confidence: `Estimate(0.4, 0.1, 0.7, p=0.01)`."""

    value: float
    low: float
    high: float
    p: float = float("nan")
    """Two-sided, against 0; nan where that is no question."""

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Low and high; None where nothing bounds it, as JSON has no infinity."""
        low, high = (bound if np.isfinite(bound) else None for bound in (self.low, self.high))
        return low, high


class Spread(NamedTuple):
    """How far a mean may be off."""

    variance: float
    df: float
    """Degrees of freedom; 0 when nothing is known."""


def spread(values: Sequence[float] | _Floats, clusters: Sequence[object], seeds: Labels = None) -> Spread:
    """Estimate the cluster-robust variance of a mean and its degrees of freedom.

    Args:
        values: Shape (n,).
        clusters: The family of each value, shape (n,).
        seeds: The seed of each value, where the runs of one seed share more than randomness, a playbook that was learned
            with it for example: then seeds are a random effect beside the families (two-way clusters, Cameron, Gelbach and
            Miller 2011). With few seeds nobody knows what they add: the degrees of freedom say so, also where it seems to be
            nothing.

    Examples:
        >>> round(spread([1.0, 2.0, 3.0, 4.0], "abcd").variance, 3)  # as for independent values: s^2 / n
        0.417
    """
    array = np.asarray(values, dtype=float)
    families = _one_way(array, clusters)
    if seeds is None or not families.df:
        return families
    parts = (families, _one_way(array, seeds), _cells(array, clusters, seeds))
    if not all(part.df for part in parts):  # one seed only
        return families
    variance = families.variance + max(0.0, parts[1].variance - parts[2].variance)
    if not variance > ALIKE:
        return families
    least = min(parts[0].df, parts[1].df)
    if parts[1].df < 2:  # of two seeds nobody knows how far a third may lie
        return Spread(variance, least)
    unsure = sum(part.variance**2 / part.df for part in parts)
    return Spread(variance, max(variance**2 / unsure, least))


def _cells(values: _Floats, clusters: Sequence[object], seeds: Sequence[object]) -> Spread:
    return _one_way(values, list(zip(clusters, seeds, strict=True)))


def _by_seed(values: _Floats, clusters: Sequence[object], seeds: Sequence[object]) -> float:
    """Estimate what seeds add to the variance of families; below 0 or nan when they add nothing."""
    return _one_way(values, seeds).variance - _cells(values, clusters, seeds).variance


def _one_way(values: _Floats, clusters: Sequence[object]) -> Spread:
    kinds = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    index = np.asarray([kinds[name] for name in clusters], dtype=np.int64)
    sizes, n = np.bincount(index).astype(float), len(values)
    if len(sizes) < 2:
        return Spread(float("nan"), 0.0)
    residuals = np.bincount(index, weights=values - values.mean())
    scale = 1 / np.sqrt(1 - sizes / n)  # CR2: a large family pulls the mean to itself
    variance = float(np.sum((scale * residuals) ** 2)) / n**2
    # the moments of a sum of squares of normal numbers whose covariance is `mixing` (Bell and McCaffrey), in O(families)
    trace = float(np.sum(scale**2 * sizes * (1 - sizes / n)))
    squares = scale**2 * sizes
    of_squares = float(np.sum(squares**2 * (1 - 2 * sizes / n)) + np.sum(squares * sizes / n) ** 2)
    return Spread(variance, trace**2 / of_squares)


def mean(values: Sequence[float] | _Floats, clusters: Labels = None, seeds: Labels = None) -> Estimate:
    """Estimate a mean with Student's interval.

    Args:
        values: Shape (n,), any finite numbers.
        clusters: The family of each; each by itself when None.
        seeds: See `spread`.

    Examples:
        >>> mean([3.0, 4.0, 8.0, 9.0], ["a", "a", "b", "b"]).value
        6.0
    """
    array = np.asarray(values, dtype=float)
    if not len(array):
        return Estimate(float("nan"), float("nan"), float("nan"))
    return _student(float(array.mean()), spread(array, _names(clusters, len(array)), seeds))


def share(values: Sequence[float] | _Floats, clusters: Labels = None, seeds: Labels = None) -> Estimate:
    """Estimate a share with Wilson's interval, for as many independent tasks as would vary as much as these families do.

    Args:
        values: Shape (n,), each from 0 to 1: right or wrong, or a task's share of right runs.
        clusters: The family of each; each by itself when None.
        seeds: See `spread`.

    Examples:
        >>> found = share([1.0] * 8 + [0.0] * 2)
        >>> round(found.low, 2), round(found.high, 2)
        (0.43, 0.96)
    """
    array = np.asarray(values, dtype=float)
    n = len(array)
    if not n:
        return Estimate(float("nan"), 0.0, 1.0)
    names = _names(clusters, n)
    p, found = float(array.mean()), spread(array, names, seeds)
    if not found.df:
        return Estimate(p, 0.0, 1.0)
    # families that do not differ are no evidence of how alike their tasks are: then each counts once
    effective = p * (1 - p) / found.variance if found.variance > ALIKE else float(len(set(names)))
    return Estimate(p, *wilson(p, effective, _quantile(found.df)))


def share_interval(successes: int, n: int) -> tuple[float, float]:
    """Return Wilson's score interval of a share of independent trials (Wilson, JASA 1927); (0, 1) without data.

    Examples:
        >>> low, high = share_interval(8, 10)
        >>> round(low, 2), round(high, 2)
        (0.49, 0.94)
    """
    if n == 0:
        return 0.0, 1.0
    return wilson(successes / n, n, normal_quantile((1 + LEVEL) / 2))


def ratio(
    over: Sequence[float] | _Floats,
    under: Sequence[float] | _Floats,
    clusters: Labels = None,
    seeds: Labels = None,
) -> Estimate:
    """Estimate a ratio of two means of the same tasks, with Fieller's interval (1954).

    Args:
        over: The numerator's values, shape (n,).
        under: The denominator's, shape (n,).
        clusters: The family of each.
        seeds: See `spread`.

    Returns:
        Infinite bounds where the denominator may be 0.

    Examples:
        >>> ratio([1.0, 2.0, 3.0, 2.0], [2.0, 4.0, 6.0, 4.0]).value
        0.5
    """
    above, below = np.asarray(over, dtype=float), np.asarray(under, dtype=float)
    nothing = Estimate(float("nan"), float("-inf"), float("inf"))
    if not len(below) or not below.mean():
        return nothing
    names = _names(clusters, len(above))
    a, b = above.mean(), below.mean()
    rest = above - a / b * below
    found = spread(rest, names, seeds)
    if not found.variance > ALIKE:
        return nothing._replace(value=float(a / b))
    # one decision about seeds for all three, or their covariance would be none
    add = seeds if seeds is not None and _by_seed(rest, names, seeds) > 0 else None
    va, vb, both = (
        _one_way(column, names).variance + (_by_seed(column, names, add) if add is not None else 0.0)
        for column in (above, below, above + below)
    )
    cov, t2 = (both - va - vb) / 2, _quantile(found.df) ** 2
    # the values r for which a - r b is not different from 0
    qa, qb, qc = b * b - t2 * vb, a * b - t2 * cov, a * a - t2 * va
    inside = qb * qb - qa * qc
    if qa <= 0:
        return nothing._replace(value=float(a / b))
    half = float(np.sqrt(max(0.0, inside)))  # below 0 by rounding only, when the two are proportional
    return Estimate(float(a / b), float((qb - half) / qa), float((qb + half) / qa))


def share_closed(
    none: Sequence[float],
    arm: Sequence[float],
    gold: Sequence[float],
    clusters: Sequence[object],
    seeds: Labels = None,
) -> Estimate:
    """Estimate how much of the way from one arm to another a third one goes: a ratio of differences, paired by position.

    Args:
        none: The start, shape (n,).
        arm: In between.
        gold: The end.
        clusters: The family of each task.
        seeds: See `spread`.

    Returns:
        nan where start and end do not differ, and infinite bounds where they may not.

    Examples:
        >>> share_closed([0, 0, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1], ["a", "b", "c", "d"]).value
        0.75
    """
    start = np.asarray(none, dtype=float)
    return ratio(np.asarray(arm, dtype=float) - start, np.asarray(gold, dtype=float) - start, clusters, seeds)


def _names(clusters: Labels, n: int) -> Sequence[object]:
    return range(n) if clusters is None else clusters


def _student(value: float, found: Spread) -> Estimate:
    if not found.variance > ALIKE:
        return Estimate(value, float("-inf"), float("inf"))
    error = float(np.sqrt(found.variance))
    half = _quantile(found.df) * error
    return Estimate(value, value - half, value + half, 2 * student_cdf(-abs(value) / error, found.df))


def _quantile(df: float) -> float:
    return student_quantile((1 + LEVEL) / 2, df)
