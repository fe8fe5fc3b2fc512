"""What recorded conversations teach: ``python -m benchmarks.retrieval.turns RUNS.jsonl OUT.json``.

RUNS.jsonl holds recorded airline conversations (tau-bench's trajectories: ``traj``, ``reward``, ``info``). From those
that succeeded a playbook is learned. Counted are strategies made of reads alone that do not say that nothing is to be
changed, and those from a run that had to change something. Then 20 conversations with two requests are put together,
each from two that succeeded and changed something; asked is whether the second request's own words find the second
request's plan among three.
"""

from __future__ import annotations

import json
import random
from itertools import permutations
from pathlib import Path
from typing import Any

from ace.evaluation.stats import share_interval
from ace.learner import Learner, read_requests
from ace.playbook import Playbook
from benchmarks.command import command

CHANGES = {
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "transfer_to_human_agents",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
}
CONVERSATIONS = 20


def calls(run: dict[str, Any]) -> list[str]:
    """Return the names of all calls of a recorded conversation."""
    return [call["function"]["name"] for message in run["traj"] for call in message.get("tool_calls") or ()]


def changing(output: Any) -> list[str]:
    """Return the calls of a run that changed something."""
    return [step.tool_name for step in output.structured_trace if step.changes_state and step.outcome == "success"]


def reads_only(solved: list[dict[str, Any]], reads: set[str]) -> dict[str, Any]:
    """Count Strategies that only read: what they say, and whether their run was to change something."""
    wrong, silent, found = list[str](), list[str](), 0
    for run in solved:
        with Playbook() as book:
            Learner(book).learn_from_traces([run["traj"]], [True], read_only=reads)
            gold = {action["name"] for action in run["info"]["task"]["actions"]}
            strategies = [bullet for bullet in book.bullets if bullet.section == "Strategies"]
        idle = [bullet for bullet in strategies if not bullet.changing_tools]
        found += len(idle)
        silent += [
            b.content for b in idle if "nothing is to be changed" not in b.content and "without a call" not in b.content
        ]
        done = set(calls(run)) & CHANGES
        if len(idle) == len(strategies) and gold & done:
            wrong.append(f"{run['task_id']}/{run['trial']}: {[bullet.content for bullet in idle]}")
    return {"strategies": found, "silent": silent, "wrong": wrong}


def second_requests(solved: list[dict[str, Any]], reads: set[str]) -> dict[str, Any]:
    """Say whether the second request's lesson is found."""
    single = [run for run in solved if len(read_requests(run["traj"], read_only=reads)) == 1]
    single = [run for run in single if changing(read_requests(run["traj"], read_only=reads)[0])]
    pairs = [(a, b) for a, b in permutations(single, 2) if a["task_id"] != b["task_id"]]
    hits, missed = 0, list[str]()
    with Playbook() as book:
        asked: list[tuple[str, list[str]]] = []
        for first, second in random.Random(0).sample(pairs, CONVERSATIONS):
            talk = [*first["traj"], *(message for message in second["traj"] if message["role"] != "system")]
            runs = read_requests(talk, read_only=reads)
            Learner(book).learn_from_traces([talk], [True], read_only=reads)
            (alone,) = read_requests(second["traj"], read_only=reads)
            asked.append((alone.task.inputs["task"], changing(alone)))
            if changing(runs[-1]) != changing(alone):
                missed.append(f"taken apart as {[changing(run) for run in runs]}")
        for words, wanted in asked:
            found = book.retrieve(words)
            hit = any(bullet.plan is not None and bullet.teaches(wanted) for bullet in found)
            hits += hit
            if not hit:
                missed.append(f"{words[:200]!r} wants {wanted}, found {[list(b.changing_tools) for b in found]}")
    low, high = share_interval(hits, CONVERSATIONS)
    return {"conversations": CONVERSATIONS, "found": hits / CONVERSATIONS, "interval": [low, high], "missed": missed}


def main(runs: Path) -> dict[str, Any]:
    """Return the report."""
    recorded = [json.loads(line) for line in runs.read_text(encoding="utf-8").splitlines()]
    solved = [run for run in recorded if run["reward"] == 1]
    reads = {name for run in recorded for name in calls(run)} - CHANGES
    idle = reads_only(solved, reads)
    return {
        "solved": len(solved),
        "reads_only": idle,
        "reads_only_wrong": len(idle["wrong"]),
        "reads_only_silent": len(idle["silent"]),
        "second_requests": second_requests(solved, reads),
    }


if __name__ == "__main__":
    command(main)
