"""What masking does to retrieval: ``python -m benchmarks.playbook.masking DATA OUT.json``.

The tasks with calls of WorkBench and BFCL, each with its own bullet or its whole group left out, are looked up among
bullets that hold their requests: as they are, and masked (the default). Reported: hit@3 of both in percent, and the
paired difference with a 95 % interval that draws groups as a whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ace.evaluation.stats import difference
from ace.playbook import MiniLMEmbedder, Playbook
from ace.playbook.masking import PatternMasker, Span
from benchmarks.command import command
from benchmarks.retrieval import bench as retrieval_bench


class NoMask:
    """Masks nothing."""

    name = "none"

    def spans(self, text: str) -> list[Span]:
        """Mask no part of any text."""
        return []


def hits(tasks: list[Any], embedder: Any, masker: Any, guard: str) -> list[float]:
    """Say for each task whether a bullet with its calls is among the first three."""
    with Playbook(embedder=embedder, masker=masker, screen=None) as book:
        retrieval_bench.fill(book, tasks)
        ranks = [retrieval_bench.rank(book, task, guard) for task in tasks]
    return [float(rank is not None and rank < 3) for rank in ranks]


def main(data: Path) -> dict[str, Any]:
    """Return the report."""
    sets = {
        "workbench": retrieval_bench.suite_tasks(retrieval_bench.load_suite(f"workbench:{data / 'workbench'}")),
        "bfcl": retrieval_bench.read_tasks(data / "bfcl_turns" / "tasks.jsonl"),
    }
    report: dict[str, Any] = {}
    for name, tasks in sets.items():
        tasks = [task for task in tasks if task.tools]
        embedder = retrieval_bench.Remembering(MiniLMEmbedder())
        for guard in ("loo", "group"):
            verbatim, masked = (hits(tasks, embedder, masker, guard) for masker in (NoMask(), PatternMasker()))
            found = difference(verbatim, masked, [task.group for task in tasks])
            low, value, high = (100 * part for part in (found.low, found.value, found.high))
            means = [100 * sum(side) / len(side) for side in (verbatim, masked)]
            report[f"{name}_{guard}"] = dict(
                zip(("verbatim", "masked", "difference", "low", "high"), (*means, value, low, high), strict=True)
            )
    report["lowest_high"] = min(part["high"] for part in report.values())
    return report


if __name__ == "__main__":
    command(main)
