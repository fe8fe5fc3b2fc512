"""The difference of two arms on the same tasks, where families are few and outcomes are right or wrong.

Student's interval fails where differences hardly vary: six tasks gained of six give ``1.0 [1.0, 1.0]``. Here the interval is
Newcombe's square-and-add of two Wilson intervals for pairs (Newcombe, Statistics in Medicine 1998), for the number of
independent runs that makes the 2x2 table vary as much as the families do, with Student's quantile at Satterthwaite's
degrees of freedom. The correlation of the arms is shrunk where it is positive, by half a run more gained and half a run
more lost. How often it covers: `benchmarks/evaluation/coverage.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ace.core.distributions import student_cdf, student_quantile, wilson
from ace.evaluation.stats.clustered import ALIKE, LEVEL, Estimate, Labels, mean, spread

_Floats = NDArray[np.float64]
_Values = Sequence[float] | _Floats

LEAST_FAMILIES = 4
"""With fewer, nothing is said but the difference itself."""
LEAST_FAMILIES_FOR_A_FINDING = 6
"""With fewer, no interval of right or wrong leaves 0 out: all K families gained have a p of 2^(1-K)."""
HALF_A_RUN = 0.5
"""Gained, and lost, beside those that were: what shrinks a positive correlation of the arms."""

Rule = Literal["newcombe", "student", "too few families", "no variance", "no runs"]
"""How an interval was made, or why there is none."""
REASONS: dict[Rule, str] = {
    "newcombe": "right or wrong: Newcombe's interval for pairs, with as many runs as would vary like these families",
    "student": "counts: Student's interval of the families",
    "too few families": f"fewer than {LEAST_FAMILIES} families are too few for an interval",
    "no variance": "all differences are alike: they say nothing of how far others may lie",
    "no runs": "there are no runs",
}


@dataclass(frozen=True)
class PairedDifference:
    """After minus before, its interval, and the rule that gave it: `paired_difference([0] * 6, [1] * 6).rule`."""

    estimate: Estimate
    rule: Rule
    families: int

    @property
    def reason(self) -> str:
        """The rule in words."""
        return REASONS[self.rule]


def paired_difference(
    before: _Values, after: _Values, clusters: Labels = None, seeds: Labels = None, *, binary: bool | None = None
) -> PairedDifference:
    """Estimate the difference of two arms, paired by position.

    For right or wrong, the interval of 4 or 5 families reaches 0, as no test of the signs of so few families could exclude
    it; and p is never below 2^(1-K), the smallest that such a test of K families gives. For counts it is Student's interval
    from 4 families on, as it is, and so is p.

    Args:
        before: Shape (n,), finite numbers.
        after: Shape (n,), the same tasks and seeds.
        clusters: The family of each; each by itself when None.
        seeds: See `spread`.
        binary: Whether each value is right (1) or wrong (0), and no count; judged by the values when None, which cannot
            tell a count that is 1 everywhere from success.

    Returns:
        An estimate with infinite bounds, and nan for p, where there is no interval.

    Raises:
        ValueError: They are not as many, one is nan or infinite, or one that should be right or wrong is neither 0 nor 1.

    Examples:
        >>> found = paired_difference([0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1])
        >>> found.rule, round(found.estimate.low, 2), found.estimate.high, found.estimate.p
        ('newcombe', 0.26, 1.0, 0.03125)
        >>> paired_difference([1] * 6, [1] * 6, binary=False).rule  # iterations, for example
        'no variance'
    """
    x, y = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if len(x) != len(y):
        raise ValueError(f"expected as many runs of both arms, got {len(x)} and {len(y)}: argument 2 differs")
    for number, values in ((1, x), (2, y)):
        if not np.isfinite(values).all():
            raise ValueError(f"expected finite numbers, got nan or infinity in argument {number}: leave such runs out")
    yes_or_no = bool(np.isin(np.concatenate([x, y]), (0.0, 1.0)).all())
    if binary and not yes_or_no:
        raise ValueError("expected 0 or 1 for each run, as the metric is right or wrong; pass binary=False for counts")
    if not len(x):
        return _none(float("nan"), "no runs", 0)
    names: Sequence[object] = range(len(x)) if clusters is None else clusters
    changes, families = y - x, len(set(names))
    value = float(changes.mean())
    if families < LEAST_FAMILIES:
        return _none(value, "too few families", families)
    if not (yes_or_no if binary is None else binary):
        estimate = mean(changes, names, seeds)
        return PairedDifference(estimate, "student" if math.isfinite(estimate.low) else "no variance", families)
    found = spread(changes, names, seeds)
    table = PairTable.of(x, y, found.variance, families)
    low, high = table.limits(student_quantile((1 + LEVEL) / 2, found.df))
    floor = 2.0 ** (1 - families)
    if families < LEAST_FAMILIES_FOR_A_FINDING:
        low, high = min(low, 0.0), max(high, 0.0)
    estimate = Estimate(value, max(-1.0, low), min(1.0, high), max(floor, table.p(found.df)))
    return PairedDifference(estimate, "newcombe", families)


def difference(
    before: _Values, after: _Values, clusters: Labels = None, seeds: Labels = None, *, binary: bool | None = None
) -> Estimate:
    """Estimate as `paired_difference` does, without its rule: `difference([0, 1, 0, 0], [1, 1, 1, 0]).value`."""
    return paired_difference(before, after, clusters, seeds, binary=binary).estimate


def _none(value: float, rule: Rule, families: int) -> PairedDifference:
    return PairedDifference(Estimate(value, -math.inf, math.inf), rule, families)


@dataclass(frozen=True)
class PairTable:
    """The shares of pairs, and the number of independent ones that would vary as much.

    Examples:
        >>> table = PairTable(both=0.3, gained=0.2, lost=0.2, effective=50)
        >>> round(table.smallest_effect(df=11), 2)
        0.27
    """

    both: float
    gained: float
    lost: float
    effective: float

    @classmethod
    def of(cls, x: _Floats, y: _Floats, variance: float, families: int) -> PairTable:
        """Count runs that are right (1) or wrong (0), whose mean difference has this variance."""
        gained, lost = float(((y - x) > 0).mean()), float(((y - x) < 0).mean())
        # where nothing varies, each family counts once
        effective = float(families)
        if variance > ALIKE:
            effective = float(np.clip((gained + lost - (gained - lost) ** 2) / variance, 1, len(x)))
        return cls(float((x * y).mean()), gained, lost, effective)

    def limits(self, t: float) -> tuple[float, float]:
        """Return the limits of the interval that goes as far as Student's quantile `t`."""
        first, second = self.both + self.lost, self.both + self.gained
        (low_1, high_1), (low_2, high_2) = (wilson(share, self.effective, t) for share in (first, second))

        def together(one: float, other: float) -> float:
            return math.sqrt(max(0.0, one * one - 2 * self._phi * one * other + other * other))

        change = self.gained - self.lost
        return change - together(second - low_2, high_1 - first), change + together(first - low_1, high_2 - second)

    def p(self, df: float) -> float:
        """Return one minus the level of the interval that just reaches 0."""
        low, high = 0.0, 1.0  # of t / (1 + t)
        for _ in range(40):
            middle = (low + high) / 2
            below, above = self.limits(middle / (1 - middle))
            low, high = (low, middle) if below < 0 < above else (middle, high)
        return 2 * student_cdf(-low / (1 - low), df)

    def smallest_effect(self, df: float, power: float = 0.8) -> float:
        """Return the smallest difference that the interval would be expected to tell from 0 with a certain power.

        The first arm's share and the correlation of the arms stay as they are. Where a gain must be larger than a loss to
        show, or a loss than a gain, it is the larger of the two. The power was checked by simulation (`tests/evaluation`).

        Args:
            df: Degrees of freedom of the variance.
            power: The chance to see it.

        Returns:
            nan where neither all nor none right in the second arm would show.
        """
        t, certain = student_quantile((1 + LEVEL) / 2, df), student_quantile(power, df)
        found = (self._least(room, t, certain) for room in (1 - self.both - self.lost, -self.both - self.lost))
        return max((effect for effect in found if effect is not None), default=math.nan)

    def _least(self, room: float, t: float, certain: float) -> float | None:
        """Find how far the second arm must move towards `room`, until chance would seldom bring the interval back to 0."""
        sign = math.copysign(1, room)

        def shows(effect: float) -> bool:
            table = self._moved(sign * effect)
            low, high = table.limits(t)
            varies = table.gained + table.lost - (table.gained - table.lost) ** 2
            return (low if room > 0 else -high) > certain * math.sqrt(max(0.0, varies) / self.effective)

        low, high = 0.0, abs(room)
        if not shows(high):
            return None
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if shows(middle) else (middle, high)
        return high

    def _moved(self, change: float) -> PairTable:
        """Return the same first arm and the same correlation, with another second arm."""
        first = min(1.0, self.both + self.lost)  # rounding
        second = min(1.0, max(0.0, first + change))
        together = first * second + self._correlation(0.0) * math.sqrt(first * (1 - first) * second * (1 - second))
        both = min(first, second, max(0.0, first + second - 1, together))
        return PairTable(both, second - both, first - both, self.effective)

    @cached_property
    def _phi(self) -> float:
        """Return the correlation of the arms."""
        found = self._correlation(0.0)
        return max(0.0, self._correlation(HALF_A_RUN)) if found > 0 else found

    def _correlation(self, more: float) -> float:
        a, b, c = self.both * self.effective, self.gained * self.effective + more, self.lost * self.effective + more
        d = max(0.0, 1 - self.both - self.gained - self.lost) * self.effective
        below = math.sqrt((a + b) * (c + d) * (a + c) * (b + d))
        return (a * d - b * c) / below if below > 1e-9 else 0.0
