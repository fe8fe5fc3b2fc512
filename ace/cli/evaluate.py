"""`ace evaluate`: a suite under several arms."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ace.cli._shared import (
    ApiBaseOption,
    JsonOption,
    LmOption,
    arms_table,
    check_writable,
    console,
    progress_bar,
    write_json,
)

if TYPE_CHECKING:
    from ace.evaluation.reports import Difference, EvaluateReport, RunReport
    from ace.evaluation.runner import Attempt
    from ace.evaluation.suite import Suite

EXAMPLES = (
    "Examples: ace evaluate office --lm simulated --arms none,gold | "
    "ace evaluate workbench:PATH --lm recorded:gpt-4_all --json out.json | "
    "ace evaluate office --lm openai/gpt-5-mini --arms none,playbook --playbook office.db --limit 20"
)


def evaluate(
    suite: Annotated[str, typer.Argument(help="office, or workbench:PATH")],
    lm: LmOption = "",
    arms: Annotated[str, typer.Option(help="Comma-separated: none, playbook, gold, random.")] = "none",
    seeds: Annotated[int, typer.Option(min=1, help="Runs per task and arm.")] = 1,
    playbook: Annotated[Path | None, typer.Option(help="The playbook of the arms that need one.")] = None,
    unseen: Annotated[bool, typer.Option(help="Leave out all lessons of a task's own family.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N tasks.")] = None,
    program: Annotated[
        Path | None, typer.Option(help="A folder of `ace optimize`: its instructions, tool descriptions and playbook.")
    ] = None,
    half: Annotated[str, typer.Option(help="all, or one half of each family: first, second.")] = "all",
    api_base: ApiBaseOption = None,
    json_file: JsonOption = None,
) -> None:
    """Run a suite's tasks under each arm and compare."""
    check_writable(json_file)
    from ace.cli._lm import choose_lm, load_suite_for
    from ace.core import PlaybookError, SuiteError
    from ace.evaluation.arms import ARMS
    from ace.evaluation.reports import EvaluateReport
    from ace.evaluation.runner import by_domain, evaluate, summarise
    from ace.evaluation.suite import halves
    from ace.playbook import Playbook

    names = [name.strip() for name in arms.split(",") if name.strip()]
    if not names or set(names) - set(ARMS):
        raise SuiteError(f"--arms {arms!r}: expected some of {', '.join(ARMS)}, separated by commas")
    if {"playbook", "random"} & set(names) and playbook is None:
        raise SuiteError("the arms playbook and random need --playbook FILE; `ace learn` and `ace demo` make one")
    if playbook is not None and not playbook.exists():
        raise PlaybookError(f"there is no playbook {str(playbook)!r}; `ace learn` makes one")
    if half not in ("all", "first", "second"):
        raise SuiteError(f"--half {half!r}: expected all, first or second")
    loaded = load_suite_for(suite, lm)
    choice = choose_lm(lm, loaded, api_base)
    tasks = list(loaded.tasks) if half == "all" else halves(loaded.tasks)[half == "second"]
    tasks = [task for task in tasks if choice.knows(task)][:limit]
    if not tasks:
        raise SuiteError(f"{lm!r} holds none of the tasks of {suite!r}")
    prepare = None
    if program is not None:
        from ace.optimization import load_optimized

        prepare = partial(load_optimized, program)
    started = time.monotonic()
    runs: list[RunReport] = []
    differences: list[Difference] = []
    interrupted = False
    book = Playbook.open(playbook) if playbook else None
    console.print(f"{loaded.name}, {choice.name}, policy: {choice.policy.name}   {choice.label}", highlight=False)
    try:
        with progress_bar("running", len(tasks) * len(names) * seeds) as advance:
            for attempt in evaluate(
                loaded,
                choice.lm_for,
                tasks=tasks,
                arms=names,
                seeds=range(seeds),
                policy=choice.policy,
                playbook=book,
                unseen=unseen,
                prepare=prepare,
            ):
                row, difference = _row(loaded, choice.lm_for(0), attempt)
                runs.append(row)
                differences += difference
                advance(f"arm {attempt.arm}")
    except KeyboardInterrupt:
        interrupted = True
    if not runs:
        raise KeyboardInterrupt
    report = EvaluateReport(
        run=choice.name,
        suite=loaded.name,
        label=choice.label,
        policy=choice.policy.name,
        domains=by_domain([run for run in runs if run.arm == names[0]]),
        arms=summarise(runs),
        runs=runs,
        differences=differences,
        interrupted=interrupted,
        seconds=time.monotonic() - started,
    )
    _show(report, names[0])
    write_json(report, json_file)
    if interrupted:
        console.print("interrupted: the table holds what was run until then")
        raise typer.Exit(130)


def _row(suite: Suite, lm: object, attempt: Attempt) -> tuple[RunReport, list[Difference]]:
    """One run as a row; recorded runs are also compared with the replay that published scores rest on."""
    from ace.evaluation.reports import Difference
    from ace.evaluation.workbench import WorkBenchSuite
    from ace.evaluation.workbench.differences import replay_is_right, ways
    from ace.testing import RecordedLM

    row = attempt.report()
    recording = lm.recording(attempt.task.task.text) if isinstance(lm, RecordedLM) else None
    if recording is None or not isinstance(suite, WorkBenchSuite):
        return row, []
    row.empty = recording.empty
    row.ways = ways(recording, attempt.output)
    replay = replay_is_right(suite, attempt.task, recording)
    if replay == row.correct:
        return row, []
    return row, [Difference(id=row.id, live=row.correct, replay=replay, ways=row.ways)]


def _show(report: EvaluateReport, first_arm: str) -> None:
    label = f" ({report.label})" if report.label else ""
    table = Table(title=f"{report.suite}, arm {first_arm}{label}", title_justify="left")
    table.add_column("domain")
    for name in ("n", "correct", "share", "empty", "error"):
        table.add_column(name, justify="right")
    rows = {**report.domains}
    for name, row in rows.items():
        table.add_row(
            name, str(row.n), str(row.correct), f"{100 * row.correct / row.n:.1f} %", str(row.empty), str(row.error)
        )
    n, correct = sum(r.n for r in rows.values()), sum(r.correct for r in rows.values())
    empty, error = sum(r.empty for r in rows.values()), sum(r.error for r in rows.values())
    table.add_section()
    table.add_row("all", str(n), str(correct), f"{100 * correct / n:.1f} %", str(empty), str(error))
    console.print(table)
    console.print(arms_table(f"arms{label}", report.arms))
    if report.label.startswith("recorded:"):
        console.print(f"live and replay differ in {len(report.differences)} runs", highlight=False)
        for row in report.differences:
            console.print(
                f"  {row.id}: live {row.live}, replay {row.replay}, by {', '.join(row.ways)}", highlight=False
            )
