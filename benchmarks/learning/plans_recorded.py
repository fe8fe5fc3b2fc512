"""What plans as one call would have done for real models' tasks.

``python -m benchmarks.learning.plans_recorded DATA OUT.json``

GPT-4's and GPT-3.5's recorded runs of WorkBench: a book learns from one half of the tasks, each half in turn, and is asked
for the other. The plan that would be offered first is taken as proven; its slots are filled with what the reference
solution, or else the recorded run, gave to an argument of that name, where it stands in the task's own words: a date that
has to be worked out does not. **Right**: the world is then as the reference solution leaves it. **Part**: its changes are
some of the reference solution's, and the model would go on. **Wrong**: it made a change that the reference solution does not
make. Of the rest no plan was offered, a slot could not be filled so, or the plan handed back before it had changed anything.
No model is asked. Intervals: Wilson's shape, families of tasks drawn as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from ace import ReActGenerator
from ace.evaluation import evaluate
from ace.evaluation.models import choose_model
from ace.evaluation.stats import share
from ace.learner import Learner
from ace.playbook import MiniLMEmbedder, Playbook
from ace.playbook.results import Retrieved
from ace.reflector.values import as_key, as_text, said_in, spellings
from ace.suites.protocol import signature_of
from ace.suites.registry import load_suite
from ace.suites.splits import halves
from ace.testing import FunctionLM, decision
from benchmarks.command import command

RUNS = ("gpt-4_domains", "gpt-4_all", "gpt-3.5_domains")


class Released:
    """A playbook, all of whose plans may run."""

    def __init__(self, book: Playbook) -> None:
        self._book = book

    def retrieve_for(self, task: Any, tools: Any) -> Retrieved:
        """Return the lessons for a task."""
        found = self._book.retrieve_for(task, tools)
        return Retrieved(found, released=[bullet.id for bullet in found])


def filled(slots: Sequence[str], calls: Sequence[tuple[str, dict[str, Any]]], task: str) -> dict[str, Any]:
    """Fill the slots with the first values of known calls that the task says."""
    found: dict[str, Any] = {}
    for slot in slots:
        named = [args[n] for tool, args in calls for n in args if slot in (n, f"{tool.replace('.', '_')}_{n}")]
        said = [v for v in named if any(any(said_in(task, text)) for text in {as_text(v), *spellings(v)})]
        found |= {slot: said[0]} if said else {}
    return found


def same(step: Any, call: Any) -> bool:
    """Check whether a call is one of the reference solution's."""
    given = {name: as_key(value) for name, value in step.tool_args.items()}
    return step.tool_name == call.name and all(given.get(name) == as_key(value) for name, value in call.args.items())


def outcome(suite: Any, attempt: Any, book: Playbook) -> str:
    """Say what the plan would have done: none, unfilled, right, wrong, handed back."""
    task = attempt.task
    episode = suite.episode(task)
    calls = [(call.name, call.args) for call in task.gold]
    calls += [(step.tool_name, step.tool_args) for step in attempt.output.structured_trace if step.executed]
    seen: dict[str, Any] = {"plan": False, "missing": False}

    def reply(prompt: Any) -> str:
        name = next((name for name in prompt.tools if name.startswith("plan_")), "")
        if not name or seen["plan"]:
            return decision("submit", answer=task.answer)
        slots = prompt.tools[name]["args"]["properties"]
        args = filled(list(slots), calls, task.task.text)
        seen["plan"], seen["missing"] = True, bool(slots.keys() - args.keys())
        return decision("submit", answer=task.answer) if seen["missing"] else decision(name, **args)

    agent = ReActGenerator(
        signature_of(suite), tools=episode.registry, playbook=Released(book), lm=FunctionLM("oracle", reply),
        plans="approved", memory_timeout=None,
    )  # fmt: skip
    output = agent.run(episode.task)
    if not seen["plan"]:
        return "none"
    if seen["missing"]:
        return "unfilled"
    changes = [step for step in output.structured_trace if step.executed and step.changes_state]
    if changes and episode.score(output).details["state_equal"]:
        return "right"
    if changes:
        return "part" if all(any(same(step, call) for call in task.gold) for step in changes) else "wrong"
    plan = output.metadata["plan"]
    return "handed back" if plan["end"] is None or plan["end"]["why"] else "read only"


def one_model(data: Path, run: str) -> list[tuple[str, str]]:
    """Say what became of each task, with its family."""
    suite = load_suite(f"workbench:{data / 'workbench'}", toolkits="all" if run.endswith("_all") else "domains")
    choice = choose_model(f"recorded:{run}", suite)
    known = ([task for task in half if choice.knows(task)] for half in halves(suite.tasks))
    sides = [list(evaluate(suite, choice.lm_for, tasks=tasks, policy=choice.policy)) for tasks in known]
    found: list[tuple[str, str]] = []
    for learned, asked in (sides, sides[::-1]):
        with Playbook(embedder=MiniLMEmbedder()) as book:
            learner = Learner(book)
            for attempt in learned:
                hashes = suite.episode(attempt.task).registry.schema_hashes
                learner.learn(attempt.output, attempt.feedback, hashes, group=attempt.task.group)
            found += [(outcome(suite, attempt, book), attempt.task.group) for attempt in asked]
    return found


def main(data: Path) -> dict[str, Any]:
    """Learn, try, and return the report."""
    report: dict[str, Any] = {"models": {}}
    everything: list[tuple[str, str]] = []
    for run in track(RUNS, "models", console=Console(stderr=True)):
        rows = one_model(data, run)
        everything += [(what, f"{run}/{family}") for what, family in rows]
        report["models"][run] = figures(rows)
    report |= figures(everything)
    return report


def figures(rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the shares of right and wrong, with intervals, and how often each came out."""
    found: dict[str, Any] = {"n": len(rows), "counts": dict(Counter(what for what, _ in rows))}
    families = [family for _, family in rows]
    for name in ("right", "part", "wrong"):
        part = share([float(what == name) for what, _ in rows], families)
        found[name] = {"value": 100 * part.value, "low": 100 * part.low, "high": 100 * part.high}
    return found


if __name__ == "__main__":
    command(main)
