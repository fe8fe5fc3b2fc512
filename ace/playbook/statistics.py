"""Statistics of a bullet's record: pure functions of counts, each with its source.

A bullet's helpful rate has a Beta posterior with a uniform prior. It is compared with the *baseline*: how often the same
tasks succeed without the bullet. 0.5 is not that number, except by accident.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np

from ace.core.distributions import beta_cdf, beta_quantile, normal_quantile, wilson
from ace.playbook.bullet import PlaybookBullet

PRUNE_LEVEL = 0.99
"""A bullet goes when it is worse than nothing with this probability: 0.1 % of the bullets with a helpful rate of 0.7 ever
do in 200 uses against a baseline of 0.5, where a margin of two loses 18 %."""
PROMOTE_LEVEL = 0.95
"""A shadow bullet is shown when it is better than nothing with this probability."""
MIN_PROMOTE_USES = 4
PITFALL_WEIGHT = 0.1
"""A Pitfall is a warning: it may fill a slot that no Strategy fits nearly as well, not take one. With 0.25, twice as
many of WorkBench's training tasks lose the Strategy that other runs taught them."""


class Record(NamedTuple):
    """How often something succeeded and failed."""

    successes: float
    failures: float

    @property
    def uses(self) -> float:
        """Both together."""
        return self.successes + self.failures

    @property
    def mean(self) -> float:
        """The posterior mean of the success rate, Beta(1, 1) prior (Laplace's rule of succession)."""
        return (1 + self.successes) / (2 + self.uses)


Baseline = float | Record
"""The success rate without the bullet: known, or a record of runs without it."""


def record(bullet: PlaybookBullet) -> Record:
    """Return a bullet's record.

    Examples:
        >>> record(PlaybookBullet(section="Pitfalls", content="x", helpful_count=4))
        Record(successes=4, failures=0)
    """
    return Record(bullet.helpful_count, bullet.harmful_count)


def utility(bullet: PlaybookBullet) -> float:
    """Return a factor around 1 from the posterior mean of the helpful rate: 0.5 (harmful) to 1.5 (helpful).

    Examples:
        >>> utility(PlaybookBullet(section="Strategies", content="x"))
        1.0
    """
    # a hundred times in a retrieval: no objects are made
    mean = (1 + bullet.helpful_count) / (2 + bullet.helpful_count + bullet.harmful_count)
    return (0.5 + mean) * (PITFALL_WEIGHT if bullet.section == "Pitfalls" else 1.0)


# -- worse, or better, than nothing ------------------------------------------------------------------------------------

_NODES = 128
"""Of the quadrature over a posterior."""
_DEVIATIONS = 12.0
"""How far it goes to either side."""


def chance_of_being_better(of: Record, baseline: Baseline) -> float:
    """Return the posterior probability that a success rate is above the baseline.

    With a known baseline it is a tail of the Beta posterior; with a record of controls both rates are uncertain, and the
    probability is integrated over the two posteriors.

    Examples:
        >>> round(chance_of_being_better(Record(7, 3), 0.5), 3)
        0.887
        >>> round(chance_of_being_better(Record(7, 3), Record(7, 3)), 3)
        0.5
    """
    if not isinstance(baseline, Record):
        return 1 - beta_cdf(baseline, 1 + of.successes, 1 + of.failures)
    if baseline.uses < of.uses:
        return 1 - chance_of_being_better(baseline, of)  # over the narrower posterior the other one is smooth
    a, b = 1 + baseline.successes, 1 + baseline.failures
    mean, deviation = a / (a + b), math.sqrt(a * b / (a + b + 1)) / (a + b)
    low, high = max(0.0, mean - _DEVIATIONS * deviation), min(1.0, mean + _DEVIATIONS * deviation)
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    rates = low + (high - low) * (places + 1) / 2
    density = (a - 1) * np.log(rates) + (b - 1) * np.log1p(-rates)
    weights = weights * np.exp(density - density.max())
    above = [1 - beta_cdf(float(rate), 1 + of.successes, 1 + of.failures) for rate in rates]
    return float(weights @ np.array(above) / weights.sum())


def credible_interval(of: Record, level: float = 0.95) -> tuple[float, float]:
    """Return the equal-tailed interval of a success rate's posterior.

    Examples:
        >>> low, high = credible_interval(Record(8, 2))
        >>> round(low, 3), round(high, 3)
        (0.482, 0.94)
    """
    a, b = 1 + of.successes, 1 + of.failures
    return beta_quantile((1 - level) / 2, a, b), beta_quantile((1 + level) / 2, a, b)


def should_prune(of: Record, baseline: Baseline, level: float = PRUNE_LEVEL) -> bool:
    """Check whether the record is bad enough to retire a bullet.

    Examples:
        >>> should_prune(Record(1, 4), 0.5), should_prune(Record(0, 6), 0.5)
        (False, True)
    """
    return of.uses > 0 and 1 - chance_of_being_better(of, baseline) >= level


def should_promote(of: Record, baseline: Baseline, level: float = PROMOTE_LEVEL) -> bool:
    """Check whether the record is good enough to show a shadow bullet in every run.

    Examples:
        >>> should_promote(Record(3, 0), 0.5), should_promote(Record(4, 0), 0.5)
        (False, True)
    """
    return of.uses >= MIN_PROMOTE_USES and chance_of_being_better(of, baseline) >= level


# -- experiments ----------------------------------------------------------------------------------------------------------


def happens(seed: int | str, run: str, what: str, probability: float) -> bool:
    """Decide by chance, with this probability, whether something happens in a run: always alike for the same run and thing.

    Examples:
        >>> share = sum(happens(0, f"run-{i}", "b-1", 0.1) for i in range(10_000)) / 10_000
        >>> 0.09 < share < 0.11
        True
    """
    digest = hashlib.sha256(f"{seed}|{run}|{what}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56 < probability


class Effect(NamedTuple):
    """What showing a bullet does to the success rate, with an interval."""

    estimate: float | None
    """None while one side has no runs."""
    low: float
    high: float


def effect(treated: Record, control: Record, level: float = 0.95) -> Effect:
    """Estimate the difference of the success rates with and without a bullet, where chance decided which.

    The interval is Newcombe's square-and-add of two Wilson intervals (Newcombe, Statistics in Medicine 1998, method 10): it
    holds its level with a handful of controls, where the usual one does not.

    Examples:
        >>> found = effect(Record(40, 10), Record(2, 4))
        >>> round(found.estimate, 2), found.low > 0
        (0.47, True)
    """
    if not treated.uses or not control.uses:
        return Effect(None, -1.0, 1.0)
    p, q, z = treated.successes / treated.uses, control.successes / control.uses, normal_quantile(0.5 + level / 2)
    (low_p, high_p), (low_q, high_q) = wilson(p, treated.uses, z), wilson(q, control.uses, z)
    return Effect(p - q, p - q - math.hypot(p - low_p, high_q - q), p - q + math.hypot(high_p - p, q - low_q))
