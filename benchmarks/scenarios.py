"""The worker of the gate: runs scenarios with whatever `ace` is on its path, and speaks JSON lines.

For each line ``{"scenario": "one_hop", "runs": 5}`` it answers ``{"ms": [...], "steps": n, "errors": n, "peak_mb": x}``.
It says first which `ace` it runs. Only names that older versions have as well are used here.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import dspy

import ace
from ace import Feedback, Learner, Policy, ReActGenerator
from ace.playbook import Add, CallableEmbedder, Playbook, PlaybookBullet
from ace.tasks import ReasoningStep, TaskInput, TaskOutput
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.testing.engine import Prompt

BULLETS = 2_000
VERBS = ("Refund", "Cancel", "Ship", "Find", "Merge", "Archive", "Forward", "Rename", "Price", "Return")
THINGS = ("order", "invoice", "parcel", "letter", "ticket", "account", "meeting", "report", "contract", "address")
HOPS = {"short_answer": 0, "one_hop": 1, "multi_hop": 10, "malformed_recovery": 2}
GARBAGE = "I would rather not say."


def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


def answer(hops: int, spoil: bool) -> Callable[[Prompt], str]:
    """Make a model that looks up `hops` keys; each first try is garbage when `spoil`."""

    def reply(prompt: Prompt) -> str:
        done, said = len(prompt.steps), getattr(prompt, "whole", prompt.text)
        rejected = max(said.rfind(GARBAGE), said.rfind("[[ ## rejected_reply_"))  # what older versions show of it
        if spoil and rejected <= said.rfind("value of k"):
            return GARBAGE
        return decision("lookup", key=f"k{done}") if done < hops else decision("finish", answer="done")

    return reply


def letters(texts: Sequence[str]) -> list[list[float]]:
    """Embed cheaply: how often each letter and digit occurs."""
    return [[text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz0123456789"] for text in texts]


def advice(number: int) -> dict[str, str]:
    """Write one of many lessons, each with words of its own."""
    verb, thing = VERBS[number % 10], THINGS[number // 10 % 10]
    return {
        "section": "Strategies",
        "trigger": f"{verb} the {thing} of customer {number}",
        "content": f"Look up the {thing} by its number {7 * number} before you {verb.lower()} it.",
    }


def verified(number: int) -> TaskOutput:
    """Make a run that refunded an order after finding it."""
    order = {"order_id": f"o-{number}"}
    calls = (("find_order", {"number": number}, json.dumps(order), False), ("refund", order, "refunded", True))
    steps = [
        ReasoningStep(
            iteration=i,
            tool_call_id=f"c{i}",
            tool_name=name,
            tool_args=args,
            outcome="success",
            observation=answer,
            changes_state=changes,
            executed=True,
        )
        for i, (name, args, answer, changes) in enumerate(calls, 1)
    ]
    task = TaskInput(task_id=f"t{number}", inputs={"task": f"Refund order {number}"})
    return TaskOutput(
        task_id=task.task_id,
        run_id=f"r{number}",
        task=task,
        structured_trace=tuple(steps),
        termination_reason="completed",
    )


class Scenarios:
    """What can be asked for; made when it is first asked for."""

    def __init__(self) -> None:
        self.open = ExitStack()
        self.made: dict[str, Callable[[], tuple[bool, int]]] = {}

    def of(self, name: str) -> Callable[[], tuple[bool, int]]:
        """Return a call that does one run and says whether it went well, and its steps."""
        if name not in self.made:
            self.made[name] = self.hops(name) if name in HOPS else getattr(self, name)()
        return self.made[name]

    def hops(self, name: str) -> Callable[[], tuple[bool, int]]:
        """Make an agent with a model that answers at once."""
        lm = FunctionLM("gate/model", answer(HOPS[name], name == "malformed_recovery"))
        agent = ReActGenerator(tools=[lookup], lm=lm, max_iters=25, policy=Policy.lenient())

        def run() -> tuple[bool, int]:
            output = agent.run("x")
            return output.completed, output.usage.iterations

        return run

    def five_steps(self) -> Callable[[], tuple[bool, int]]:
        """Make a scripted agent: four calls, then the answer."""
        steps = [*(decision("lookup", key=f"k{n}") for n in range(4)), decision("finish", answer="done")]
        agent = ReActGenerator(tools=[lookup], lm=ScriptedLM(steps))

        def run() -> tuple[bool, int]:
            output = agent.bound_to(agent.registry, lm=ScriptedLM(steps)).run("x")
            return output.completed, output.usage.iterations

        return run

    def book(self) -> Any:
        """Make a playbook file with many lessons."""
        folder = self.open.enter_context(tempfile.TemporaryDirectory())
        book = Playbook.open(Path(folder) / "book.db", embedder=CallableEmbedder("letters", letters))
        self.open.callback(book.close)
        book.commit([Add(bullet=PlaybookBullet(**advice(number))) for number in range(BULLETS)])
        book.retrieve("Refund the order of customer 1")
        return book

    def retrieve(self) -> Callable[[], tuple[bool, int]]:
        """Retrieve for tasks that were not looked up before."""
        book, numbers = self.book(), count()

        def run() -> tuple[bool, int]:
            number = next(numbers)
            task = f"{VERBS[number % 10]} the {THINGS[number // 10 % 10]} that customer {number} asked about"
            return len(book.retrieve(task)) > 0, 1

        return run

    def learn(self) -> Callable[[], tuple[bool, int]]:
        """Learn from one verified run each, whose request differs in its number."""
        book, numbers = self.book(), count()
        learner = Learner(book)

        def run() -> tuple[bool, int]:
            learner.learn(verified(next(numbers)), Feedback(success=True), {})
            return True, 1

        return run

    def add(self) -> Callable[[], tuple[bool, int]]:
        """Commit one lesson each."""
        book, numbers = self.book(), count(BULLETS)

        def run() -> tuple[bool, int]:
            book.add(**advice(next(numbers)))
            return True, 1

        return run


def main() -> None:
    """Serve requests until the input ends."""
    dspy.configure(trace=None, disable_history=True)
    scenarios = Scenarios()
    print(json.dumps({"ready": True, "ace": str(Path(ace.__file__).resolve())}), flush=True)
    with scenarios.open:
        for line in sys.stdin:
            asked = json.loads(line)
            act, taken, steps, errors = scenarios.of(asked["scenario"]), [], 0, 0
            for _ in range(asked["runs"]):
                started = time.perf_counter()
                try:
                    completed, steps = act()
                    errors += not completed
                except Exception:
                    # whatever the measured version raises is counted: the gate stops a change that brings new errors
                    errors += 1
                taken.append(1_000 * (time.perf_counter() - started))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps({"ms": taken, "steps": steps, "errors": errors, "peak_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
