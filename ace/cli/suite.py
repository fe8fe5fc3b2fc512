"""`ace suite`: look at a suite, and check that it is sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ace.cli._shared import (
    JsonOption,
    JudgeOption,
    check_writable,
    console,
    progress_bar,
    read_lines,
    write_json,
)
from ace.evaluation.wording import SUITE_SPECS

if TYPE_CHECKING:
    from ace.evaluation.reports import GoldenReport, TasksReport
    from ace.evaluation.suite import Suite

app = typer.Typer(
    help="Task suites: list, show, check.",
    no_args_is_help=True,
    epilog="Example: ace suite check workbench:PATH --golden PATH/golden.jsonl",
)
SuiteArgument = Annotated[str, typer.Argument(help=SUITE_SPECS)]


@app.command("list", epilog="Example: ace suite list office")
def list_tasks(
    suite: Annotated[str | None, typer.Argument(help="A suite; without one, the suites are listed.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 40,
) -> None:
    """List the suites, or the tasks of one."""
    if suite is None:
        console.print("office: 200 tasks over 5 domains, generated from a seed; needs nothing")
        console.print("workbench:PATH: the public WorkBench, 690 tasks, from its folder")
        console.print("bfcl[:CATEGORY]: BFCL's multi-turn conversations, 734 turns; needs the package bfcl-eval")
        console.print("tau:FOLDER: a folder as tau-bench has them: tasks.jsonl, tools.py, state.json")
        console.print("FILE.jsonl[:TOOLS.py]: tasks of your own, with tools from a Python file")
        console.print("FILE.py:NAME: a suite of your own making")
        return
    from ace.evaluation.suite import load_suite

    loaded = load_suite(suite)
    table = Table(title=f"{loaded.name}: {len(loaded.tasks)} tasks", title_justify="left")
    for name in ("id", "domain", "calls", "task"):
        table.add_column(name)
    for task in loaded.tasks[:limit]:
        cells = (task.id, task.domain, str(len(task.gold)), task.task.text[:100])
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)
    if len(loaded.tasks) > limit:
        console.print(f"{len(loaded.tasks) - limit} more; raise --limit")


@app.command("show", epilog="Example: ace suite show office 'refund#0'")
def show(suite: SuiteArgument, task_id: Annotated[str, typer.Argument(help="A task's id.")]) -> None:
    """Show a task and its reference solution."""
    from ace.core import SuiteError
    from ace.evaluation.suite import load_suite

    loaded = load_suite(suite)
    task = next((t for t in loaded.tasks if t.id == task_id), None)
    if task is None:
        raise SuiteError(f"the suite {suite!r} has no task {task_id!r}; see: ace suite list {suite}")
    console.print(f"{task.id} ({task.domain}, family {task.group})", markup=False, highlight=False)
    console.print(task.task.text, markup=False)
    for call in task.gold:
        mark = "writes" if call.name in loaded.writing_tools else "reads"
        console.print(f"  {mark} {call.name}({json.dumps(call.args)})", markup=False, highlight=False)


@app.command("check", epilog="Example: ace suite check workbench:PATH --golden PATH/golden.jsonl --json check.json")
def check(
    suite: SuiteArgument,
    golden: Annotated[Path | None, typer.Option(help="JSON lines with calls, their results and final states.")] = None,
    judge_lm: JudgeOption = "",
    json_file: JsonOption = None,
) -> None:
    """Check that gold plans run, that the scorer tells right from wrong, and that golden calls give their results."""
    check_writable(json_file)
    from ace.cli._lm import load_suite_for
    from ace.evaluation.reports import SuiteCheckReport

    loaded = load_suite_for(suite, judge=judge_lm)
    report = SuiteCheckReport(suite=loaded.name, golden=_golden(loaded, golden), tasks=_linted(loaded))
    tasks, cases = report.tasks, report.golden
    console.print(f"golden cases: {cases.passed} of {cases.n} give their results and states", highlight=False)
    for case in cases.failed[:10]:
        console.print(f"  {case['id']}: {'; '.join(case['problems'][:2])}", markup=False)
    console.print(
        f"{tasks.n} tasks: {tasks.gold_plans_run} gold plans run without a failing call; the scorer calls "
        f"{tasks.oracle_right} right after their gold plan, and {tasks.empty_wrong} of the {tasks.empty_expected} tasks "
        "whose gold plan changes something wrong when nothing was done",
        highlight=False,
    )
    if tasks.idle_right:
        console.print(
            f"{tasks.idle_right} tasks are solved by doing nothing: their calls leave the state as it was, and no answer is "
            "scored",
            highlight=False,
        )
    for problem in tasks.problems[:10]:
        console.print(f"  {problem}", markup=False)
    write_json(report, json_file)
    if cases.failed or tasks.problems:
        raise typer.Exit(1)


def _golden(suite: Suite, path: Path | None) -> GoldenReport:
    from ace.core import SuiteError
    from ace.evaluation.reports import GoldenReport
    from ace.evaluation.suite import GoldenSuite

    if path is None:
        return GoldenReport(n=0, passed=0, failed=[])
    if not isinstance(suite, GoldenSuite):
        raise SuiteError(f"the suite {suite.name!r} cannot replay golden cases")
    try:
        cases: list[Any] = [json.loads(line) for line in read_lines(path) if line.strip()]
    except ValueError as error:
        raise SuiteError(f"cannot read the golden file {str(path)!r}: {error}") from error
    failed: list[dict[str, Any]] = []
    with progress_bar("golden cases", len(cases)) as advance:
        for number, case in enumerate(cases, start=1):
            try:
                same = len(case["calls"]) == len(case["results"])
                problems = suite.check_case(case) if same else ["calls and results differ in number"]
            except (KeyError, TypeError, ValueError) as error:
                raise SuiteError(
                    f"{str(path)!r} line {number}: {error!r}; expected an object with calls, results and state_sha256"
                ) from error
            if problems:
                failed.append({"id": case.get("id", str(number)), "problems": problems})
            advance()
    return GoldenReport(n=len(cases), passed=len(cases) - len(failed), failed=failed)


def _linted(suite: Suite) -> TasksReport:
    from ace.evaluation.lint import lint

    with progress_bar("tasks", len(suite.tasks)) as advance:
        return lint(suite, advance)
