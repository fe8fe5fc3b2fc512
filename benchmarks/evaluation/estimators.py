"""How often 95 % intervals hold the truth.

``python -m benchmarks.evaluation.estimators OUT.json [--repeats 2000]`` (simulated data)

Data of the size of `office`'s held-out half, 12 families of 4 tasks with 5 seeds, are simulated with known truth: success is
drawn with log odds of a base plus a family's part, a task's, and in the better arms a family's and, where said, a seed's.
The arm with gold bullets succeeds at rates of 0.5 to 0.95. For each interval the share of repeats in which it covers, for
McNemar's test how often it finds what is not there; and what becomes of both when clusters are ignored, or a percentile
bootstrap is trusted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from ace.evaluation.stats import Estimate, difference, mcnemar, mean, share, share_closed
from benchmarks.command import command

FAMILIES, TASKS, SEEDS = 12, 4, 5
SHAPE = (FAMILIES, TASKS, SEEDS)
RATES = (0.5, 0.7, 0.85, 0.95)
WORLDS = {
    # standard deviations of log odds: of families, tasks, what bullets do to a family, and a seed's playbook to its runs
    "alike": {"family": 0.4, "task": 0.6, "effect": 0.3, "seed": 0.0},
    "different": {"family": 0.8, "task": 0.8, "effect": 0.5, "seed": 0.0},
    "seeds alike": {"family": 0.8, "task": 0.8, "effect": 0.5, "seed": 0.001},
    "seeds differ": {"family": 0.8, "task": 0.8, "effect": 0.5, "seed": 0.25},
}
NONE, PLAYBOOK = -2.0, -0.4
"""How far other arms are below gold bullets, in log odds."""
OURS = ("share", "difference", "share closed")
TRUTH_DRAWS = 1_000_000
FAMILY = np.repeat(np.arange(FAMILIES), TASKS * SEEDS).tolist()
SEED = np.tile(np.arange(SEEDS), FAMILIES * TASKS).tolist()


def odds(p: Any) -> Any:
    """Log odds."""
    return np.log(p / (1 - p))


def chance(x: Any) -> Any:
    """Return the chance of log odds."""
    return 1 / (1 + np.exp(-x))


def chances(world: dict[str, float], rate: float, rng: np.random.Generator, n: int = 0) -> tuple[Any, Any, Any]:
    """Draw chances of success with nothing, a playbook and gold bullets; for `n` tasks that share nothing, to know the
    truth."""
    over = [(n,)] * 4 if n else [(FAMILIES, 1, 1), (FAMILIES, TASKS, 1), (FAMILIES, 1, 1), (1, 1, SEEDS)]
    parts = [rng.normal(0, world[name], size) for name, size in zip(world, over, strict=True)]
    base = odds(rate) + parts[0] + parts[1]
    return chance(base + NONE), chance(base + PLAYBOOK + parts[2] + parts[3]), chance(base + parts[2])


def percentile(changes: Any, rng: np.random.Generator, draws: int = 500) -> Estimate:
    """Estimate by the usual bootstrap over families, to compare with."""
    sums = changes.reshape(FAMILIES, -1).mean(axis=1)
    low, high = np.quantile(sums[rng.integers(0, FAMILIES, (draws, FAMILIES))].mean(axis=1), [0.025, 0.975])
    return Estimate(float(changes.mean()), float(low), float(high))


def coverage(world: dict[str, float], rate: float, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    """Measure the coverage of every interval, in percent."""
    truths = [float(p.mean()) for p in chances(world, rate, rng, TRUTH_DRAWS)]
    seeds = SEED if world["seed"] else None
    hits: Counter[str] = Counter()
    for _ in range(repeats):
        none, arm, gold = (
            (rng.random(SHAPE) < np.broadcast_to(p, SHAPE)).astype(float).ravel() for p in chances(world, rate, rng)
        )
        gain, way = truths[1] - truths[0], (truths[1] - truths[0]) / (truths[2] - truths[0])
        for name, found, truth in (
            ("share", share(gold, FAMILY), truths[2]),
            ("difference", difference(none, arm, FAMILY, seeds), gain),
            ("share closed", share_closed(none, arm, gold, FAMILY, seeds), way),
            ("share, clusters ignored", share(gold), truths[2]),
            ("difference, clusters ignored", mean(arm - none), gain),
            ("difference, percentile bootstrap", percentile(arm - none, rng), gain),
        ):
            hits[name] += found.low <= truth <= found.high
    return {name: 100 * count / repeats for name, count in hits.items()}


def sizes(rate: float, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    """Measure how often a test at 5 % finds a difference where there is none, in percent."""
    found: Counter[str] = Counter()
    world = {**WORLDS["different"], "effect": 0.0}
    for _ in range(repeats):
        *_, p = chances(world, rate, rng)
        early, late = (rng.random(SHAPE) < np.broadcast_to(p, SHAPE) for _ in range(2))
        found["mcnemar"] += mcnemar(early.ravel(), late.ravel()) < 0.05
        # on average nothing changes, but some families gain and others lose: runs of a family are no independent data
        moved = chance(odds(p) + rng.normal(0, 1.0, (FAMILIES, 1, 1)))
        back = chance(odds(p) + rng.normal(0, 1.0, (FAMILIES, 1, 1)))
        early, late = (rng.random(SHAPE) < np.broadcast_to(q, SHAPE) for q in (moved, back))
        found["mcnemar, clusters ignored"] += mcnemar(early.ravel(), late.ravel()) < 0.05
        found["difference"] += difference(early.ravel().astype(float), late.ravel().astype(float), FAMILY).p < 0.05
    return {name: 100 * count / repeats for name, count in found.items()}


def known(rows: list[dict[str, Any]], kind: str) -> list[float]:
    """Return one kind's coverage in all worlds where it was asked for."""
    return [row["covers"][kind] for row in rows if kind in row["covers"]]


def main(repeats: int = 2_000) -> dict[str, Any]:
    """Simulate, and return the report."""
    rng, rows, tests = np.random.default_rng(0), [], []
    cases = [(name, rate) for name in WORLDS for rate in RATES]
    for name, rate in track(cases, "intervals", console=Console(stderr=True)):
        rows.append({"world": name, "rate": rate, "covers": coverage(WORLDS[name], rate, repeats, rng)})
    for rate in track(RATES, "tests", console=Console(stderr=True)):
        tests.append({"rate": rate, "finds": sizes(rate, repeats, rng)})
    return {
        "repeats": repeats,
        "coverage": rows,
        "sizes": tests,
        "lowest": {kind: min(known(rows, kind)) for kind in rows[0]["covers"]},
        "highest": {kind: max(known(rows, kind)) for kind in rows[0]["covers"]},
        "lowest_of_ours": min(row["covers"][kind] for row in rows for kind in OURS),
        "highest_of_ours": max(row["covers"][kind] for row in rows for kind in OURS),
        "smallest_size": {kind: min(row["finds"][kind] for row in tests) for kind in tests[0]["finds"]},
        "largest_size": {kind: max(row["finds"][kind] for row in tests) for kind in tests[0]["finds"]},
    }


if __name__ == "__main__":
    command(main)
