"""How much learning delivers, and on what it hangs.

``python -m benchmarks.learning.curves OUT.json [--seeds 10]`` (simulated)

One thing varies at a time around the middle: 10 attempts at each task, training and test split by task, and a reader that
takes the first lesson shown. Attempts 1, 3, 10, 40: one book is learned to 40, and cut at each. Split by family: no task of
a tested family was learned from. Readers: one that follows the right lesson wherever it stands among those shown, one that
takes the first, one at random, and ones that follow the right one in three, two or one of four tasks (assumptions). Each
cell is compared with no memory on the same tasks and seeds; families are drawn as a whole, and seeds, each of which learned
a book of its own, are a random effect.
"""

from __future__ import annotations

from typing import Any

from benchmarks.by_seed import in_processes
from benchmarks.command import command
from benchmarks.learning.memory_study import READERS, Reader, compared, learning, played

ATTEMPTS = (1, 3, 10, 40)
MIDDLE = (10, "task", "first")
CELLS = [
    *((attempts, "task", "first") for attempts in ATTEMPTS),
    (10, "family", "first"),
    *((10, "task", reader) for reader in READERS if reader != "first"),
]
"""Attempts, split, reader."""


def one_book(job: tuple[int, str]) -> list[dict[str, Any]]:
    """Learn one book, and run the held-out tasks with it wherever a cell asks for it."""
    from ace.evaluation.arms import arm_source
    from ace.playbook import MiniLMEmbedder, Playbook
    from ace.suites import load_suite, split

    MiniLMEmbedder(threads=1).warm()  # the jobs run side by side
    seed, how = job
    suite = load_suite("office")
    train, test = split(suite.tasks, "halves" if how == "task" else "family", seed=seed)
    rows: list[dict[str, Any]] = []
    for arm in ("none", "gold"):
        best = Reader(suite, "best", seed)
        made = played(suite, test, seed, best, lambda task, arm=arm: arm_source(arm, suite, task, None), arm)
        rows += [row | {"cell": [0, how, "best"]} for row in made]
    most = max(attempts for attempts, split_by, _ in CELLS if split_by == how)
    with Playbook() as book:
        for attempts, _ in learning(suite, train, seed, most, book):
            for cell in CELLS:
                if cell[:2] == (attempts, how):
                    made = played(suite, test, seed, Reader(suite, cell[2], seed), lambda task: book, "playbook")
                    rows += [row | {"cell": list(cell)} for row in made]
    return rows


def main(seeds: int = 10, workers: int = 2) -> dict[str, Any]:  # with five seeds the intervals say little
    """Run the jobs on all cores, and return the report."""
    jobs = [(seed, how) for how in ("task", "family") for seed in range(seeds)]
    rows = [row for part in in_processes(one_book, jobs, workers, "books (simulated)") for row in part]
    report: dict[str, Any] = {"simulated": True, "seeds": seeds, "middle": list(MIDDLE), "cells": []}
    for cell in CELLS:
        none, gold = ([r for r in rows if r["arm"] == arm and r["cell"][1] == cell[1]] for arm in ("none", "gold"))
        own = [row for row in rows if row["arm"] == "playbook" and tuple(row["cell"]) == cell]
        found = compared(none, own, gold)
        found |= {"attempts": cell[0], "split": cell[1], "reader": cell[2]}
        found["none"] = 100 * sum(row["success"] for row in none) / len(none)
        found["gold"] = 100 * sum(row["success"] for row in gold) / len(gold)
        report["cells"].append(found)
    report["cells_made"] = len(report["cells"])
    report["in_the_middle"] = next(
        row for row in report["cells"] if (row["attempts"], row["split"], row["reader"]) == MIDDLE
    )
    return report


if __name__ == "__main__":
    command(main)
