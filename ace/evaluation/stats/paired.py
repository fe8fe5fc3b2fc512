"""Two arms on the same tasks: is the difference more than chance, and how large would one have to be to show?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ace.core.distributions import student_quantile
from ace.evaluation.stats.clustered import LEVEL, Estimate, Labels, spread
from ace.evaluation.stats.differences import (
    LEAST_FAMILIES_FOR_A_FINDING,
    PairedDifference,
    PairTable,
    paired_difference,
)


class Comparison(NamedTuple):
    """One metric of two arms on the same runs."""

    paired: PairedDifference
    """After minus before, and how its interval was made."""
    gained: int
    """Runs that only the second arm got right; 0 for what is no yes or no."""
    lost: int
    """Runs that only the first arm got right."""
    mcnemar: float
    """Mid-p value, for runs that are independent; nan for what is no yes or no."""
    smallest_effect: float
    """What these tasks would have shown with a power of 80 %, by the rule of the interval; nan where no difference would:
    there is no interval, it always reaches 0 as with few families, or it is too wide."""

    @property
    def difference(self) -> Estimate:
        """After minus before; its p value respects families."""
        return self.paired.estimate


def compare(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Labels = None,
    seeds: Labels = None,
    *,
    binary: bool | None = None,
) -> Comparison:
    """Compare two arms, paired by position.

    Args:
        before: Shape (n,); only 0 and 1 for McNemar's test.
        after: Shape (n,), the same tasks and seeds.
        clusters: The family of each; each by itself when None.
        seeds: See `spread`.
        binary: Whether each value is right or wrong, see `paired_difference`.

    Raises:
        ValueError: They are not as many, or not what `binary` says.

    Examples:
        >>> found = compare([0, 0, 0, 1], [1, 1, 0, 1], ["a", "a", "b", "b"])
        >>> found.difference.value, found.gained, found.lost
        (0.5, 2, 0)
    """
    if binary is None:
        binary = set(before) | set(after) <= {0, 1}
    found = paired_difference(before, after, clusters, seeds, binary=binary)
    gained = sum(late > early for early, late in zip(before, after, strict=True)) if binary else 0
    lost = sum(late < early for early, late in zip(before, after, strict=True)) if binary else 0
    return Comparison(
        paired=found,
        gained=gained,
        lost=lost,
        mcnemar=mid_p(gained, lost) if binary else float("nan"),
        smallest_effect=_smallest_effect(found, before, after, clusters, seeds),
    )


def _smallest_effect(
    found: PairedDifference, before: Sequence[float], after: Sequence[float], clusters: Labels, seeds: Labels
) -> float:
    """Apply the rule that gave the interval; nan where it gave none, or one that always reaches 0."""
    few = found.rule == "newcombe" and found.families < LEAST_FAMILIES_FOR_A_FINDING
    if found.rule not in ("newcombe", "student") or few:
        return math.nan
    x, y = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    known = spread(y - x, range(len(x)) if clusters is None else clusters, seeds)
    if found.rule == "student":
        return smallest_effect(known.variance, known.df)
    return PairTable.of(x, y, known.variance, found.families).smallest_effect(known.df)


def mcnemar(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Compute McNemar's test with the mid-p value (Fagerland, Lydersen and Laake 2013): for tasks that are independent.

    Args:
        before: Whether each task was solved, shape (n,).
        after: The same tasks in the other arm.

    Examples:
        >>> round(mcnemar([False] * 6 + [True] * 4, [True] * 6 + [True] * 4), 4)
        0.0156
    """
    gained = sum(late and not early for early, late in zip(before, after, strict=True))
    lost = sum(early and not late for early, late in zip(before, after, strict=True))
    return mid_p(gained, lost)


def sign_test(won: int, lost: int) -> float:
    """Compute the exact two-sided sign test: how likely a split as uneven is if each task fell either way by chance.

    It speaks of the tasks as they are: of other families it knows nothing.

    Examples:
        >>> sign_test(20, 0) < 0.001, sign_test(1, 0), sign_test(0, 0)
        (True, 1.0, 1.0)
    """
    n = won + lost
    tail = sum(math.comb(n, k) for k in range(min(won, lost) + 1)) / 2**n
    return min(1.0, 2 * tail)


def mid_p(gained: int, lost: int) -> float:
    """Return the mid-p value of the numbers of tasks that only one of two arms solved.

    Examples:
        >>> mid_p(3, 3)
        1.0
    """
    if gained == lost:
        return 1.0
    n, fewer = int(gained + lost), int(min(gained, lost))
    ways, upto = 1, 0
    for k in range(fewer):
        upto += ways
        ways = ways * (n - k) // (k + 1)
    return min(1.0, (2 * upto + ways) / 2**n)  # whole numbers until here, so that nothing is lost


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Correct p values for how many comparisons there are (Holm 1979); nan, which compares nothing, stays nan.

    Examples:
        >>> holm({"a": 0.01, "b": 0.04})
        {'a': 0.02, 'b': 0.04}
    """
    known = sorted((p, name) for name, p in p_values.items() if not math.isnan(p))
    scaled = [p * (len(known) - place) for place, (p, _) in enumerate(known)]
    steps: Any = np.maximum.accumulate(scaled) if known else []
    return {**p_values, **{name: min(1.0, float(p)) for (_, name), p in zip(known, steps, strict=True)}}


def smallest_effect(variance: float, df: float, power: float = 0.8) -> float:
    """Return the smallest difference that Student's interval of this spread would show at a certain power, two-sided 5 %.

    For counts; of right and wrong, `compare` says what Newcombe's interval would show.

    Args:
        variance: Of the mean difference, from `spread`.
        df: Its degrees of freedom.
        power: The chance to see it.

    Examples:
        >>> round(smallest_effect(0.0004, 11), 3)
        0.062
    """
    if not df or not math.isfinite(variance) or variance <= 0:
        return float("nan")
    return (student_quantile((1 + LEVEL) / 2, df) + student_quantile(power, df)) * math.sqrt(variance)
