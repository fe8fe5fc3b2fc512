"""How often the interval of a paired difference holds the truth.

``python -m benchmarks.evaluation.coverage OUT.json [--repeats 400]`` (simulated).

Simulated pairs of arms with known truth: whether a run succeeds hangs on a family, a task and chance (a Gaussian copula, so
that success rates are exact), and the arms share half of a family's and of a task's part. Families 4, 6, 8, 12, 25 x tasks
a family 1, 2, 4, 8 x seeds 1, 3 x success without .1, .5, .95 x effect 0, +.1, +.4 (turned down where it would pass 1) x
correlation 0, .3, .7; beside them worlds where whole families gain or not, and worlds where every seed learned a book of
its own, and books differ (a tenth, a fifth or none of the spread behind a run). For each cell: how often the interval covers
(one that is not given counts as covering), its width, and false alarms at 5 % of the interval and of p; and the same for the
earlier rule, Student's interval of the families. Worlds with a rare bad family are shown apart.
"""

from __future__ import annotations

import os
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
from rich.console import Console
from rich.progress import track

from ace.evaluation.stats import Estimate, difference, spread
from benchmarks.command import command

stats: Any = scipy.stats
special: Any = scipy.special
FAMILIES = (4, 6, 8, 12, 25)
TASKS = (1, 2, 4, 8)
SEEDS = (1, 3)
BASES = (0.1, 0.5, 0.95)
EFFECTS = (0.0, 0.1, 0.4)
CORRELATIONS = (0.0, 0.3, 0.7)
SHARES = (0.1, 0.5, 0.95)
BOOK_SHARES = (0.0, 0.1, 0.2)
FULL = 2_000
RARE, BOOKS = "rare bad family", "books differ"
Cell = tuple[str, int, int, int, float, float, float]
"""Kind, families, tasks, seeds, base (or share of families, or of books), effect, correlation."""


def cells() -> list[Cell]:
    """Make all of them."""
    found: list[Cell] = []
    for k, tasks, seeds in product(FAMILIES, TASKS, SEEDS):
        for base, effect, rho in product(BASES, EFFECTS, CORRELATIONS):
            turned = -effect if base + effect > 1 else effect
            found.append(("ordinary", k, tasks, seeds, base, turned, rho))
        found += [("all or nothing", k, tasks, seeds, share, share, 1.0) for share in SHARES]
        found.append((RARE, k, tasks, seeds, 0.95, 0.95, 1.0))
    for k, tasks, seeds in product((6, 12, 25), (1, 4), (2, 5)):
        found += [(BOOKS, k, tasks, seeds, share, effect, 0.3) for share, effect in product(BOOK_SHARES, (0.0, 0.2))]
    return found


