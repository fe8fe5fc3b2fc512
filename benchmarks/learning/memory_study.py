"""What the studies of memory share: readers, a book that is cut while it learns, runs with any memory, and comparisons.

Everything here is *simulated*: the stand-in errs less when it follows a lesson that fits, and how often it does is the
reader's assumption.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ace.agent import Policy
from ace.evaluation.episodes import Attempt, pools_of, set_up
from ace.evaluation.runner import AgentPool
from ace.evaluation.stats import paired_difference, share, share_closed
from ace.learner import Learner
from ace.playbook import Playbook
from ace.playbook.render import count_tokens, render_bullets
from ace.reflector import Reflector
from ace.suites.protocol import Suite, SuiteTask
from ace.testing import SimulatedLM
from ace.testing.simulated import ShownBullet

POLICY = Policy.lenient()
TRAINING = 1_000
"""Between the random seeds of training, which no comparison has."""
READERS = {"best": 1.0, "first": 1.0, "random": 1.0, "three quarters": 0.75, "half": 0.5, "quarter": 0.25}
"""How often each follows what it reads."""
Source = Any
"""What an agent's `playbook` may be."""
Row = dict[str, Any]


class Reader(SimulatedLM):
    """A stand-in that reads the shown lessons in its own way.

    ``best`` follows the one that fits, wherever it stands among those shown; ``first`` the first one, ``random`` one at
    random, right or wrong; the others the one that fits, in a share of the tasks.
    """

    def __init__(self, suite: Suite, reader: str, seed: int) -> None:
        super().__init__(suite, seed=seed)
        self.reader = reader

    def _condition(self, task: SuiteTask, bullets: Sequence[ShownBullet]) -> tuple[str, str]:
        return super()._condition(task, self._read(task, bullets))

    def _read(self, task: SuiteTask, bullets: Sequence[ShownBullet]) -> Sequence[ShownBullet]:
        strategies = [bullet for bullet in bullets if bullet.section == "Strategies"]
        drawn = random.Random(f"{self._random_key}|{task.id}|reads")
        if self.reader == "first":
            return strategies[:1]
        if self.reader == "random":
            return [drawn.choice(strategies)] if strategies else []
        return strategies if drawn.random() < READERS[self.reader] else []


def learning(
    suite: Suite, train: Sequence[SuiteTask], seed: int, attempts: int, book: Playbook
) -> Iterator[tuple[int, list[Attempt]]]:
    """Try each task that is not solved yet, once in each round, with the lessons that there are, and learn from every run.

    Yields:
        After each round its number, from 1, and its runs; the book is what was learned by then.
    """
    pool, left = AgentPool(suite, POLICY), list(train)
    for number in range(attempts):
        lm, made = SimulatedLM(suite, seed=TRAINING * (seed + 1) + number), list[Attempt]()

        def keep(task: SuiteTask, episode: Any, output: Any, feedback: Any, made: list[Attempt] = made) -> None:
            made.append(Attempt(task, "training", seed, output, feedback))

        learner = Learner(book, partial(_agent, pool, lm, book), reflector=Reflector("simulated"))
        for task in left:
            learner.fit([partial(suite.episode, task)], on_run=partial(keep, task))
        left = [attempt.task for attempt in made if not attempt.feedback.success]
        yield number + 1, made


def _agent(pool: AgentPool, lm: Any, book: Playbook, episode: Any) -> Any:
    return pool.agent(episode, lm, book)


def played(
    suite: Suite,
    tasks: Sequence[SuiteTask],
    seed: int,
    lm: Any,
    source_of: Callable[[SuiteTask], Source],
    arm: str = "",
    plans: str = "off",
) -> list[Row]:
    """Run each task with what a memory shows for it; `plans` says which plans may be one call."""
    pools, rows = pools_of(suite, POLICY), list[Row]()
    for task in tasks:
        agent, given, finish = set_up(suite, pools, "", lm, task, source_of(task))
        agent.plans = plans
        found = finish(agent.run(given))
        rows.append(
            {
                "arm": arm,
                "seed": seed,
                "task": f"{seed}/{task.id}",
                "family": task.group,
                "success": float(found.feedback.success),
                "iterations": float(found.output.usage.iterations),
                "tokens": float(found.memory_tokens),
                "all_tokens": float(found.output.usage.input_tokens + found.output.usage.output_tokens),
                "plan": found.output.metadata.get("plan"),
            }
        )
    return rows


def tokens_of(bullets: Sequence[Any]) -> int:
    """Count the tokens of lessons as a prompt shows them."""
    return count_tokens(render_bullets(bullets)) if bullets else 0


def compared(none: Sequence[Row], arm: Sequence[Row], gold: Sequence[Row] = ()) -> Row:
    """Compare an arm with no memory, paired by task and seed: success, points gained, iterations, and the way to gold."""
    none, arm, gold = (sorted(rows, key=lambda row: row["task"]) for rows in (none, arm, gold))
    families, seeds = [row["family"] for row in none], [row["seed"] for row in none]
    solved = share([row["success"] for row in arm], families, seeds)
    found: Row = {
        "n": len(arm),
        "families": len(set(families)),
        "success": {"value": 100 * solved.value, "low": 100 * solved.low, "high": 100 * solved.high},
        "iterations": sum(row["iterations"] for row in arm) / len(arm),
        "tokens": sum(row["tokens"] for row in arm) / len(arm),
    }
    for metric, times in (("success", 100), ("iterations", 1)):
        values = [[row[metric] for row in rows] for rows in (none, arm)]
        gained = paired_difference(*values, families, seeds, binary=metric == "success")
        low, high = gained.estimate.interval
        found[f"gain_{metric}"] = {
            "value": times * gained.estimate.value,
            "low": None if low is None else times * low,
            "high": None if high is None else times * high,
            "rule": gained.rule,
        }
        if gold:
            closed = share_closed(*values, [row[metric] for row in gold], families, seeds)
            bounds = [None if bound is None else 100 * bound for bound in closed.interval]
            found[f"closed_{metric}"] = {"value": 100 * closed.value, "low": bounds[0], "high": bounds[1]}
    return found


def span(figure: Mapping[str, Any], digits: int = 0, sign: str = "") -> str:
    """Write a figure as ``62 (55 to 69)``."""
    low, high = (("?" if figure[key] is None else f"{figure[key]:{sign}.{digits}f}") for key in ("low", "high"))
    return f"{figure['value']:{sign}.{digits}f} ({low} to {high})"
