"""How often retrieval answers out of its cache while it learns: ``python benchmarks/cache_hits.py OUT.json`` (simulated).

An office stream in which 30 tasks recur in random order; the Learner commits after every task.
"""

from __future__ import annotations

import json
import random
import sys
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import track

from ace.agent import Policy
from ace.evaluation.episodes import AgentPool
from ace.learner import Learner
from ace.playbook import Playbook
from ace.reflector import Reflector
from ace.suites.registry import load_suite
from ace.testing import SimulatedLM

TASKS, RUNS, WINDOW = 30, 2_100, 300


def main() -> None:
    """Run the stream, print, write."""
    suite, dice = load_suite("office"), random.Random(0)
    tasks = dice.sample(list(suite.tasks), TASKS)
    pool, shares, attempts = AgentPool(suite, Policy.lenient()), [], {}

    with Playbook() as book:

        def agent_for(episode):
            attempts[episode.task.task_id] = attempts.get(episode.task.task_id, 0) + 1
            return pool.agent(episode, SimulatedLM(suite, seed=1_000 + attempts[episode.task.task_id]), book)

        learner = Learner(book, agent_for, reflector=Reflector("simulated"))
        for start in track(range(0, RUNS, WINDOW), description="stream (simulated)", console=Console(stderr=True)):
            hits, misses = book.cache.hits, book.cache.misses
            learner.fit([partial(suite.episode, dice.choice(tasks)) for _ in range(start, min(start + WINDOW, RUNS))])
            gained, lost = book.cache.hits - hits, book.cache.misses - misses
            shares.append(gained / (gained + lost))
        report = {
            "simulated": True,
            "tasks": TASKS,
            "runs": RUNS,
            "hits": book.cache.hits / (book.cache.hits + book.cache.misses),
            "hits_by_window": shares,
            "bullets": len(book),
            "commits": book.revision,
        }
    Console().print(report)
    Path(sys.argv[1]).write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
