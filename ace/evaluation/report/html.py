"""A report as one HTML file: no script, no other file, light and dark, readable on a phone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ace.core import SuiteError
from ace.evaluation.report import tables
from ace.evaluation.report.findings import OUTCOMES, grouped
from ace.evaluation.report.models import EvaluateReport, Interval, TaskEffect
from ace.evaluation.report.wording import count as count_of

if TYPE_CHECKING:
    from ace.evaluation.log import RunLog

Trace = tuple[str, int, str]
"""Arm, seed and task of a run."""
MOST_TRACES = 1_000
"""Tasks whose runs a page holds, of all arms together: more would make it slow to open."""


class Mark(NamedTuple):
    """One line of a plot: a dot with its interval, where there is one, in the plot's own units."""

    name: str
    value: float
    low: float | None
    high: float | None
    note: str


class Axis(NamedTuple):
    """From where to where a plot goes, and where it is marked."""

    start: float
    end: float
    ticks: tuple[float, ...]
    unit: str

    def at(self, value: float | None, beyond: float = 0.0) -> float:
        """Return where a value lies, from 0 to 100, inside the plot; `beyond` for none."""
        if value is None:
            return beyond
        return 100 * (min(max(value, self.start), self.end) - self.start) / (self.end - self.start or 1.0)


def page_template() -> Any:
    """Return the page's template.

    Raises:
        SuiteError: Jinja is missing.
    """
    try:
        import jinja2
    except ImportError as error:
        raise SuiteError('an HTML report needs Jinja; install it with: pip install "dspy-ace[report]"') from error
    # everything is escaped: names, tasks and traces come from users, tools and models
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ace.evaluation.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    filters: Any = environment.filters
    filters["count"] = count_of
    return environment.get_template("report.html.j2")


def html(
    report: EvaluateReport, traces: Mapping[Trace, str] | None = None, lessons: Mapping[str, str] | None = None
) -> str:
    """Write the report as a page; whatever a stand-in produced is labelled.

    Args:
        report: What `ace evaluate` found.
        traces: Runs to read, of the tasks in both arms; see `traces_of`.
        lessons: Where the lessons that it names can be looked at: id to address.

    Raises:
        SuiteError: Jinja is missing.
    """
    most = max((arm.iterations_interval[1] or arm.iterations for arm in report.arms.values()), default=1.0)
    return page_template().render(
        report=report,
        lessons=lessons or {},
        base=next(iter(report.arms), ""),
        tables=tables.tables(report),
        bounded=any(arm.success_interval != (None, None) for arm in report.arms.values()),
        seeds=len({run.seed for run in report.runs}),
        tasks=len({run.id for run in report.runs}),
        success=[
            _mark(name, arm.success, arm.success_interval, 100, f"{arm.n} runs") for name, arm in report.arms.items()
        ],
        iterations=[
            _mark(name, arm.iterations, arm.iterations_interval, 1, f"{arm.lm_calls:.1f} requests")
            for name, arm in report.arms.items()
        ],
        percent=Axis(0, 100, (0, 25, 50, 75, 100), "%"),
        steps=_steps(most),
        gains=Axis(-100, 100, (-100, -50, 0, 50, 100), "points"),
        families=grouped(
            (e.after, _mark(e.group, e.difference, e.interval, 100, f"{e.n} runs, {e.iterations:+.1f} iterations"))
            for e in report.families
        ),
        bullets=grouped(
            (e.after, _mark(e.bullet, e.difference, e.interval, 100, e.text or f"{e.n} runs")) for e in report.bullets
        ),
        curves=_curves(report),
        sure={
            arm: [
                _mark(f"{100 * b.confidence:.0f} % sure", b.success, b.interval, 100, f"{b.n} runs") for b in found.bins
            ]
            for arm, found in report.calibrations.items()
        },
        outcomes_of=_tasks(report, traces or {}),
        most_traces=MOST_TRACES,
    )


def traces_of(report: EvaluateReport, log: RunLog) -> dict[Trace, str]:
    """Return the traces that a page shows, out of an evaluation's log."""
    base = next(iter(report.arms), "")
    wanted = {(arm, row.seed, row.id) for row in _shown(report.tasks) for arm in (base, row.after)}
    return {
        (row.arm, row.seed, row.id): f"{output.task.text}\n\n{output.reasoning_trace}\n\n{feedback.text}".strip()
        for row, output, feedback in log.runs()
        if (row.arm, row.seed, row.id) in wanted
    }


def _shown(tasks: Sequence[TaskEffect]) -> list[TaskEffect]:
    """Choose those whose traces the page holds: won and lost before equal ones, and the arms take turns."""
    turns: dict[str, Iterator[int]] = defaultdict(count)
    order = [(task.outcome == "equal", next(turns[task.after]), task) for task in tasks]
    return [task for *_, task in sorted(order, key=itemgetter(0, 1))[:MOST_TRACES]]


def _tasks(report: EvaluateReport, traces: Mapping[Trace, str]) -> dict[str, dict[str, list[Any]]]:
    """Group by arm and outcome: each task with both traces."""
    base, found = next(iter(report.arms), ""), dict[str, dict[str, list[Any]]]()
    for row in report.tasks:
        sides = [traces.get((arm, row.seed, row.id), "") for arm in (base, row.after)]
        found.setdefault(row.after, {outcome: [] for outcome in OUTCOMES})[row.outcome].append((row, *sides))
    return found


def _mark(name: str, value: float, interval: Interval, times: float, note: str) -> Mark:
    low, high = (None if bound is None else times * bound for bound in interval)
    return Mark(name, times * value, low, high, note)


def _steps(most: float) -> Axis:
    """Make an axis from 0 to a round number of iterations."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1_000) if most <= 5 * step or step == 1_000)
    end = step * max(1, -int(-most // step))
    return Axis(0, end, tuple(range(0, end + 1, step)), "")


def _curves(report: EvaluateReport) -> list[dict[str, Any]]:
    """Draw each learning arm as a line and a band, in percent of the plot's width and height."""
    last = max((point.learned_from for point in report.curves), default=0.0) or 1.0
    found: list[dict[str, Any]] = []
    for arm, points in grouped((point.arm, point) for point in report.curves).items():
        xs = [100 * point.learned_from / last for point in points]
        lows = [point.interval[0] or 0.0 for point in points]
        highs = [1.0 if point.interval[1] is None else point.interval[1] for point in points]
        line = _path(xs, [point.success for point in points])
        band = _path([*xs, *reversed(xs)], [*highs, *reversed(lows)])
        found.append({"arm": arm, "line": line, "band": band, "last": last})
    return found


def _path(xs: Sequence[float], shares: Sequence[float]) -> str:
    return " ".join(f"{x:.2f},{100 - 100 * share:.2f}" for x, share in zip(xs, shares, strict=True))
