"""How many lessons 100 runs of one kind make: ``python -m benchmarks.playbook.merge OUT.json``.

One book learns 100 verified runs of one wording with different numbers, another twenty runs of each of five wordings, a
third 100 runs of five people with five reasons. Reported: how many lessons are shown, how many texts there are, and
whether the right lesson is found for new numbers and in a wording that no run had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ace.learner import Learner
from ace.playbook import Playbook
from ace.playbook.plan import digest_of
from ace.tasks import Feedback, ReasoningStep, TaskInput, TaskOutput
from benchmarks.command import command

WORDINGS = (
    "Refund order {n}",
    "Please give the customer their money back for order {n}.",
    "Order {n} arrived broken, the buyer wants a refund",
    "I need you to return the payment of order number {n}",
    "Can you reimburse order {n}?",
)
NEW_WORDING = "The payment for order {n} has to go back to the customer"
PEOPLE = ("Ana", "Ben", "Chiara", "Dmitri", "Efua")
REASONS = ("damaged", "too late", "wrong size", "not ordered", "incomplete")
OTHERS = ("Cancel order {n}", "Ship order {n} today", "What does order {n} cost?")
"""Requests of other kinds, so that finding the right lesson is no matter of course."""


def run(text: str, number: int, *calls: tuple[str, dict[str, Any], str, bool]) -> TaskOutput:
    """Make a run of these calls: tool, arguments, answer, whether it changed something."""
    steps = tuple(
        ReasoningStep(
            iteration=i,
            tool_call_id=f"c{i}",
            tool_name=tool,
            tool_args=args,
            outcome="success",
            observation=answer,
            changes_state=changes,
            executed=True,
        )
        for i, (tool, args, answer, changes) in enumerate(calls, 1)
    )
    task = TaskInput(task_id=digest_of(text), inputs={"task": text})
    return TaskOutput(
        task_id=task.task_id,
        run_id=f"r{number}-{task.task_id}",
        task=task,
        structured_trace=steps,
        termination_reason="completed",
    )


def refund(text: str, number: int, reason: str | None = None) -> TaskOutput:
    """Find the order by its number, then refund it by its id."""
    found = json.dumps({"order_id": f"o-{7 * number + 1}", "number": number, "status": "paid"})
    args = {"order_id": f"o-{7 * number + 1}"} | ({"reason": reason} if reason else {})
    return run(text, number, ("find_order", {"number": number}, found, False), ("refund", args, "refunded", True))


def others() -> Iterator[TaskOutput]:
    """Yield runs of the other kinds of request."""
    for number in range(500, 520):
        for kind, tool in zip(OTHERS, ("cancel_order", "ship_order", "read_price"), strict=True):
            call = (tool, {"number": number}, json.dumps({"done": True}), tool != "read_price")
            yield run(kind.format(n=number), number, call)


def learned(runs: Iterator[TaskOutput], asked: list[str]) -> dict[str, Any]:
    """Return what a book holds after some runs, and whether it is found."""
    with Playbook() as book:
        learner = Learner(book)
        for output in runs:
            learner.learn(output, Feedback(success=True))
        refunds = [b for b in book.bullets if "refund" in b.tool_sequence]
        for output in others():
            learner.learn(output, Feedback(success=True))
        hits = [any("refund" in b.tool_sequence for b in book.retrieve(text)) for text in asked]
        first = [book.retrieve(text)[0].tool_sequence[-1:] == ("refund",) for text in asked]
        return {
            "shown": sum(b.stage in ("active", "pinned") for b in refunds),
            "texts": len({b.content for b in refunds}),
            "situations": sum(len(b.situations) for b in refunds),
            "found": sum(hits) / len(hits),
            "first": sum(first) / len(first),
            "lessons": [[b.trigger, b.content, len(b.provenance.task_ids)] for b in refunds],
        }


def main() -> dict[str, Any]:
    """Learn, look, and return the report."""
    fresh, wording = [WORDINGS[0].format(n=n) for n in range(900, 920)], [NEW_WORDING.format(n=n) for n in range(20)]
    numbers = (refund(WORDINGS[0].format(n=n), n) for n in range(100))
    wordings = (refund(WORDINGS[n % 5].format(n=n), n) for n in range(100))
    people = (
        refund(f"Refund {PEOPLE[n % 5]}'s order {n}: it was {REASONS[n // 5 % 5]}.", n, REASONS[n // 5 % 5])
        for n in range(100)
    )
    return {
        "one_wording": learned(numbers, [*fresh, *wording]),
        "five_wordings": learned(wordings, [*(w.format(n=n) for w in WORDINGS for n in range(900, 904)), *wording]),
        "people": learned(people, [f"Refund Xenia's order {n}: it was the wrong colour." for n in range(900, 920)]),
    }


if __name__ == "__main__":
    command(main)
