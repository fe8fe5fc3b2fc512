"""What each part of the retrieval brings: ``python -m benchmarks.retrieval.ablation DATA OUT.json``.

Hit@3 with the task, and with its whole group, left out: dense alone, words alone, their plain fusion (reciprocal ranks,
k = 60 as in the paper, the three best bullets as they come), the same with different tool sequences only, and the
playbook's own order. The paired interval is of the difference between the playbook's order and plain fusion, task by task.
Then the constants: those that one set would choose out of a grid, and what they do on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from ace.playbook import Filters, MiniLMEmbedder, Playbook, ranking
from ace.playbook.bullet import sequence_key
from ace.playbook.ranking import MAX_SUPPORT, RRF_K, SUPPORT, Ranking, diversify, fuse
from ace.suites.registry import load_suite
from benchmarks.command import command
from benchmarks.retrieval.bench import BenchTask, playbook_of, read_tasks, suite_tasks

Constants = tuple[int, float, int]
GRID: list[Constants] = list(product((4, 8, 16, 30, 60), (0.3, 0.5, 0.7), (3, 5, 10)))
OURS: Constants = (RRF_K, SUPPORT, MAX_SUPPORT)
VARIANTS = ("dense", "words", "plain fusion", "fusion, different sequences", "without utility", "the playbook")


def both(book: Playbook, task: BenchTask, filters: Filters) -> tuple[Ranking, Ranking]:
    """Find the bullets that are near a task by meaning, and by words."""
    index, asked = book._state.index, book._state.index.masked(task.query)
    found = index.candidates(asked, index.query_vector(asked), book._state.bullets.allowing(filters, None, None))
    by_meaning = sorted((s.dense_rank, s.number, s.cosine) for s in found if s.dense_rank is not None)
    by_words = sorted((s.lexical_rank, s.number, s.words) for s in found if s.lexical_rank is not None)
    dense, words = ([[n for _, n, _ in by], [score for _, _, score in by]] for by in (by_meaning, by_words))
    return (dense[0], dense[1]), (words[0], words[1])


def hits(book: Playbook, task: BenchTask, filters: Filters) -> dict[str, bool]:
    """Check whether each variant finds the task's own multiset of tools among three."""
    wanted = sequence_key(task.tools)
    dense, words = both(book, task, filters)
    plain = [scored.number for scored in fuse(dense, words, k=60)]
    with mock.patch.object(ranking, "utility", return_value=1.0):
        own = diversify(fuse(dense, words), book._state.bullets)

    def distinct(numbers: Sequence[int]) -> list[tuple[str, ...]]:
        return list(dict.fromkeys(book._state.bullets[n].key for n in numbers))[:3]

    keys = {
        "dense": [book._state.bullets[n].key for n in dense[0][:3]],
        "words": [book._state.bullets[n].key for n in words[0][:3]],
        "plain fusion": [book._state.bullets[n].key for n in plain[:3]],
        "fusion, different sequences": distinct(plain),
        "without utility": [book._state.bullets[group.best.number].key for group in own[:3]],
        "the playbook": [bullet.key for bullet in book.retrieve(task.query, filters=filters)],
    }
    return {name: wanted in found for name, found in keys.items()}


class Rankings(NamedTuple):
    """What both indexes say of one task, whatever the constants are."""

    wanted: tuple[str, ...]
    dense: Ranking
    words: Ranking


def rankings(tasks: Sequence[BenchTask]) -> tuple[Playbook, dict[str, list[Rankings]]]:
    """Rank every task, for each guard."""
    book = playbook_of(tasks, MiniLMEmbedder())
    found = dict[str, list[Rankings]]()
    for guard in ("task", "group"):
        found[guard] = []
        for task in tasks:
            groups = (task.group,) if guard == "group" else ()
            filters = Filters(exclude_tasks=(task.id,), exclude_groups=groups)
            found[guard].append(Rankings(sequence_key(task.tools), *both(book, task, filters)))
    return book, found


def with_constants(book: Playbook, found: dict[str, list[Rankings]], constants: Constants) -> dict[str, float]:
    """Return hit@3 under both guards, percent."""
    k, support, most = constants
    score: dict[str, float] = {}
    with mock.patch.object(ranking, "SUPPORT", support), mock.patch.object(ranking, "MAX_SUPPORT", most):
        for guard, tasks in found.items():
            hit = 0
            for task in tasks:
                groups = diversify(fuse(task.dense, task.words, k), book._state.bullets)
                hit += task.wanted in [book._state.bullets[group.best.number].key for group in groups[:3]]
            score[guard] = 100 * hit / len(tasks)
    return score


def chosen_elsewhere(sets: dict[str, Sequence[BenchTask]]) -> dict[str, Any]:
    """Return the constants that each set would choose, by the mean of both guards, and what they do on every set."""
    measured: dict[str, dict[Constants, dict[str, float]]] = {}
    for name, tasks in sets.items():
        book, found = rankings(tasks)
        measured[name] = {constants: with_constants(book, found, constants) for constants in GRID}
        book.close()
    report: dict[str, Any] = {}
    for name, scores in measured.items():
        best = max(GRID, key=lambda c: sum(scores[c].values()))
        report[name] = {"constants": best, "on": {other: measured[other][best] for other in measured}}
    report["the package"] = {"constants": OURS, "on": {other: measured[other][OURS] for other in measured}}
    return report


def examine(tasks: Sequence[BenchTask]) -> dict[str, Any]:
    """Examine all variants under both guards."""
    book = playbook_of(tasks, MiniLMEmbedder())
    report: dict[str, Any] = {}
    for guard in ("task", "group"):
        rows = []
        for task in tasks:
            groups = (task.group,) if guard == "group" else ()
            rows.append(hits(book, task, Filters(exclude_tasks=(task.id,), exclude_groups=groups)))
        differences = np.asarray([row["the playbook"] - row["plain fusion"] for row in rows], dtype=float)
        random = np.random.default_rng(0)
        means = random.choice(differences, size=(10_000, len(differences))).mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        report[guard] = {
            **{name: 100 * float(np.mean([row[name] for row in rows])) for name in VARIANTS},
            "gain": 100 * float(differences.mean()),
            "gain_low": 100 * float(low),
            "gain_high": 100 * float(high),
        }
    return report


def main(data: Path) -> dict[str, Any]:
    """Measure both sets, and return the report."""
    workbench = suite_tasks(load_suite(f"workbench:{data / 'workbench'}"))
    sets = {
        "workbench": workbench,
        "workbench, with calls": [task for task in workbench if task.tools],
        "bfcl": read_tasks(data / "bfcl_turns" / "tasks.jsonl"),
    }
    report = {name.replace(", with calls", "_with_calls"): examine(tasks) for name, tasks in sets.items()}
    report["constants"] = chosen_elsewhere({name: sets[name] for name in ("workbench, with calls", "bfcl")})
    return report


if __name__ == "__main__":
    command(main)
