"""Do the scores keep good bullets and drop bad ones? ``python -m benchmarks.playbook.scores OUT.json``.

Simulated with known truth. A bullet with a true helpful rate is used 200 times; a rule looks after each use. For our rule
the baseline is known to be 0.5, or estimated from 20 controls (the false kills are then those of bullets better than the
true baseline); margin and ratio rules of other systems stand beside it. Harm is the number of failures that the bullet
caused, beyond those of the baseline, until it was pruned; with exploration a shadow bullet is shown in one of ten of the
runs that could use it.
Coverage: 5,000 histories of Bernoulli draws at 0.1 (1,000 leave +-0.7 points of noise), for success rates and effects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ace.playbook.statistics import Baseline, Record, effect, should_prune
from benchmarks.command import command

USES, RATES, CONTROLS, BASELINE = 200, (0.3, 0.5, 0.6, 0.7, 0.8), 20, 0.5
EXPLORE = 0.1
Rule = Callable[[int, int], bool]
"""From helpful and harmful counts: prune?"""


def thresholds(baseline: Baseline) -> list[int]:
    """Return for each number of uses the most successes with which our rule still prunes; -1 where it never does."""
    found, most = [], -1
    for uses in range(USES + 1):
        while should_prune(Record(most + 1, uses - most - 1), baseline) and most < uses:
            most += 1
        while most >= 0 and not should_prune(Record(most, uses - most), baseline):
            most -= 1
        found.append(most)
    return found


def ours(baseline: Baseline) -> Rule:
    """Return our rule as a table."""
    table = thresholds(baseline)
    return lambda good, bad: good <= table[good + bad]


def wilson(z: float) -> Rule:
    """Make the rule that the upper Wilson bound is below the baseline."""

    def rule(good: int, bad: int) -> bool:
        n = good + bad
        p = good / n
        centre, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (centre + half) / (1 + z * z / n) < BASELINE

    return rule


RULES: dict[str, Rule] = {
    "ours, baseline known": ours(BASELINE),
    "harmful - helpful >= 2": lambda good, bad: bad - good >= 2,
    "harmful - helpful >= 3": lambda good, bad: bad - good >= 3,
    "n >= 3 and rate < 0.5": lambda good, bad: good + bad >= 3 and good / (good + bad) < 0.5,
    "harmful >= helpful > 0": lambda good, bad: bad >= good > 0,
    "n >= 5 and rate < 0.3": lambda good, bad: good + bad >= 5 and good / (good + bad) < 0.3,
    "Wilson, z = 1.96": wilson(1.96),
    "Wilson, z = 2.58": wilson(2.58),
}


def exactly(rule: Rule, rate: float) -> tuple[float, float]:
    """Compute the chance of ever being pruned within `USES` uses, and the mean uses until then or the end: dynamic
    programming."""
    alive, gone, mean = {0: 1.0}, 0.0, 0.0
    for uses in range(1, USES + 1):
        following: dict[int, float] = {}
        for good, weight in alive.items():
            for won, chance in ((1, rate), (0, 1 - rate)):
                following[good + won] = following.get(good + won, 0.0) + weight * chance
        mean += sum(alive.values())
        pruned = [good for good in following if rule(good, uses - good)]
        gone += sum(following.pop(good) for good in pruned)
        alive = following
    return gone, mean


def estimated(rate: float, runs: int = 20_000, seed: int = 0) -> float:
    """Estimate the chance of being pruned when the baseline comes from `CONTROLS` runs without the bullet."""
    random = np.random.default_rng(seed)
    controls = random.binomial(CONTROLS, BASELINE, size=runs)
    wins = np.cumsum(random.random((runs, USES)) < rate, axis=1)
    gone = np.zeros(runs, dtype=bool)
    for successes in np.unique(controls):
        table = np.asarray(thresholds(Record(successes, CONTROLS - successes))[1:])
        gone[controls == successes] = (wins[controls == successes] <= table).any(axis=1)
    return float(gone.mean())


_interval = lru_cache(maxsize=None)(effect)


def coverage(uses: int, histories: int = 5_000, seed: int = 0) -> dict[str, float]:
    """Measure the share of histories whose interval holds the true effect, for each pair of success rates."""
    random, found = np.random.default_rng(seed), dict[str, float]()
    for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        for size in (0.0, 0.1, 0.2):
            q, covered = p - size, 0
            for controls in random.binomial(uses, 0.1, size=histories):
                a, b = random.binomial(uses - controls, p), random.binomial(controls, q)
                interval = _interval(Record(a, uses - controls - a), Record(b, controls - b))
                covered += interval.low <= size <= interval.high
            found[f"{p:g} with, {q:g} without"] = covered / histories
    return found


def main() -> dict[str, Any]:
    """Simulate, and return the report."""
    rows: dict[str, Any] = {}
    for name, rule in RULES.items():
        chances = {rate: exactly(rule, rate) for rate in RATES}
        harm = (BASELINE - 0.3) * chances[0.3][1]
        # a shadow bullet reaches the same number of uses after ten times as many runs; of `USES` runs it spoils a tenth
        explored = (BASELINE - 0.3) * min(chances[0.3][1], EXPLORE * USES)
        rows[name] = {
            **{f"p{rate:g}": chance for rate, (chance, _) in chances.items()},
            "uses_to_prune_p0.3": chances[0.3][1],
            "harm_p0.3": harm,
            "harm_explored_p0.3": explored,
        }
    unsure = {f"p{rate:g}": estimated(rate) for rate in RATES}
    covered = {str(uses): coverage(uses) for uses in (200, 50)}
    shares = [share for found in covered.values() for share in found.values()]
    return {
        "simulated": True,
        "rules": rows,
        "estimated_baseline": unsure,
        "coverage": covered,
        "coverage_least": min(shares),
        "coverage_most": max(shares),
        "good_pruned": rows["ours, baseline known"]["p0.7"],
        "bad_pruned": rows["ours, baseline known"]["p0.3"],
        "good_pruned_estimated": unsure["p0.7"],
    }


if __name__ == "__main__":
    command(main)
