"""Are lessons shown to requests that have nothing to do with a book?

``python -m benchmarks.retrieval.unrelated OUT.json --data FOLDER``: books of one lesson for each task of WorkBench, of
BFCL's turns and of the office demo are asked what the tasks of another of these sets ask (a hundred each, drawn with a
seed), with the book's tools in service. Of WorkBench and the office demo BFCL's turns are asked, of BFCL's WorkBench's: the
two offices have much in common.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from ace.evaluation.stats import share_interval
from ace.playbook import MiniLMEmbedder
from ace.suites.registry import load_suite
from benchmarks.retrieval.bench import playbook_of, read_tasks, suite_tasks

ASKED = {"workbench": "bfcl", "office": "bfcl", "bfcl": "workbench"}
REQUESTS = 100


def main() -> None:
    """Ask, and count how often a lesson comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the public data")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    embedder, report = MiniLMEmbedder(), dict[str, Any]()
    sets = {
        "workbench": suite_tasks(load_suite(f"workbench:{given.data / 'workbench'}")),
        "bfcl": read_tasks(given.data / "bfcl_turns" / "tasks.jsonl"),
        "office": suite_tasks(load_suite("office")),
    }
    shown, asked = 0, 0
    for name, other in ASKED.items():
        drawn = random.Random(given.seed).sample(sets[other], REQUESTS)
        with playbook_of(sets[name], embedder) as book:
            came = [task.query for task in drawn if book.retrieve(task.query)]
        report[name] = {"asked_of": other, "shown": len(came), "examples": came[:3]}
        shown, asked = shown + len(came), asked + len(drawn)
    low, high = share_interval(shown, asked)
    report |= {"asked": asked, "shown": 100 * shown / asked, "interval": (100 * low, 100 * high)}
    given.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(f"{shown} of {asked} unrelated requests were shown a lesson: {100 * shown / asked:.1f} %")


if __name__ == "__main__":
    main()
