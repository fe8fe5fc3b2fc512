"""How much is learned from how many attempts: ``python -m benchmarks.learning.office OUT.json [--seeds 5]`` (simulated).

For each seed one playbook is learned on half of every office family's tasks from at most 1, 3, 10 and 40 attempts at
each task, and the other half is run without memory, with the playbook and with gold bullets. A second playbook is
learned on all tasks but those in one of each family's three wordings, and is compared on these. Reported: the share of
the way from no memory to gold bullets that the playbook goes, in iterations and in success. Intervals: families drawn
as a whole, seeds a random effect, arms paired.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from benchmarks.by_seed import in_processes
from benchmarks.command import command
from benchmarks.learning.demo import BOUNDS, learned_book

ATTEMPTS = (1, 3, 10, 40)
WORDINGS = 3
"""Of each family; task number n has the wording n modulo three."""
ARMS = ("none", "playbook", "gold")
Job = tuple[int, int, bool]


def wording(task: Any) -> int:
    """Return which of its family's wordings a task has."""
    return int(task.id.rpartition("#")[2]) % WORDINGS


def one_book(job: Job) -> dict[str, Any]:
    """Learn one book and compare on held-out tasks."""
    from ace.agent import Policy
    from ace.evaluation.runner import evaluate
    from ace.playbook import MiniLMEmbedder, Playbook
    from ace.suites.office import OfficeSuite
    from ace.suites.splits import halves
    from ace.testing import SimulatedLM

    MiniLMEmbedder(threads=1).warm()  # the jobs run side by side
    seed, attempts, new_words = job
    suite, policy = OfficeSuite(), Policy.lenient()
    train, test = halves(suite.tasks)
    if new_words:
        unseen = seed % WORDINGS
        train = [task for task in suite.tasks if wording(task) != unseen]
        test = [task for task in suite.tasks if wording(task) == unseen]
    with Playbook() as book:
        report = learned_book(seed, suite, policy, train, book, attempts)
        rows = [
            {
                "seed": seed,
                "arm": attempt.arm,
                "task": f"{seed}/{attempt.task.id}",
                "family": attempt.task.group,
                "success": float(attempt.feedback.success),
                "iterations": float(attempt.output.usage.iterations),
            }
            for attempt in evaluate(
                suite,
                lambda run_seed: SimulatedLM(suite, seed=run_seed),
                tasks=test,
                arms=ARMS,
                seeds=[seed],
                policy=policy,
                playbook=book,
            )
        ]
        learned = {"solved": report.successes, "runs": report.runs, "tasks": len(train), "bullets": len(book)}
    return {"attempts": attempts, "new_words": new_words, "rows": rows, "learned": {"seed": seed} | learned}


def compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means of each arm, and the share of the way from none to gold."""
    from ace.evaluation.stats import share_closed

    rows = sorted(rows, key=lambda row: row["task"])
    arms = {arm: [row for row in rows if row["arm"] == arm] for arm in ARMS}
    families, seeds = [row["family"] for row in arms["none"]], [row["seed"] for row in arms["none"]]
    found: dict[str, Any] = {"closed": {}, "tasks": len(families)}
    for metric in ("iterations", "success"):
        values = {arm: [row[metric] for row in arms[arm]] for arm in ARMS}
        found[metric] = {arm: sum(v) / len(v) for arm, v in values.items()}
        closed = share_closed(values["none"], values["playbook"], values["gold"], families, seeds)
        found["closed"][metric] = dict(zip(BOUNDS, closed[:3], strict=True))
    return found


def main(seeds: int = 5, workers: int = 2) -> dict[str, Any]:
    """Run the jobs on all cores, and return the report."""
    jobs: list[Job] = [(seed, attempts, False) for seed, attempts in product(range(seeds), ATTEMPTS)]
    jobs += [(seed, ATTEMPTS[-1], True) for seed in range(seeds)]
    done = list(in_processes(one_book, jobs[::-1], workers, "playbooks (simulated)"))
    names = {f"attempts_{n}": (n, False) for n in ATTEMPTS} | {"new_words": (ATTEMPTS[-1], True)}
    report: dict[str, Any] = {"simulated": True, "seeds": seeds}
    for name, key in names.items():
        parts = [part for part in done if (part["attempts"], part["new_words"]) == key]
        found = report[name] = compared([row for part in parts for row in part["rows"]])
        found["learned"] = [part["learned"] for part in parts]
    return report


if __name__ == "__main__":
    command(main)
