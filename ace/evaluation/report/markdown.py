"""A report as Markdown, for a pull request or a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ace.evaluation.report.findings import OUTCOMES
from ace.evaluation.report.models import BulletEffect, EvaluateReport, FamilyEffect
from ace.evaluation.report.wording import interval_rules, p_value, span


def markdown(report: EvaluateReport) -> str:
    """The tables of a report as Markdown; whatever a stand-in produced is labelled."""
    label = f", **{report.label}**" if report.label else ""
    parts = [f"# {report.suite}: {report.run}{label}", f"Policy `{report.policy}`, {len(report.runs)} runs."]
    parts += [*report.verdicts, *report.notes]
    if report.tasks:
        parts += ["## Tasks", _tasks(report)]
    parts += ["## Arms", _arms(report)]
    if any(len(found) > 1 for found in report.domains.values()):
        parts += ["## Domains, % of n", _domains(report)]
    if report.comparisons:
        parts += [f"## Against `{report.comparisons[0].before}`, paired by task and seed", _comparisons(report)]
    if report.closed:
        parts += ["## Share of the way from `none` to `gold`", _closed(report)]
    if report.families:
        parts += ["## Families, success in points", _effects((row.group, row) for row in report.families)]
    if report.bullets:
        title = "## Bullets, success of the runs that were shown them, in points"
        parts += [title, _effects((_bullet(row), row) for row in report.bullets)]
    if report.curves:
        rows = (
            (p.arm, f"{p.learned_from:.0f}", f"{100 * p.success:.0f}", span(p.interval, 100)) for p in report.curves
        )
        parts += ["## While it learns", _table(("arm", "learned from", "success, %", "95 %"), rows)]
    for arm, found in report.calibrations.items():
        bins = (
            (f"{100 * b.confidence:.0f}", f"{100 * b.success:.0f}", span(b.interval, 100), str(b.n)) for b in found.bins
        )
        title = f"## Confidence of `{arm}`: Brier score {found.brier:.3f}, expected calibration error {found.error:.3f}"
        parts += [title, _table(("sure, %", "success, %", "95 %", "n"), bins)]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _tasks(report: EvaluateReport) -> str:
    """How many are won, lost and equal, and which are not equal."""
    counts = Counter((row.after, row.outcome) for row in report.tasks)
    names = dict.fromkeys(row.after for row in report.tasks)
    totals = ((name, *(str(counts[name, outcome]) for outcome in OUTCOMES)) for name in names)
    rows = (
        (
            row.after,
            f"`{row.id}`",
            row.outcome,
            str(row.gained),
            str(row.lost),
            str(row.n),
            str(row.seed),
            " ".join(row.bullets),
        )
        for row in report.tasks
        if row.outcome != "equal"
    )
    head = ("arm", "task", "", "gained", "lost", "of", "seed to look at", "bullets shown")
    return f"{_table(('arm', *OUTCOMES), totals)}\n\n{_table(head, rows)}"


def _domains(report: EvaluateReport) -> str:
    names = dict.fromkeys(name for found in report.domains.values() for name in found)
    rows = (
        (
            name,
            *(
                f"{100 * found[name].correct / found[name].n:.1f} of {found[name].n}" if name in found else ""
                for found in report.domains.values()
            ),
        )
        for name in names
    )
    return _table(("domain", *report.domains), rows)


def _arms(report: EvaluateReport) -> str:
    head = ("arm", "n", "success, %", "95 %", "iterations", "95 %", "tokens", "of them memory", "seconds", "US$")
    rows = (
        (
            name,
            str(arm.n),
            f"{100 * arm.success:.1f}",
            span(arm.success_interval, 100),
            f"{arm.iterations:.2f}",
            span(arm.iterations_interval, 1, 2),
            f"{arm.tokens:.0f}",
            f"{arm.memory_tokens:.0f}",
            f"{arm.seconds:.2f}",
            f"{arm.cost:.2f}",
        )
        for name, arm in report.arms.items()
    )
    return _table(head, rows)


def _comparisons(report: EvaluateReport) -> str:
    head = ("arm", "metric", "n", "families", "difference", "95 %", "p", "p corrected", "gained", "lost", "could show")
    rows: list[tuple[str, ...]] = []
    for row in report.comparisons:
        points = row.metric == "success"
        times, digits = (100, 1) if points else (1, 0 if row.metric == "tokens" else 2)
        effect = "?" if row.smallest_effect is None else f"{times * row.smallest_effect:.{digits}f}"
        rows.append(
            (
                row.after,
                "success, points" if points else row.metric,
                str(row.n),
                str(row.families),
                f"{times * row.difference:+.{digits}f}",
                span(row.interval, times, digits),
                p_value(row.p),
                p_value(row.p_corrected),
                str(row.gained) if points else "",
                str(row.lost) if points else "",
                effect,
            )
        )
    rules = [f"* {rule}" for rule in interval_rules(report)]
    return "\n".join([_table(head, rows), *(["", "How the intervals were made:", "", *rules] if rules else [])])


def _closed(report: EvaluateReport) -> str:
    rows = (
        (arm, metric, f"{100 * (value or 0):.0f} %", span((low, high), 100, 0))
        for arm, found in report.closed.items()
        for metric, (value, low, high) in found.items()
    )
    return _table(("arm", "metric", "closed", "95 %"), rows)


def _effects(effects: Iterable[tuple[str, FamilyEffect | BulletEffect]]) -> str:
    rows = ((e.after, name, str(e.n), f"{100 * e.difference:+.1f}", span(e.interval, 100)) for name, e in effects)
    return _table(("arm", "", "runs", "difference", "95 %"), rows)


def _bullet(effect: BulletEffect) -> str:
    where = "" if effect.seed is None else f" of seed {effect.seed}"
    return f"{effect.bullet}{where} {effect.text}".strip()
