"""What `ace evaluate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.cli._shared import console, shown
from ace.evaluation.report import tables

if TYPE_CHECKING:
    from ace.evaluation.report.models import EvaluateReport

COLUMNS = ("arm", "runs", "success, %", "95 %", "iterations", "requests", "not done")
DIFFERENCES = ("arm", "metric", "difference", "95 %", "p corrected", "gained", "lost", "could show")


def show(report: EvaluateReport) -> None:
    """What was found, and the tables behind it."""
    for sentence in (*report.verdicts, *report.notes):
        console.print(sentence)
    for table in tables.tables(report):
        columns = COLUMNS if table.title == "Arms" else DIFFERENCES if table.title.startswith("Against") else table.head
        console.print(shown(table.only(*columns), report.label))
        for note in table.notes:
            console.print(note, style="dim")
    if report.folder:
        console.print(f"every run with its trace: {report.folder}")