def draw(cell: Cell, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw one pair of arms, shape (families, tasks, seeds) each."""
    kind, k, tasks, seeds, base, effect, rho = cell
    shape = (k, tasks, seeds)
    if kind == "all or nothing":  # families are gained whole
        gained = np.broadcast_to(rng.random((k, 1, 1)) < base, shape).astype(float)
        return np.zeros(shape), gained
    if kind == RARE:  # in good families nearly every run is gained, in bad ones none
        good = rng.random((k, 1, 1)) < base
        return np.zeros(shape), (good & (rng.random(shape) < 0.95)).astype(float)
    books, arms = base if kind == BOOKS else 0.0, list[Any]()
    base = 0.3 if kind == BOOKS else base
    book = rng.normal(size=(1, 1, seeds)) if books else 0.0  # of the second arm: the first has none
    shared = (rng.normal(size=(k, 1, 1)), rng.normal(size=(k, tasks, 1)))
    for part, p in ((0.0, base), (books, base + effect)):
        own = (rng.normal(size=(k, 1, 1)), rng.normal(size=(k, tasks, 1)))
        family, task = (np.sqrt(0.5) * (one + other) for one, other in zip(shared, own, strict=True))
        latent = np.sqrt(rho / 2) * (family + task) + np.sqrt(1 - rho - part) * rng.normal(size=shape)
        latent = latent + np.sqrt(part) * book
        arms.append((latent < special.ndtri(p)).astype(float))
    return arms[0], arms[1]


def student(changes: Any, names: list[int]) -> Estimate:
    """Apply the earlier rule: Student's interval of the families, of width 0 where all differences are alike."""
    value, known = float(changes.mean()), spread(changes, names)
    half = float(special.stdtrit(known.df, 0.975)) * known.variance**0.5
    return Estimate(value, value - half, value + half)


def measure(job: tuple[int, Cell, int]) -> dict[str, Any]:
    """Measure one cell."""
    number, cell, repeats = job
    kind, k, tasks, seeds, _, effect, _ = cell
    truth = 0.95 * 0.95 if kind == RARE else effect
    rng = np.random.default_rng([7, number])
    names = np.repeat(np.arange(k), tasks * seeds).tolist()
    learned = np.tile(np.arange(seeds), k * tasks).tolist() if kind == BOOKS else None
    counts: dict[str, float] = defaultdict(float)
    for _ in range(repeats):
        before, after = (arm.ravel() for arm in draw(cell, rng))
        ours, earlier = difference(before, after, names, learned), student(after - before, names)
        counts["p alarms"] += bool(effect == 0 and ours.p <= 0.05)
        for label, found in (("ours", ours), ("earlier", earlier)):
            given = np.isfinite(found.low)
            counts[f"{label} covers"] += not given or found.low - 1e-9 <= truth <= found.high + 1e-9
            counts[f"{label} width"] += min(1.0, found.high) - max(-1.0, found.low) if given else 2.0
            counts[f"{label} alarms"] += bool(effect == 0 and given and (found.low > 0 or found.high < 0))
    return {"cell": cell, "repeats": repeats, **{name: count / repeats for name, count in counts.items()}}


def simulated(repeats: int, workers: int | None = None) -> list[dict[str, Any]]:
    """Measure all cells."""
    jobs = [(number, cell, repeats) for number, cell in enumerate(cells())]
    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        made = pool.map(measure, jobs, chunksize=8)
        return list(track(made, "cells (simulated)", total=len(jobs), console=Console(stderr=True)))


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Summarise what the claims ask; worlds with a rare bad family are shown apart."""
    judged = [row for row in found if row["cell"][0] != RARE]
    families = {str(k): _of_families([row for row in found if row["cell"][1] == k]) for k in FAMILIES}
    # the 99 % upper limit of a cell's coverage (Clopper and Pearson)
    upper = [100 * _upper(round(row["ours covers"] * row["repeats"]), row["repeats"]) for row in judged]
    worst = sorted(
        ({"cell": row["cell"], "covers": row["ours covers"]} for row in judged), key=lambda row: row["covers"]
    )
    return {
        "simulated": True,
        "cells": len(judged),
        "repeats": found[0]["repeats"],
        "families": families,
        "lowest_mean": min(row["mean"] for row in families.values()),
        "lowest_upper_limit": min(upper),
        "cells_below_90": sum(limit < 90 for limit in upper),
        "false_alarms": sum(row["false_alarms"] for row in families.values()) / len(families),
        "width_12": families["12"]["width_ratio"],
        "width_25": families["25"]["width_ratio"],
        "worst_cells": worst[:10],
    }


def _of_families(rows: list[dict[str, Any]]) -> dict[str, float]:
    judged = [row for row in rows if row["cell"][0] != RARE]
    ordinary = [row for row in rows if row["cell"][0] == "ordinary"]
    null = [row for row in judged if row["cell"][5] == 0]
    return {
        "mean": _percent(judged, "ours covers"),
        "worst": 100 * min(row["ours covers"] for row in judged),
        "earlier_mean": _percent(judged, "earlier covers"),
        "earlier_worst": 100 * min(row["earlier covers"] for row in judged),
        "false_alarms": max(_percent(null, "ours alarms"), _percent(null, "p alarms")),
        "earlier_false_alarms": _percent(null, "earlier alarms"),
        "width_ratio": _percent(ordinary, "ours width") / _percent(ordinary, "earlier width"),
        "rare_bad_family": _percent([row for row in rows if row["cell"][0] == RARE], "ours covers"),
    }


def _upper(hits: int, n: int) -> float:
    return 1.0 if hits == n else float(stats.beta.ppf(0.99, hits + 1, n - hits))


def _percent(rows: list[dict[str, Any]], name: str) -> float:
    return 100 * sum(row[name] for row in rows) / len(rows)


def main(repeats: int = FULL // 5) -> dict[str, Any]:
    """Simulate, and return the report."""
    return summary(simulated(repeats))


if __name__ == "__main__":
    command(main)
