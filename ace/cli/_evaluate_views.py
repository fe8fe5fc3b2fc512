"""What `ace evaluate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from ace.cli._shared import arms_table, console
from ace.evaluation.report.wording import p_value, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ace.evaluation.report.models import ComparisonReport, EvaluateReport


def show(report: EvaluateReport, by_domain: Sequence[str]) -> None:
    """Domains of some arms, all arms, and what is more than chance."""
    first_arm = by_domain[0]
    label = f" ({report.label})" if report.label else ""
    for arm in by_domain:
        console.print(_domains(report, arm, label))
    console.print(arms_table(f"arms{label}", report.arms))
    for sentence in (*report.verdicts, *report.notes):
        console.print(sentence, highlight=False)
    if report.comparisons:
        console.print(_comparisons(report.comparisons, first_arm, label))
        for arm, found in report.closed.items():
            shares = [
                f"{100 * (value or 0):.0f} % [{span((low, high), 100, 0, to=', ')}] in {metric}"
                for metric, (value, low, high) in found.items()
            ]
            console.print(f"{arm} goes {' and '.join(shares)} of the way from none to gold{label}", highlight=False)
    if report.folder:
        console.print(f"every run with its trace: {report.folder}", highlight=False)


def _domains(report: EvaluateReport, arm: str, label: str) -> Table:
    table = Table(title=f"{report.suite}, arm {arm}{label}", title_justify="left")
    table.add_column("domain", overflow="fold")
    for name in ("n", "correct", "share", "error"):
        table.add_column(name, justify="right")
    rows = report.domains[arm]
    for name, row in rows.items():
        table.add_row(name, str(row.n), str(row.correct), f"{100 * row.correct / row.n:.1f} %", str(row.error))
    n, correct = sum(r.n for r in rows.values()), sum(r.correct for r in rows.values())
    error = sum(r.error for r in rows.values())
    table.add_section()
    table.add_row("all", str(n), str(correct), f"{100 * correct / n:.1f} %" if n else "", str(error))
    return table


def _comparisons(rows: list[ComparisonReport], first_arm: str, label: str) -> Table:
    table = Table(title=f"against arm {first_arm}, paired by task and seed{label}", title_justify="left")
    for name in ("arm", "metric"):
        table.add_column(name, overflow="fold")
    for name in ("difference, 95 %", "p", "corrected", "gained", "lost", "could show"):
        table.add_column(name, justify="right", no_wrap=" " not in name)
    for row in rows:
        points = row.metric == "success"
        times, digits = (100, 1) if points else (1, 2 if row.metric == "iterations" else 0)
        table.add_row(
            row.after,
            "success" if points else row.metric,
            f"{times * row.difference:+.{digits}f}{' points' if points else ''}\n"
            f"{span(row.interval, times, digits, sign='+')}",
            p_value(row.p),
            p_value(row.p_corrected),
            str(row.gained) if points else "",
            str(row.lost) if points else "",
            "?" if row.smallest_effect is None else f"{times * row.smallest_effect:.{digits}f}",
        )
    return table
