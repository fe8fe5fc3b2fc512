"""What `ace evaluate` shows while it runs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ace.cli._shared import console, progress_bar
from ace.evaluation.study import Study, StudyObserver

if TYPE_CHECKING:
    from ace.evaluation.episodes import Attempt
    from ace.evaluation.runner import Evaluation


class Watched(StudyObserver):
    """A bar, and on a terminal above it each arm's figures so far, what was spent, and how much is under way."""

    def __init__(self, bar: ExitStack) -> None:
        self._bar = bar
        self._advance: Any = lambda: None
        self._live: Live | None = None
        self._counts: dict[str, list[int]] = {}
        self._label = ""

    def ready(self, study: Study, done: int) -> None:
        """Print what is compared."""
        choice = study.choice
        self._label = choice.label
        self._counts = {arm: [0, 0, 0] for arm in study.arms.names}
        console.print(f"{study.suite.name}, {choice.name}, policy: {choice.policy.name}   {choice.label}")
        if done:
            console.print(f"{done} runs are in {study.folder} already")

    def learning(self, runs: int) -> None:
        """Show a bar for learning."""
        self._advance = self._bar.enter_context(progress_bar("learning", runs))

    def learned(self) -> None:
        """Move it."""
        self._advance()

    def running(self, evaluation: Evaluation) -> None:
        """Show the comparison."""
        self._bar.close()
        self._evaluation = evaluation
        if not console.is_terminal:
            self._advance = self._bar.enter_context(progress_bar("running", evaluation.total))
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, TimeRemainingColumn(), console=console)
        self._task = self._progress.add_task("running", total=evaluation.total)
        self._live = self._bar.enter_context(Live(console=console, refresh_per_second=4, transient=True))
        self._live.update(self._shown())

    def attempt(self, attempt: Attempt) -> None:
        """Count a run."""
        spent = _spent(self._evaluation)
        if self._live is None:
            self._advance(f"arm {attempt.arm}, {spent}")
            return
        count = self._counts[attempt.arm]
        count[0] += 1
        count[1] += attempt.feedback.success
        count[2] += attempt.output.usage.iterations
        under_way = self._evaluation.under_way
        self._progress.update(self._task, advance=1, description=f"{spent}, {under_way} under way")
        self._live.update(self._shown())

    def stopping(self, under_way: int) -> None:
        """Explain what Ctrl-C does."""
        console.print(f"{under_way} runs under way are finished; Ctrl-C again drops them")

    def _shown(self) -> Group:
        table = Table(title=f"so far{f' ({self._label})' if self._label else ''}", title_justify="left")
        table.add_column("arm", no_wrap=True)
        for name in ("runs", "success", "iterations"):
            table.add_column(name, justify="right")
        for arm, (runs, right, iterations) in self._counts.items():
            shown = (f"{100 * right / runs:.1f} %", f"{iterations / runs:.2f}") if runs else ("", "")
            table.add_row(arm, str(runs), *shown)
        return Group(table, self._progress)


def _spent(evaluation: Evaluation) -> str:
    spent = evaluation.spent
    money = f", ${spent.cost:.2f}" if spent.cost else ""
    return f"{spent.lm_calls} requests, {spent.input_tokens + spent.output_tokens} tokens{money}"
