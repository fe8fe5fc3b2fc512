"""What memory could have won, and cost, where real models decided.

``python -m benchmarks.retrieval.decisions DATA OUT.json``

DATA/workbench holds runs that four real models recorded in WorkBench, DATA/tau_airline_runs GPT-4o's conversations with
airline customers. For each model every memory learns from its recorded runs on one half of the tasks (of each template; of
the airline's tasks, every other one), and is asked for the other half:

* **won**: of the tasks where the recorded model failed, the share for which a shown lesson holds the right plan (the gold
  multiset of changing calls);
* **cost**: of the tasks where it succeeded, the share for which lessons are shown and all of them are wrong.

Nothing is run again and no model is asked: a real model may ignore a right lesson as well as a wrong one, so these are upper
ends of both. Beside our playbook: our lessons without those that would harm by an estimate for each kind of request
(``ours-by-kind``), and all of them or none by the same estimate (``ours-or-nothing``; see `ByKind`); the last three runs
that succeeded (``episodic``), the three most like the task (``exprag``), and three at random. Intervals: Wilson's shape,
families of tasks drawn as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from ace.evaluation import evaluate
from ace.evaluation.episodes import Attempt
from ace.evaluation.models import choose_model
from ace.evaluation.stats import share
from ace.learner import Learner
from ace.playbook import MiniLMEmbedder, Playbook, PlaybookBullet
from ace.playbook.bullet import sequence_key
from ace.playbook.render import render_bullet
from ace.suites.protocol import changing
from ace.suites.registry import load_suite
from ace.suites.splits import halves
from benchmarks.command import command
from benchmarks.learning.memories import notes_of, simple
from benchmarks.retrieval.turns import CHANGES, calls

RUNS = ("gpt-4_domains", "gpt-4_all", "gpt-3.5_domains", "llama2-70b_domains")
MEMORIES = ("ours", "ours-by-kind", "ours-or-nothing", "episodic", "exprag", "random")
NEAREST = 5
"""So many requests that were learned from are of one kind with a request: those most like it."""


class Request(NamedTuple):
    """A task as a memory is asked for it."""

    text: str
    domain: str | None
    wanted: tuple[str, ...]
    solved: bool
    """Without a memory, by the recorded model."""


class ByKind:
    """Shows a playbook's lessons without those that are expected to harm a request.

    The requests that were learned from are asked again, and the scorer says of each lesson shown whether it holds the right
    plan: more than any run could tell. A lesson stays when it was right in at least the share of the nearest requests that
    the model solves without it. Or all lessons of a request stay, where one of those shown was right as often, or none does.

    Args:
        book: It has learned.
        learned: What it has learned from.
    """

    def __init__(self, book: Playbook, learned: Sequence[Request]) -> None:
        self._book = book
        self._solved = [(self._vector(task), task.solved) for task in learned]
        self._right: dict[str, list[tuple[Any, bool]]] = {}
        self._served: list[tuple[Any, bool]] = []
        for vector, task in zip([vector for vector, _ in self._solved], learned, strict=True):
            right = {lesson.id: holds(lesson, task.wanted) for lesson in book.retrieve(task.text, domain=task.domain)}
            self._served.append((vector, any(right.values())))
            for lesson, held in right.items():
                self._right.setdefault(lesson, []).append((vector, held))

    def shown(self, task: Request) -> dict[str, Sequence[PlaybookBullet]]:
        """Return our lessons for a task: all of them, those that stay, and all or none."""
        vector, found = self._vector(task), self._book.retrieve(task.text, domain=task.domain)
        alone = _share(self._solved, vector)
        stay = [lesson for lesson in found if _share(self._right.get(lesson.id, ()), vector) >= alone]
        together = found if _share(self._served, vector) >= alone else ()
        return {"ours": found, "ours-by-kind": stay, "ours-or-nothing": together}

    def _vector(self, task: Request) -> Any:
        index = self._book.index
        return index.query_vector(index.asked(task.text))


def _share(known: Sequence[tuple[Any, bool]], vector: Any) -> float:
    """Return the share of what held in the nearest requests, by Laplace's rule."""
    nearest = sorted(known, key=lambda pair: -float(pair[0] @ vector))[:NEAREST]
    return (1 + sum(held for _, held in nearest)) / (2 + len(nearest))


@dataclass(frozen=True)
class Decided:
    """A task of the second half, and what memories show for it."""

    task: Request
    family: str
    shown: dict[str, Sequence[PlaybookBullet]]
    """By memory."""


