"""tau2-bench's tasks as suites: ``python -m benchmarks.retrieval.tau2 DATA OUT.json``.

* **Gold replay**: how many base tasks tau2's own checks call right after their reference calls, and how many of those that
  need a change are wrong when nothing is done.
* **Retrieval**: whether the lesson that teaches a task's writing calls is among three found, with the task's own lesson left
  out, and with those of its whole family (one user's tasks) left out.
* **Learning**, where DATA/tau_airline_runs is there: GPT-4o's conversations of tau-bench's first version are learned from,
  and the lessons are held against the airline tasks of tau2 that were not recorded: how many gold writes any lesson holds,
  and how many are among three found. Which lessons came out stands in the JSON.

Airline and retail are one-turn tasks here, without a simulated user: this is no tau2 score.
"""

from __future__ import annotations

import json
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from ace.evaluation.stats import share
from ace.learner import Learner
from ace.playbook import Playbook
from ace.suites import load_suite
from ace.suites.check import check_suite
from ace.suites.protocol import Suite, changing
from benchmarks.command import command
from benchmarks.retrieval.bench import bench_retrieval, suite_tasks
from benchmarks.retrieval.turns import CHANGES, calls

DOMAINS = ("airline", "retail", "telecom")
SEARCHED = ("airline", "retail")
ALIKE = 0.5
"""A recorded task is one of tau2's when their texts share this much; tau2's ids are other ones."""


def learned_from_recordings(suite: Suite, data: Path) -> dict[str, Any]:
    """Say what real conversations teach for tasks that are not among them."""
    lines = (data / "tau_airline_runs" / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    recorded = {run["task_id"]: run["info"]["task"]["instruction"] for run in runs}
    seen = {task.id for text in recorded.values() if (task := _same_task(suite, text)) is not None}
    unseen = [task for task in suite.tasks if task.id not in seen]
    reads = {name for run in runs for name in calls(run)} - CHANGES
    with Playbook() as book:
        learner = Learner(book)
        learner.learn_from_traces([run["traj"] for run in runs], [run["reward"] == 1 for run in runs], read_only=reads)
        strategies = [bullet for bullet in book.bullets if bullet.section == "Strategies"]
        held = {bullet.key for bullet in strategies}
        writing = [task for task in unseen if changing(suite, task)]
        hits: dict[str, list[float]] = {"held": [], "found": []}
        for task in writing:
            wanted = changing(suite, task)
            shown = book.retrieve(task.task.text)
            hits["held"].append(float(wanted in held))
            hits["found"].append(float(any(b.section == "Strategies" and b.teaches(wanted) for b in shown)))
        families = [task.group for task in writing]
        found = {name: share(values, families) for name, values in hits.items()}
        return {
            "runs": len(runs),
            "recorded_tasks": len(recorded),
            "matched_tasks": len(seen),
            "sections": dict(Counter(bullet.section for bullet in book.bullets)),
            "lessons": [{"trigger": b.trigger, "content": b.content, "tools": b.tool_sequence} for b in strategies],
            "unseen_with_writes": len(writing),
            **{
                name: {"value": 100 * one.value, "low": 100 * one.low, "high": 100 * one.high}
                for name, one in found.items()
            },
        }


def _same_task(suite: Suite, instruction: str) -> Any:
    """Find the task of tau2 that a recorded one became: the same user, and the most words alike."""
    words = instruction.lower().split()
    near = [
        (SequenceMatcher(None, words, task.task.text.lower().split(), autojunk=False).ratio(), task)
        for task in suite.tasks
    ]
    named = [(ratio, task) for ratio, task in near if task.group.lower() in instruction.lower()]
    ratio, best = max(named or near, key=lambda pair: pair[0])
    return best if named or ratio >= ALIKE else None


def main(data: Path) -> dict[str, Any]:
    """Replay, look up, learn, and return the report."""
    suites = {domain: load_suite(f"tau2:{domain}") for domain in DOMAINS}
    report: dict[str, Any] = {"gold": {}, "retrieval": {}}
    for domain, suite in track(suites.items(), "gold calls", console=Console(stderr=True)):
        checked = check_suite(suite).tasks
        report["gold"][domain] = checked.model_dump()
    for domain in SEARCHED:
        found = bench_retrieval(suite_tasks(suites[domain]))
        report["retrieval"][domain] = found.model_dump(by_alias=True)
    report["learning"] = learned_from_recordings(suites["airline"], data)
    return report


if __name__ == "__main__":
    command(main)
