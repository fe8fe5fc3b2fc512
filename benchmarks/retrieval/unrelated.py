"""Are lessons shown to requests that have nothing to do with a book?

``python -m benchmarks.retrieval.unrelated DATA OUT.json``: books of one lesson for each task of WorkBench, of
BFCL's turns and of the office demo are asked what the tasks of another of these sets ask (a hundred each, drawn with a
seed), with the book's tools in service. Of WorkBench and the office demo BFCL's turns are asked, of BFCL's WorkBench's: the
two offices have much in common.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ace.evaluation.stats import share_interval
from ace.playbook import MiniLMEmbedder
from ace.suites.registry import load_suite
from benchmarks.command import command
from benchmarks.retrieval.bench import playbook_of, read_tasks, suite_tasks

ASKED = {"workbench": "bfcl", "office": "bfcl", "bfcl": "workbench"}
REQUESTS = 100


def main(data: Path, seed: int = 0) -> dict[str, Any]:
    """Ask, and count how often a lesson comes."""
    embedder, report = MiniLMEmbedder(), dict[str, Any]()
    sets = {
        "workbench": suite_tasks(load_suite(f"workbench:{data / 'workbench'}")),
        "bfcl": read_tasks(data / "bfcl_turns" / "tasks.jsonl"),
        "office": suite_tasks(load_suite("office")),
    }
    shown, asked = 0, 0
    for name, other in ASKED.items():
        drawn = random.Random(seed).sample(sets[other], REQUESTS)
        with playbook_of(sets[name], embedder) as book:
            came = [task.query for task in drawn if book.retrieve(task.query)]
        report[name] = {"asked_of": other, "shown": len(came), "examples": came[:3]}
        shown, asked = shown + len(came), asked + len(drawn)
    low, high = share_interval(shown, asked)
    report |= {"asked": asked, "shown": 100 * shown / asked, "interval": (100 * low, 100 * high)}
    return report


if __name__ == "__main__":
    command(main)
