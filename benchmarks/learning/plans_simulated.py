"""Plans as one call beside the same lessons as text: ``python -m benchmarks.learning.plans_simulated OUT.json`` (simulated).

The middle setting of `curves.py`: office, 10 attempts at each task of one half, a reader that takes the first lesson. Each
book is then tried on the other half, once as text and once with every plan released that can be. Iterations are compared
over the runs that were solved; success is paired by task and book.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from benchmarks.by_seed import in_processes
from benchmarks.command import command
from benchmarks.learning.curves import MIDDLE
from benchmarks.learning.memory_study import Reader, compared, learning, played

ARMS = ("off", "approved")


def one_book(seed: int) -> list[dict[str, Any]]:
    """Learn one book, release its plans, and run the held-out tasks in both arms."""
    from ace.core import PlaybookError
    from ace.playbook import MiniLMEmbedder, Playbook
    from ace.suites import load_suite, split

    MiniLMEmbedder(threads=1).warm()  # the jobs run side by side
    suite = load_suite("office")
    train, test = split(suite.tasks, "halves", seed=seed)
    rows: list[dict[str, Any]] = []
    with Playbook() as book:
        for _ in learning(suite, train, seed, MIDDLE[0], book):
            pass
        for bullet in book.bullets:
            with suppress(PlaybookError):
                book.review.release(bullet.id, author="benchmark")
        for arm in ARMS:
            rows += played(suite, test, seed, Reader(suite, MIDDLE[2], seed), lambda task: book, arm, plans=arm)
    return rows


def main(seeds: int = 10, workers: int = 2) -> dict[str, Any]:
    """Run the books, and return the report."""
    rows = [row for part in in_processes(one_book, range(seeds), workers, "books (simulated)") for row in part]
    text, plan = ([row for row in rows if row["arm"] == arm] for arm in ARMS)
    found = compared(text, plan)
    solved = {arm: [row for row in rows if row["arm"] == arm and row["success"]] for arm in ARMS}
    means = {arm: sum(row["iterations"] for row in own) / max(1, len(own)) for arm, own in solved.items()}
    return {
        "simulated": True,
        "books": seeds,
        "tasks": len(plan),
        "iterations_of_solved": means,
        "iterations_ratio": means["approved"] / means["off"],
        "tokens_ratio": sum(row["all_tokens"] for row in plan) / sum(row["all_tokens"] for row in text),
        "success_text": 100 * sum(row["success"] for row in text) / len(text),
        "success_plan": found["success"],
        "gain": found["gain_success"],
        "gain_points": found["gain_success"]["value"],
        "offered": sum(row["plan"] is not None for row in plan),
        "taken": sum(row["plan"]["taken"] for row in plan if row["plan"]),
        "finished": sum(row["plan"]["end"]["why"] == "" for row in plan if row["plan"] and row["plan"]["end"]),
    }


if __name__ == "__main__":
    command(main)
