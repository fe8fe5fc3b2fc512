"""Does memory last? ``python -m benchmarks.learning.retention OUT.json [--seeds 25]`` (simulated).

The families of `office` are drawn into six groups. Group A is learned (half of its tasks, at most ten attempts each), then
groups B to F; the other half of A's tasks is asked before and after. Is a lesson with the right plan still among the three
that are found? Also after duplicates were merged, after pruning, and in a book that may hold 4,000 tokens only and evicts;
the report counts what was merged and retired. A memory that rewrites itself is known to lose what it knew (arXiv
2605.12978). Beside it: how many of these tasks are solved by a reader that takes the first lesson, and the same for memories
of notes of the solved runs, which serve them best: the three runs most like the task, mem0, and the last three. Intervals:
paired by task, families drawn as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from ace.evaluation.episodes import Attempt
from ace.evaluation.memories import FixedBullets
from ace.evaluation.stats import paired_difference
from ace.playbook import MiniLMEmbedder, Playbook
from ace.playbook.render import render_bullet
from ace.suites import load_suite
from ace.suites.protocol import Suite, SuiteTask, changing
from ace.suites.splits import halves
from benchmarks.by_seed import in_processes
from benchmarks.command import command
from benchmarks.learning.memories import PEERS, PeerMemory, Shows, notes_of, retrieved, simple
from benchmarks.learning.memory_study import Reader, Row, learning, played

GROUPS, ATTEMPTS, BUDGET = 6, 10, 4_000
OURS = ("as it is", "merged", "pruned", f"at most {BUDGET:,} tokens")
BESIDE = ("exprag", "mem0", "episodic")


def groups_of(tasks: Sequence[SuiteTask], seed: int) -> list[list[SuiteTask]]:
    """Draw whole families into six groups."""
    families = sorted({task.group for task in tasks})
    random.Random(f"retention|{seed}").shuffle(families)
    place = {family: number % GROUPS for number, family in enumerate(families)}
    return [[task for task in tasks if place[task.group] == number] for number in range(GROUPS)]


class Asked:
    """A's held-out tasks, asked of any memory.

    Args:
        suite: The suite.
        tasks: The held-out tasks of A.
        seed: Of the reader.
    """

    def __init__(self, suite: Suite, tasks: Sequence[SuiteTask], seed: int) -> None:
        self.suite, self.tasks, self.seed = suite, tasks, seed
        self.rows: list[Row] = []

    def __call__(self, memory: str, when: str, shows: Shows) -> None:
        """Ask whether the right plan is shown, and whether a reader that takes the first lesson solves the task."""
        lm = Reader(self.suite, "first", self.seed)
        made = played(self.suite, self.tasks, self.seed, lm, lambda task: FixedBullets(shows(task)))
        for task, row in zip(self.tasks, made, strict=True):
            wanted = changing(self.suite, task)
            hit = any(b.section == "Strategies" and b.teaches(wanted) for b in shows(task))
            self.rows.append(row | {"memory": memory, "when": when, "hit": float(hit)})


def one_seed(seed: int) -> list[Row]:
    """Learn A, ask, learn the others, ask again."""
    MiniLMEmbedder(threads=1).warm()  # the jobs run side by side
    suite = load_suite("office")
    first, *others = groups_of(suite.tasks, seed)
    train, test = halves(first)
    asked, small_name = Asked(suite, test, seed), OURS[-1]
    with Playbook() as book, Playbook(book_budget=BUDGET) as small:
        # each learns from its own runs: in those of the other one, what was shown are other lessons
        early, _ = (_learned(suite, train, seed, each) for each in (book, small))
        for memory in OURS:
            asked(memory, "before", retrieved(suite, small if memory == small_name else book))
        parts = [halves(group)[0] for group in others]
        late, _ = ([run for part in parts for run in _learned(suite, part, seed, each)] for each in (book, small))
        asked("as it is", "after", retrieved(suite, book))
        asked(small_name, "after", retrieved(suite, small))
        counts = {"lessons": float(len(book)), "merged": float(len(book.maintenance.dedup().duplicates))}
        asked("merged", "after", retrieved(suite, book))
        counts["pruned"] = float(len(book.maintenance.prune()))
        asked("pruned", "after", retrieved(suite, book))
    for when, runs in (("before", early), ("after", [*early, *late])):
        notes = [note for note in notes_of(suite, runs) if note.section == "Strategies"]
        texts = [*map(render_bullet, notes), *(task.task.text for task in test)]
        vectors: dict[str, Any] = dict(zip(texts, MiniLMEmbedder().embed(texts), strict=True))
        plain = simple(notes, vectors, seed)
        for memory in ("exprag", "episodic"):
            asked(memory, when, plain[memory])
        with closing(PeerMemory(PEERS["mem0"], notes, vectors)) as peer:
            asked("mem0", when, peer)
    return [row | counts for row in asked.rows]


def _learned(suite: Suite, train: Sequence[SuiteTask], seed: int, book: Playbook) -> list[Attempt]:
    """Learn a group's tasks."""
    return [run for _, runs in learning(suite, train, seed, ATTEMPTS, book) for run in runs]


def main(seeds: int = 25, workers: int = 2) -> dict[str, Any]:
    """Run the seeds on all cores, and return the report."""
    done = in_processes(one_seed, range(seeds), workers, "orders of groups (simulated)")
    rows = sorted((row for part in done for row in part), key=lambda row: row["task"])
    report: dict[str, Any] = {"simulated": True, "memories": {}}
    for memory in (*OURS, *BESIDE):
        early, late = ([r for r in rows if (r["memory"], r["when"]) == (memory, when)] for when in ("before", "after"))
        found: dict[str, Any] = {"queries": len(early)}
        for metric in ("hit", "success"):
            values = [[row[metric] for row in side] for side in (early, late)]
            # a family may be drawn with another seed again: its tasks are no independent data
            change = paired_difference(
                *values, [row["family"] for row in early], [row["seed"] for row in early]
            ).estimate
            low, high = (None if bound is None else 100 * bound for bound in change.interval)
            found[metric] = {
                "before": 100 * sum(values[0]) / len(early),
                "after": 100 * sum(values[1]) / len(late),
                "change": {"value": 100 * change.value, "low": low, "high": high},
            }
        report["memories"][memory] = found
    of_each = {row["seed"]: row for row in rows}.values()
    for name in ("lessons", "merged", "pruned"):
        report[name] = sum(row[name] for row in of_each) / len(of_each)
    report["queries"] = min(found["queries"] for found in report["memories"].values())
    report["most_lost"] = max(-report["memories"][memory]["hit"]["change"]["value"] for memory in OURS)
    return report


if __name__ == "__main__":
    command(main)
