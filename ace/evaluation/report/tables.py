"""The tables of a report, as text in cells: the terminal, Markdown and the page show the same ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ace.evaluation.report.findings import OUTCOMES
from ace.evaluation.report.models import ArmReport, BulletEffect, EvaluateReport, FamilyEffect
from ace.evaluation.report.wording import p_value, span


@dataclass(frozen=True)
class Table:
    """One table; columns in which nothing stands are left out: `table(title, head, rows).rows`."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def only(self, *names: str) -> Table:
        """Return some of its columns."""
        places = [place for place, name in enumerate(self.head) if name in names]
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return Table(self.title, tuple(self.head[place] for place in places), rows, self.notes)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> Table:
    """Make a table without its empty columns."""
    found = [tuple(row) for row in rows]
    whole = Table(title, tuple(head), tuple(found), tuple(notes))
    return whole.only(*(name for place, name in enumerate(head) if any(row[place] for row in found)))


def arms(title: str, of: Mapping[str, ArmReport]) -> Table:
    """Show how each arm did."""
    head = (
        "arm", "runs", "success, %", "95 %", "iterations", "95 % of them", "requests", "tokens", "of them memory", "seconds",
        "US$", "not done",
    )  # fmt: skip
    rows = (
        (
            name,
            str(arm.n),
            f"{100 * arm.success:.1f}",
            span(arm.success_interval, 100),
            f"{arm.iterations:.2f}",
            span(arm.iterations_interval, 1, 2),
            f"{arm.lm_calls:.2f}",
            f"{arm.tokens:.0f}" if arm.tokens else "",
            f"{arm.memory_tokens:.0f}" if arm.memory_tokens else "",
            f"{arm.seconds:.2f}",
            f"{arm.cost:.2f}" if arm.cost else "",
            str(arm.unfinished or ""),
        )
        for name, arm in of.items()
    )
    return table(title, head, rows)


def comparisons(report: EvaluateReport) -> Table:
    """Show each arm against the first; what a metric could not have shown is left out."""
    head = (
        "arm", "metric", "families", "difference", "95 %", "p", "p corrected", "gained", "lost", "could show",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for row in report.comparisons:
        points = row.metric == "success"
        times, digits = (100, 1) if points else (1, 0 if row.metric == "tokens" else 2)
        rows.append(
            (
                row.after,
                "success, points" if points else row.metric,
                str(row.families),
                f"{times * row.difference:+.{digits}f}",
                span(row.interval, times, digits, sign="+"),
                p_value(row.p),
                p_value(row.p_corrected),
                str(row.gained) if points else "",
                str(row.lost) if points else "",
                "" if row.smallest_effect is None else f"{times * row.smallest_effect:.{digits}f}",
            )
        )
    notes = list(dict.fromkeys(f"{row.metric}: {row.rule}" for row in report.comparisons if row.rule))
    if any(row.smallest_effect is not None for row in report.comparisons):
        notes.append("could show: the smallest difference that these tasks would have shown with a power of 80 %")
    if report.comparisons and any(row.p is not None for row in report.comparisons):
        notes.append("p is corrected for all comparisons of the report (Holm)")
    return table(f"Against {report.comparisons[0].before}, paired by task and seed", head, rows, notes)


def tables(report: EvaluateReport) -> list[Table]:
    """Make all of them but the single tasks, whose traces a page shows."""
    found = [arms("Arms", report.arms)]
    repeated = {name: arm.pass_hat_k for name, arm in report.arms.items() if arm.pass_hat_k}
    if repeated:
        ks = list(next(iter(repeated.values())))
        rows = ((name, *(f"{100 * values[k]:.1f}" for k in ks)) for name, values in repeated.items())
        found.append(table("pass^k: the chance that k runs of a task all succeed, %", ("arm", *map(str, ks)), rows))
    if any(len(domains) > 1 for domains in report.domains.values()):
        found.append(_domains(report))
    if report.comparisons:
        found.append(comparisons(report))
    if report.closed:
        rows = (
            (arm, metric, f"{100 * (value or 0):.0f} %", span((low, high), 100, 0))
            for arm, metrics in report.closed.items()
            for metric, (value, low, high) in metrics.items()
        )
        found.append(table("Share of the way from none to gold", ("arm", "metric", "closed", "95 %"), rows))
    return found


def details(report: EvaluateReport) -> list[Table]:
    """Show families, lessons, learning and confidence, which a page draws."""
    found: list[Table] = []
    if report.families:
        rows = (_effect(effect.group, effect) for effect in report.families)
        found.append(table("Families, success in points", EFFECT, rows))
    if report.bullets:
        title = "Lessons, success of the runs that were shown them, in points"
        found.append(table(title, EFFECT, (_effect(_bullet(effect), effect) for effect in report.bullets)))
    if report.curves:
        rows = (
            (point.arm, f"{point.learned_from:.0f}", f"{100 * point.success:.0f}", span(point.interval, 100))
            for point in report.curves
        )
        found.append(table("While it learns", ("arm", "learned from", "success, %", "95 %"), rows))
    for arm, sure in report.calibrations.items():
        rows = (
            (f"{100 * b.confidence:.0f}", f"{100 * b.success:.0f}", span(b.interval, 100), str(b.n)) for b in sure.bins
        )
        title = f"Confidence of {arm}: Brier score {sure.brier:.3f}, expected calibration error {sure.error:.3f}"
        found.append(table(title, ("sure, %", "success, %", "95 %", "n"), rows))
    return found


def tasks(report: EvaluateReport) -> list[Table]:
    """Count how many tasks are won, lost and equal, and show which are not equal."""
    counts = Counter((row.after, row.outcome) for row in report.tasks)
    names = dict.fromkeys(row.after for row in report.tasks)
    totals = ((name, *_texts(*(counts[name, outcome] for outcome in OUTCOMES))) for name in names)
    rows = (
        (row.after, f"`{row.id}`", row.outcome, *_texts(row.gained, row.lost, row.n, row.seed), " ".join(row.bullets))
        for row in report.tasks
        if row.outcome != "equal"
    )
    head = ("arm", "task", "outcome", "gained", "lost", "of", "seed to look at", "lessons shown")
    return [table("Tasks", ("arm", *OUTCOMES), totals), table("Tasks that are not equal", head, rows)]


def _texts(*numbers: int) -> tuple[str, ...]:
    return tuple(map(str, numbers))


def _domains(report: EvaluateReport) -> Table:
    names = dict.fromkeys(name for found in report.domains.values() for name in found)

    def cell(arm: str, name: str) -> str:
        found = report.domains[arm].get(name)
        return f"{100 * found.correct / found.n:.1f} of {found.n}" if found else ""

    rows = ((name, *(cell(arm, name) for arm in report.domains)) for name in names)
    return table("Domains, % of n", ("domain", *report.domains), rows)


EFFECT = ("arm", "what", "runs", "difference", "95 %")


def _effect(name: str, effect: FamilyEffect | BulletEffect) -> tuple[str, ...]:
    gained = f"{100 * effect.difference:+.1f}"
    return effect.after, name, str(effect.n), gained, span(effect.interval, 100, sign="+")


def _bullet(effect: BulletEffect) -> str:
    where = "" if effect.seed is None else f" of seed {effect.seed}"
    return f"{effect.bullet}{where} {effect.text}".strip()
