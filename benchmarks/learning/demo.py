"""What learning delivers on held-out tasks: ``python -m benchmarks.learning.demo OUT.json [--seeds 5]`` (simulated).

For each seed a playbook is learned on half of every office family's tasks, with the estimated error rates and at most 40
attempts at each task; the other half is run without memory, with the playbook, with gold bullets and with random bullets, at
the estimated rates, at half and at twice all rates (each at most 0.95; six runs of each task, success is rare there). With
unseen families, all lessons of a task's own family are left out. Intervals: families
drawn as a whole, seeds (each learned a playbook of its own) a random effect, arms paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.by_seed import in_processes
from benchmarks.command import command

if TYPE_CHECKING:
    from ace.learner import LearningReport

ATTEMPTS = 40
STRIDE = 100
"""Between the seeds of one repeat and the next."""
FACTORS = {"halved": 0.5, "estimated": 1.0, "doubled": 2.0}
REPEATS = {"halved": 1, "estimated": 1, "doubled": 6}
"""Runs of each held-out task per seed: at twice all rates even gold bullets succeed in one of twenty runs."""
BOUNDS = ("estimate", "low", "high")
ARMS = ("none", "playbook", "gold", "random")


def learned_book(seed: int, suite: Any, policy: Any, train: Sequence[Any], book: Any, attempts: int) -> LearningReport:
    """Learn from at most this many attempts at each task, with random seeds that no comparison has."""
    from ace.evaluation.runner import AgentPool
    from ace.learner import Learner
    from ace.reflector import Reflector
    from ace.testing import SimulatedLM

    pool, lms = AgentPool(suite, policy), dict[int, SimulatedLM]()

    def agent_for(episode: Any) -> Any:
        run_seed = 1_000 * (seed + 1) + episode.attempt
        lms.setdefault(run_seed, SimulatedLM(suite, seed=run_seed))
        return pool.agent(episode, lms[run_seed], book)

    learner = Learner(book, agent_for, reflector=Reflector("simulated"))
    return learner.fit([partial(suite.episode, task) for task in train], epochs=attempts, skip_solved=True)


def one_seed(seed: int) -> dict[str, Any]:
    """Learn a book and compare; everything of one seed."""
    from ace.agent import Policy
    from ace.evaluation.runner import evaluate
    from ace.playbook import MiniLMEmbedder, Playbook
    from ace.suites.office import OfficeSuite
    from ace.suites.splits import halves
    from ace.testing import SimulatedLM
    from ace.testing.rates import load_rates

    MiniLMEmbedder(threads=1).warm()  # the seeds run side by side
    suite, policy = OfficeSuite(), Policy.lenient()
    train, test = halves(suite.tasks)
    rows = []
    with Playbook() as book:
        report = learned_book(seed, suite, policy, train, book, ATTEMPTS)
        for name, factor in FACTORS.items():
            rates = load_rates(factor)
            lm_for = partial(SimulatedLM, suite, rates=rates)
            for unseen in (False, True):
                for attempt in evaluate(
                    suite,
                    lambda run_seed, lm_for=lm_for: lm_for(seed=run_seed),
                    tasks=test,
                    arms=ARMS[:2] if unseen else ARMS,
                    seeds=range(seed, seed + (1 if unseen else REPEATS[name]) * STRIDE, STRIDE),
                    policy=policy,
                    playbook=book,
                    unseen=unseen,
                ):
                    rows.append(
                        {
                            "rates": name,
                            "unseen": unseen,
                            "seed": seed,
                            "arm": attempt.arm,
                            "task": f"{seed}/{attempt.seed}/{attempt.task.id}",
                            "family": attempt.task.group,
                            "success": float(attempt.feedback.success),
                            "iterations": float(attempt.output.usage.iterations),
                        }
                    )
        learned = {"seed": seed, "runs": report.runs, "solved": report.successes, "bullets": len(book)}
    return {"rows": rows, "learned": learned}


def compare(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return shares of the way from none to gold, and what unseen families lose."""
    from ace.evaluation.stats import difference, share_closed

    found: dict[str, Any] = {}
    for name in FACTORS:
        seen = _arms([row for row in rows if row["rates"] == name and not row["unseen"]])
        other = _arms([row for row in rows if row["rates"] == name and row["unseen"]])
        families, seeds = _units(seen["none"])
        part: dict[str, Any] = {"closed": {}}
        for metric in ("iterations", "success"):
            values = {arm: [row[metric] for row in found_rows] for arm, found_rows in seen.items()}
            part[metric] = {arm: sum(v) / len(v) for arm, v in values.items()}
            for arm in ("playbook", "random"):
                closed = share_closed(values["none"], values[arm], values["gold"], families, seeds)
                part["closed"].setdefault(metric, {})[arm] = dict(zip(BOUNDS, closed[:3], strict=True))
        part["fewer_iterations"] = 1 - part["iterations"]["playbook"] / part["iterations"]["none"]
        before, after = ([row["success"] for row in other[arm]] for arm in ARMS[:2])
        gained = difference(before, after, *_units(other["none"]))
        part["unseen_success"] = {
            "difference": 100 * gained.value,
            "low": 100 * gained.low,
            "high": 100 * gained.high,
            "most_lost": -100 * gained.low,
        }
        found[name] = part
    return found


def _units(rows: list[dict[str, Any]]) -> tuple[list[str], list[int]]:
    """Return family and seed of each row."""
    return [row["family"] for row in rows], [row["seed"] for row in rows]


def _arms(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group rows by arm, each in the order of the tasks."""
    arms: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["task"]):
        arms.setdefault(row["arm"], []).append(row)
    return arms


def main(seeds: int = 5, workers: int = 2) -> dict[str, Any]:
    """Run the seeds on all cores, and return the report."""
    done = list(in_processes(one_seed, range(seeds), workers, "seeds (simulated)"))
    return {
        "simulated": True,
        "learned": [result["learned"] for result in done],
        "compared": compare([row for result in done for row in result["rows"]]),
    }


if __name__ == "__main__":
    command(main)
