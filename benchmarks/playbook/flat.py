"""What learning from one run takes in a small and in a large playbook: ``python -m benchmarks.playbook.flat OUT.json``.

Two playbooks of 100 and of 50,000 lessons in free words (a cheap embedder) learn the same verified runs in turns, in one
process. Reported: the medians and their ratio, with the 95 % interval of a bootstrap over the turns.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from ace.learner import Learner
from ace.playbook import Add, CallableEmbedder, Playbook, PlaybookBullet
from ace.tasks import Feedback
from benchmarks.command import command
from benchmarks.scenarios import advice, letters, verified

SIZES = (100, 50_000)
TURNS, WARM, BATCH, RESAMPLES = 200, 20, 5_000, 2_000


def main() -> dict[str, Any]:
    """Fill, learn in turns, and return the report."""
    taken: dict[int, list[float]] = {size: [] for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        learners: dict[int, Learner] = {}
        for size in SIZES:
            book = Playbook.open(
                Path(folder) / f"{size}.db", embedder=CallableEmbedder("letters", letters), screen=None
            )
            for start in track(range(0, size, BATCH), f"{size:,} lessons", console=Console(stderr=True)):
                numbers = range(start, min(size, start + BATCH))
                book.commit([Add(bullet=PlaybookBullet(**advice(number))) for number in numbers])
            book.retrieve("Refund the order of customer 1")
            learners[size] = Learner(book)
        for turn in range(WARM + TURNS):
            for size, learner in learners.items():
                started = time.perf_counter()
                learner.learn(verified(turn), Feedback(success=True), {})
                if turn >= WARM:
                    taken[size].append(1_000 * (time.perf_counter() - started))
        for learner in learners.values():
            learner.playbook.close()
    small, large = (np.array(taken[size]) for size in SIZES)
    drawn = np.random.default_rng(0).integers(0, TURNS, (RESAMPLES, TURNS))
    low, high = np.quantile(np.median(large[drawn], axis=1) / np.median(small[drawn], axis=1), [0.025, 0.975])
    return {
        "lessons": list(SIZES),
        "milliseconds": [float(np.median(small)), float(np.median(large))],
        "ratio": float(np.median(large) / np.median(small)),
        "low": float(low),
        "high": float(high),
    }


if __name__ == "__main__":
    command(main)
