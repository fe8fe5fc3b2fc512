"""`ace suite`: view a suite, and check that it is sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ace.cli import _shared as shared
from ace.cli._shared import Text, console, examples, progress_bar, write_json
from ace.core import SuiteError
from ace.suites.registry import SUITE_SPECS, described_suites, load_suite

app = typer.Typer(
    help="Task suites: list, show, check.",
    no_args_is_help=True,
    epilog=examples("ace suite check tasks.jsonl"),
)
SuiteArgument = Annotated[str, typer.Argument(help=SUITE_SPECS)]


@app.command("list", epilog=examples("ace suite list office"))
def list_tasks(
    suite: Annotated[str | None, typer.Argument(help="A suite; without one, the suites are listed.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many tasks are shown; the JSON has all.")] = 40,
    json_file: shared.JsonOption = None,
) -> None:
    """List the suites, or the tasks of one."""
    if suite is None:
        for name, about in described_suites():
            console.print(f"{name}: {about}")
        write_json([{"name": name, "about": about} for name, about in described_suites()], json_file)
        return
    loaded = load_suite(suite)
    write_json(list(loaded.tasks), json_file)
    table = Table(title=f"{loaded.name}: {len(loaded.tasks)} tasks", title_justify="left")
    for name in ("id", "domain", "calls", "task"):
        table.add_column(name, overflow="fold")
    for task in loaded.tasks[:limit]:
        cells = (task.id, task.domain, str(len(task.gold)), task.task.text[:100])
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)
    if len(loaded.tasks) > limit:
        console.print(f"{len(loaded.tasks) - limit} more; raise --limit")


@app.command("show", epilog=examples("ace suite show office 'refund#0'"))
def show(
    suite: SuiteArgument,
    task_id: Annotated[str, typer.Argument(help="A task's id.")],
    json_file: shared.JsonOption = None,
) -> None:
    """Show a task and its reference solution."""
    loaded = load_suite(suite)
    task = next((t for t in loaded.tasks if t.id == task_id), None)
    if task is None:
        raise SuiteError(f"the suite {suite!r} has no task {task_id!r}; see: ace suite list {suite}")
    console.print(f"{task.id} ({task.domain}, family {task.group})")
    console.print(task.task.text)
    for call in task.gold:
        mark = "writes" if call.name in loaded.writing_tools else "reads"
        console.print(f"  {mark} {call.name}({json.dumps(call.args)})")
    write_json(task, json_file)


@app.command("check", epilog=examples("ace suite check tau:FOLDER --json check.json"))
def check(
    suite: SuiteArgument,
    golden: Annotated[Path | None, typer.Option(help="JSON lines with calls, their results and final states.")] = None,
    judge_lm: shared.JudgeOption = "",
    json_file: shared.JsonOption = None,
) -> None:
    """Check that reference solutions run, that the scorer tells right from wrong, and (--golden) that recorded calls give
    the recorded results."""
    from ace.evaluation.models import load_suite_for
    from ace.suites.check import check_suite

    loaded = load_suite_for(suite, judge=judge_lm)
    cases = _golden_cases(golden) if golden is not None else None
    with progress_bar("golden cases and tasks", len(cases or ()) + len(loaded.tasks)) as advance:
        report = check_suite(loaded, cases, on_task=advance, on_case=advance)
    tasks, replayed = report.tasks, report.golden
    if golden is not None:
        console.print(f"golden cases: {replayed.passed} of {replayed.n} give their results and states")
    for case in replayed.failed[:10]:
        console.print(f"  {case['id']}: {'; '.join(case['problems'][:2])}")
    console.print(
        f"{tasks.n} tasks: {tasks.gold_plans_run} gold plans run without a failing call; the scorer calls "
        f"{tasks.oracle_right} right after their gold plan, and {tasks.empty_wrong} of the {tasks.empty_expected} tasks "
        "whose gold plan changes something wrong when nothing was done"
    )
    if tasks.idle_right:
        console.print(
            f"{tasks.idle_right} tasks are solved by doing nothing: their calls leave the state as it was, and no answer is "
            "scored"
        )
    for problem in tasks.problems[:10]:
        console.print(f"  {problem}")
    write_json(report, json_file)
    if replayed.failed or tasks.problems:
        raise typer.Exit(1)


def _golden_cases(path: Path) -> list[Any]:
    from ace.suites.toolbox import read_lines

    try:
        return [json.loads(line) for line in read_lines(path) if line.strip()]
    except json.JSONDecodeError as error:
        raise SuiteError(f"cannot read the golden file {str(path)!r}: {error}") from error
