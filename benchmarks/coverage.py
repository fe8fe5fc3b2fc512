"""How often the interval of a paired difference holds the truth: ``python benchmarks/coverage.py OUT.json [--repeats 400]``.

Simulated pairs of arms with known truth: whether a run succeeds hangs on a family, a task and chance (a Gaussian copula, so
that success rates are exact), and the arms share half of a family's and of a task's part. Families 4, 6, 8, 12, 25 x tasks
a family 1, 2, 4, 8 x seeds 1, 3 x success without .1, .5, .95 x effect 0, +.1, +.4 (turned down where it would pass 1) x
correlation 0, .3, .7; beside them worlds where whole families gain or not. For each cell: how often the interval covers
(one that is not given counts as covering), its width, and false alarms at 5 %; and the same for the earlier rule, Student's
interval of the families. Worlds with a rare bad family are shown apart.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from rich.console import Console
from rich.table import Table

from ace.evaluation.stats import mean, paired_difference

stats: Any = scipy.stats
FAMILIES = (4, 6, 8, 12, 25)
TASKS = (1, 2, 4, 8)
SEEDS = (1, 3)
BASES = (0.1, 0.5, 0.95)
EFFECTS = (0.0, 0.1, 0.4)
CORRELATIONS = (0.0, 0.3, 0.7)
SHARES = (0.1, 0.5, 0.95)
FULL = 2_000
Cell = tuple[str, int, int, int, float, float, float]
"""Kind, families, tasks, seeds, base (or share of families), effect, correlation."""


def cells() -> list[Cell]:
    """All of them."""
    found: list[Cell] = []
    for k, tasks, seeds in product(FAMILIES, TASKS, SEEDS):
        for base, effect, rho in product(BASES, EFFECTS, CORRELATIONS):
            turned = -effect if base + effect > 1 else effect
            found.append(("ordinary", k, tasks, seeds, base, turned, rho))
        found += [("all or nothing", k, tasks, seeds, share, share, 1.0) for share in SHARES]
        found.append(("rare bad family", k, tasks, seeds, 0.95, 0.95, 1.0))
    return found


def draw(cell: Cell, rng: np.random.Generator) -> tuple[Any, Any]:
    """One pair of arms, shape (families, tasks, seeds) each."""
    kind, k, tasks, seeds, base, effect, rho = cell
    shape = (k, tasks, seeds)
    if kind == "all or nothing":  # families are gained whole
        gained = np.broadcast_to(rng.random((k, 1, 1)) < base, shape).astype(float)
        return np.zeros(shape), gained
    if kind == "rare bad family":  # in good families nearly every run is gained, in bad ones none
        good = rng.random((k, 1, 1)) < base
        return np.zeros(shape), (good & (rng.random(shape) < 0.95)).astype(float)
    arms = []
    shared = (rng.normal(size=(k, 1, 1)), rng.normal(size=(k, tasks, 1)))
    for p in (base, base + effect):
        own = (rng.normal(size=(k, 1, 1)), rng.normal(size=(k, tasks, 1)))
        family, task = (np.sqrt(0.5) * (one + other) for one, other in zip(shared, own, strict=True))
        latent = np.sqrt(rho / 2) * (family + task) + np.sqrt(1 - rho) * rng.normal(size=shape)
        arms.append((latent < stats.norm.ppf(p)).astype(float))
    return arms[0], arms[1]


def measure(job: tuple[int, Cell, int]) -> dict[str, Any]:
    """One cell."""
    number, cell, repeats = job
    kind, k, tasks, seeds, _, effect, _ = cell
    truth = 0.95 * 0.95 if kind == "rare bad family" else effect
    rng = np.random.default_rng([7, number])
    names = np.repeat(np.arange(k), tasks * seeds).tolist()
    counts: dict[str, float] = defaultdict(float)
    for _ in range(repeats):
        before, after = (arm.ravel() for arm in draw(cell, rng))
        ours, earlier = paired_difference(before, after, names).estimate, mean(after - before, names)
        for label, found in (("ours", ours), ("earlier", earlier)):
            given = np.isfinite(found.low)
            counts[f"{label} covers"] += not given or found.low - 1e-9 <= truth <= found.high + 1e-9
            counts[f"{label} width"] += min(1.0, found.high) - max(-1.0, found.low) if given else 2.0
            counts[f"{label} alarms"] += bool(effect == 0 and given and (found.low > 0 or found.high < 0))
    return {"cell": cell, "repeats": repeats, **{name: count / repeats for name, count in counts.items()}}


def main() -> None:
    """Simulate, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=FULL // 5)
    arguments = parser.parse_args()
    jobs = [(number, cell, arguments.repeats) for number, cell in enumerate(cells())]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(measure, jobs, chunksize=8))
    judged = [row for row in found if row["cell"][0] != "rare bad family"]
    ordinary = [row for row in found if row["cell"][0] == "ordinary"]
    report: dict[str, Any] = {"simulated": True, "cells": len(judged), "repeats": arguments.repeats, "families": {}}
    table = Table(
        title="95 % intervals of a paired difference: % that cover, mean and worst cell; width to the earlier rule's"
    )
    for name in (
        "families",
        "ours",
        "worst",
        "earlier",
        "worst",
        "false alarms",
        "earlier",
        "width ratio",
        "rare bad family",
    ):
        table.add_column(name, justify="right")
    for k in FAMILIES:
        rows = [row for row in judged if row["cell"][1] == k]
        null = [row for row in ordinary if row["cell"][1] == k and row["cell"][5] == 0]
        rare = [row["ours covers"] for row in found if row["cell"][:2] == ("rare bad family", k)]
        width = [sum(row[f"{label} width"] for row in ordinary if row["cell"][1] == k) for label in ("ours", "earlier")]
        figures = {
            "mean": _percent(rows, "ours covers"),
            "worst": 100 * min(row["ours covers"] for row in rows),
            "earlier_mean": _percent(rows, "earlier covers"),
            "earlier_worst": 100 * min(row["earlier covers"] for row in rows),
            "false_alarms": _percent(null, "ours alarms"),
            "earlier_false_alarms": _percent(null, "earlier alarms"),
            "width_ratio": width[0] / width[1],
            "rare_bad_family": 100 * sum(rare) / len(rare),
        }
        report["families"][str(k)] = figures
        table.add_row(str(k), *(f"{value:.2f}" for value in figures.values()))
    # the 99 % upper limit of a cell's coverage (Clopper and Pearson)
    n = arguments.repeats
    upper = [
        100 * float(stats.beta.ppf(0.99, round(row["ours covers"] * n) + 1, n - round(row["ours covers"] * n) or 1e-9))
        for row in judged
    ]
    report["lowest_mean"] = min(row["mean"] for row in report["families"].values())
    report["lowest_upper_limit"] = min(upper)
    report["cells_below_90"] = sum(limit < 90 for limit in upper)
    report["false_alarms"] = sum(row["false_alarms"] for row in report["families"].values()) / len(FAMILIES)
    report["width_12"] = report["families"]["12"]["width_ratio"]
    report["width_25"] = report["families"]["25"]["width_ratio"]
    report["worst_cells"] = sorted(
        ({"cell": r["cell"], "covers": r["ours covers"]} for r in judged), key=lambda r: r["covers"]
    )[:10]
    Console(width=140).print(table)
    print(json.dumps({name: value for name, value in report.items() if name not in ("families",)}, indent=1)[:1500])
    arguments.out.write_text(json.dumps(report, indent=1), encoding="utf-8")


def _percent(rows: list[dict[str, Any]], name: str) -> float:
    return 100 * sum(row[name] for row in rows) / len(rows)


if __name__ == "__main__":
    main()
