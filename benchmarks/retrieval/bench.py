"""Does the playbook find the bullet that teaches a task's calls, when its own is left out?

``python -m benchmarks.retrieval.bench SUITE_OR_FILE OUT.json``: a suite as `ace.suites.load_suite` takes it, or JSON lines
with id, query, tools and group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ace.core import SuiteError
from ace.evaluation.report.models import Interval
from ace.evaluation.stats import share_interval
from ace.playbook import (
    Add,
    Embedder,
    Filters,
    MiniLMEmbedder,
    Playbook,
    PlaybookBullet,
    Provenance,
)
from ace.playbook.bullet import sequence_key
from ace.suites.protocol import Suite, changing
from ace.suites.registry import load_suite
from benchmarks.command import command


class HitReport(BaseModel):
    """Retrieval of one set of queries, in percent."""

    n: int
    hit_1: float = Field(serialization_alias="hit@1", validation_alias="hit@1")
    hit_3: float = Field(serialization_alias="hit@3", validation_alias="hit@3")
    interval: Interval
    """Of hit@3: Wilson, 95 %."""


class RetrievalSplit(BaseModel):
    """One guard over three sets of queries."""

    all: HitReport
    nonempty: HitReport
    """Bullets and queries of tasks with calls only."""
    empty: HitReport
    """Queries of tasks without calls, against all bullets."""


class RetrievalReport(BaseModel):
    """Both guards."""

    loo: RetrievalSplit
    """The bullet of the task itself is left out."""
    group: RetrievalSplit
    """All bullets of its group are left out."""


class BenchTask(BaseModel):
    """One line of the benchmark's file."""

    model_config = ConfigDict(extra="ignore")

    id: str
    query: str = Field(min_length=1)
    tools: list[str]
    """The calls that change something, in order; may be empty."""
    group: str = ""


def read_tasks(path: str | Path) -> list[BenchTask]:
    """Read the lines of a file.

    Raises:
        SuiteError: A line is malformed, or ids repeat.
    """
    tasks: list[BenchTask] = []
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"cannot read {str(path)!r}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                tasks.append(BenchTask.model_validate_json(line))
            except ValidationError as error:
                problem = error.errors(include_url=False, include_context=False)[0]
                raise SuiteError(
                    f"{str(path)!r} line {number}: {'.'.join(map(str, problem['loc']))} {problem['msg']}; expected "
                    '{"id", "query", "tools", "group"}'
                ) from error
    if not tasks:
        raise SuiteError(f"{str(path)!r} holds no task")
    if len({task.id for task in tasks}) < len(tasks):
        raise SuiteError(f"{str(path)!r} holds an id twice")
    return tasks


def suite_tasks(suite: Suite) -> list[BenchTask]:
    """Convert a suite's own tasks to benchmark tasks."""
    return [BenchTask(id=t.id, query=t.task.text, tools=list(changing(suite, t)), group=t.group) for t in suite.tasks]


def playbook_of(tasks: Sequence[BenchTask], embedder: Embedder) -> Playbook:
    """Make one bullet per task, from its text and its calls."""
    playbook = Playbook(embedder=embedder, screen=None)  # what comes is measured, not what is held
    fill(playbook, tasks)
    return playbook


def fill(playbook: Playbook, tasks: Sequence[BenchTask]) -> None:
    """Add one bullet per task."""
    playbook.commit(
        Add(
            bullet=PlaybookBullet(
                section="Strategies",
                trigger=task.query,
                content="Call these tools." if task.tools else "No call is needed.",
                tool_sequence=tuple(task.tools),
                changing_tools=tuple(task.tools),
                provenance=Provenance(task_ids=(task.id,), groups=(task.group,)),
            )
        )
        for task in tasks
    )


def bench_retrieval(
    tasks: Sequence[BenchTask],
    *,
    embedder: Embedder | None = None,
    on_query: Callable[[], None] = lambda: None,
) -> RetrievalReport:
    """Query with each task's text while its own bullet, or its whole group, is left out.

    A hit is a retrieved bullet with the same multiset of tools. Everything goes through `Playbook.retrieve` with its
    defaults.

    Args:
        tasks: The tasks.
        embedder: MiniLM by default.
        on_query: Called after each query, for progress.
    """
    embedder = Remembering(embedder or MiniLMEmbedder())
    embedder.embed([task.query for task in tasks])
    with_calls = [task for task in tasks if task.tools]
    books = {"all": playbook_of(tasks, embedder), "nonempty": playbook_of(with_calls, embedder)}
    splits: dict[str, Any] = {}
    for guard in ("loo", "group"):
        hits = {task.id: rank(books["all"], task, guard, on_query) for task in tasks}
        among = {task.id: rank(books["nonempty"], task, guard, on_query) for task in with_calls}
        splits[guard] = RetrievalSplit(
            all=_report([hits[t.id] for t in tasks]),
            nonempty=_report([among[t.id] for t in with_calls]),
            empty=_report([hits[t.id] for t in tasks if not t.tools]),
        )
    return RetrievalReport(**splits)


class Remembering:
    """Embeds all queries once, in batches, instead of one by one for every guard."""

    def __init__(self, embedder: Embedder) -> None:
        self.name = embedder.name
        self._embedder = embedder
        self._known: dict[str, Any] = {}

    def embed(self, texts: Sequence[str]) -> Any:
        """See `Embedder`."""
        import numpy as np

        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known |= dict(zip(missing, self._embedder.embed(missing), strict=True))
        return np.stack([self._known[text] for text in texts]) if texts else self._embedder.embed([])


def rank(playbook: Playbook, task: BenchTask, guard: str, on_query: Callable[[], None] = lambda: None) -> int | None:
    """Return the position of the first bullet with the task's own tools, None when none came."""
    left_out = Filters(exclude_tasks=(task.id,), exclude_groups=(task.group,) if guard == "group" else ())
    wanted = sequence_key(task.tools)
    found = [bullet.key for bullet in playbook.retrieve(task.query, filters=left_out)]
    on_query()
    return found.index(wanted) if wanted in found else None


def _report(ranks: Sequence[int | None]) -> HitReport:
    n = len(ranks)
    first, third = sum(r == 0 for r in ranks), sum(r is not None and r < 3 for r in ranks)
    low, high = share_interval(third, n)
    share = 100.0 / n if n else 0.0
    return HitReport.model_validate(
        {"n": n, "hit@1": first * share, "hit@3": third * share, "interval": (100 * low, 100 * high)}
    )


def main(suite: str) -> dict[str, Any]:
    """Measure a suite by its name, or a file of tasks."""
    plain = Path(suite).suffix == ".jsonl" and Path(suite).exists()
    tasks = read_tasks(suite) if plain else suite_tasks(load_suite(suite))
    return bench_retrieval(tasks).model_dump(by_alias=True)


if __name__ == "__main__":
    command(main)
