"""A report as Markdown, for a pull request or a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from ace.evaluation.report import tables
from ace.evaluation.report.models import EvaluateReport


def markdown(report: EvaluateReport) -> str:
    """Write the tables of a report as Markdown; whatever a stand-in produced is labelled."""
    label = f", **{report.label}**" if report.label else ""
    when = f", {report.created}" if report.created else ""
    parts = [f"# {report.title}{label}", f"Policy `{report.policy}`, {len(report.runs)} runs{when}."]
    parts += [*report.verdicts, *report.notes]
    for table in (*tables.tables(report), *(tables.tasks(report) if report.tasks else ()), *tables.details(report)):
        if table.rows:
            parts += [
                f"## {table.title}",
                "\n".join([_row(table.head), "|" + "---|" * len(table.head), *map(_row, table.rows)]),
            ]
        if table.notes:
            parts.append("\n".join(f"* {note}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