def workbench(data: Path, run: str) -> list[Decided]:
    """Read one model's recorded runs."""
    suite = load_suite(f"workbench:{data / 'workbench'}", toolkits="all" if run.endswith("_all") else "domains")
    choice = choose_model(f"recorded:{run}", suite)
    train, test = ([task for task in half if choice.knows(task)] for half in halves(suite.tasks))
    early, late = (list(evaluate(suite, choice.lm_for, tasks=half, policy=choice.policy)) for half in (train, test))
    with Playbook() as book:
        learner = Learner(book)
        for attempt in early:
            hashes = suite.episode(attempt.task).registry.schema_hashes
            learner.learn(attempt.output, attempt.feedback, hashes, group=attempt.task.group)
        plain = _plain(notes_of(suite, early), [attempt.task.task.text for attempt in late])

        def request_of(attempt: Attempt) -> Request:
            task = attempt.task.task
            return Request(task.text, task.domain, changing(suite, attempt.task), attempt.feedback.success)

        by_kind = ByKind(book, [request_of(attempt) for attempt in early])
        return [
            Decided(
                task, attempt.task.group, by_kind.shown(task) | {n: shows(attempt.task) for n, shows in plain.items()}
            )
            for attempt, task in zip(late, map(request_of, late), strict=True)
        ]


def airline(data: Path) -> list[Decided]:
    """Read GPT-4o's conversations; each task was tried four times."""
    lines = (data / "tau_airline_runs" / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    tasks = sorted({run["task_id"] for run in runs})
    taught = set(tasks[::2])
    early, late = ([run for run in runs if (run["task_id"] in taught) is side] for side in (True, False))
    reads = {name for run in runs for name in calls(run)} - CHANGES
    notes = [
        PlaybookBullet(
            id=f"b-{number}",
            section="Strategies" if run["reward"] == 1 else "Pitfalls",
            trigger=_asked(run),
            content="This worked." if run["reward"] == 1 else "This did not work.",
            tool_sequence=tuple(calls(run)),
            changing_tools=tuple(name for name in calls(run) if name in CHANGES),
        )
        for number, run in enumerate(early, start=1)
        if calls(run)
    ]
    with Playbook() as book:
        learner = Learner(book)
        learner.learn_from_traces(
            [run["traj"] for run in early], [run["reward"] == 1 for run in early], read_only=reads
        )
        plain = _plain(notes, [_asked(run) for run in late])

        def request_of(run: dict[str, Any]) -> Request:
            wanted = sequence_key(a["name"] for a in run["info"]["task"]["actions"] if a["name"] in CHANGES)
            return Request(_asked(run), None, wanted, run["reward"] == 1)

        by_kind = ByKind(book, [request_of(run) for run in early])
        return [
            Decided(
                task, str(run["task_id"]), by_kind.shown(task) | {n: shows(_Task(run)) for n, shows in plain.items()}
            )
            for run, task in zip(late, map(request_of, late), strict=True)
        ]


class _Task:
    """A recorded conversation as the plain memories take a task."""

    def __init__(self, run: dict[str, Any]) -> None:
        self.id, self.task = f"{run['task_id']}/{run['trial']}", self
        self.text = _asked(run)


def _asked(run: dict[str, Any]) -> str:
    """Return what the user said first."""
    return next(message["content"] for message in run["traj"] if message["role"] == "user")


def _plain(
    notes: Sequence[PlaybookBullet], asked: Sequence[str]
) -> dict[str, Callable[[Any], Sequence[PlaybookBullet]]]:
    solved = [note for note in notes if note.section == "Strategies"]  # they serve these memories best
    texts = [*map(render_bullet, solved), *asked]
    return simple(solved, dict(zip(texts, MiniLMEmbedder().embed(texts), strict=True)), 0)


def holds(lesson: PlaybookBullet, wanted: Sequence[str]) -> bool:
    """Return whether a lesson has the right plan."""
    return lesson.section == "Strategies" and lesson.teaches(wanted)


def figures(decided: Sequence[Decided], memory: str) -> dict[str, Any]:
    """Return what could have been won, and what it could have cost."""
    right = [any(holds(bullet, one.task.wanted) for bullet in one.shown[memory]) for one in decided]
    misled = [bool(one.shown[memory]) and not found for one, found in zip(decided, right, strict=True)]
    report: dict[str, Any] = {}
    for name, values, solved in (("won", right, False), ("cost", misled, True)):
        chosen = [
            (float(value), one.family) for value, one in zip(values, decided, strict=True) if one.task.solved is solved
        ]
        found = share([value for value, _ in chosen], [family for _, family in chosen])
        report[name] = {"n": len(chosen), "value": 100 * found.value, "low": 100 * found.low, "high": 100 * found.high}
    return report


def everything(data: Path) -> Iterator[tuple[str, Callable[[], list[Decided]]]]:
    """Yield the recorded models."""
    for run in RUNS:
        yield f"WorkBench, {run}", lambda run=run: workbench(data, run)
    yield "airline, gpt-4o", lambda: airline(data)


def main(data: Path) -> dict[str, Any]:
    """Learn, look up, and return the report."""
    report: dict[str, Any] = {"models": {}}
    for name, decided_by in track(list(everything(data)), "models", console=Console(stderr=True)):
        decided = decided_by()
        report["models"][name] = {"tasks": len(decided), "families": len({one.family for one in decided})}
        for memory in MEMORIES:
            report["models"][name][memory] = figures(decided, memory)
    report["tasks"] = sum(row["tasks"] for row in report["models"].values())
    return report


if __name__ == "__main__":
    command(main)
