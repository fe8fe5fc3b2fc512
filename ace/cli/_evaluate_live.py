"""What `ace evaluate` shows while it runs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ace.cli._shared import console, progress_bar

if TYPE_CHECKING:
    from ace.evaluation.attempts import Attempt
    from ace.evaluation.runner import Evaluation


class Told(Protocol):
    """Called with each run that is done."""

    def __call__(self, attempt: Attempt) -> None:
        """Show it."""
        ...


@contextmanager
def watched(runs: Evaluation, arms: Sequence[str], label: str) -> Generator[Told]:
    """A bar, and on a terminal above it each arm's figures so far, what was spent, and how much is under way."""
    if not console.is_terminal:
        with progress_bar("running", runs.total) as advance:
            yield lambda attempt: advance(f"arm {attempt.arm}, {_spent(runs)}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, TimeRemainingColumn(), console=console)
    bar = progress.add_task("running", total=runs.total)
    counts = {arm: [0, 0, 0] for arm in arms}
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def told(attempt: Attempt) -> None:
            count = counts[attempt.arm]
            count[0] += 1
            count[1] += attempt.feedback.success
            count[2] += attempt.output.usage.iterations
            progress.update(bar, advance=1, description=f"{_spent(runs)}, {runs.under_way} under way")
            live.update(Group(_table(counts, label), progress))

        live.update(Group(_table(counts, label), progress))
        yield told


def _spent(runs: Evaluation) -> str:
    spent = runs.spent
    money = f", ${spent.cost:.2f}" if spent.cost else ""
    return f"{spent.lm_calls} requests, {spent.input_tokens + spent.output_tokens} tokens{money}"


def _table(counts: dict[str, list[int]], label: str) -> Table:
    table = Table(title=f"so far{f' ({label})' if label else ''}", title_justify="left")
    table.add_column("arm", no_wrap=True)
    for name in ("runs", "success", "iterations"):
        table.add_column(name, justify="right")
    for arm, (runs, right, iterations) in counts.items():
        shown = (f"{100 * right / runs:.1f} %", f"{iterations / runs:.2f}") if runs else ("", "")
        table.add_row(arm, str(runs), *shown)
    return table
