"""`ace suite`: look at a suite, and check that it is sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ace.cli._shared import JsonOption, check_writable, console, progress_bar, read_lines, write_json

if TYPE_CHECKING:
    from ace.evaluation.reports import GoldenReport, TasksReport
    from ace.evaluation.suite import Suite

app = typer.Typer(
    help="Task suites: list, show, check.",
    no_args_is_help=True,
    epilog="Example: ace suite check workbench:PATH --golden PATH/golden.jsonl",
)
SuiteArgument = Annotated[str, typer.Argument(help="office, or workbench:PATH")]


@app.command("list", epilog="Example: ace suite list office")
def list_tasks(
    suite: Annotated[str | None, typer.Argument(help="A suite; without one, the suites are listed.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 40,
) -> None:
    """List the suites, or the tasks of one."""
    if suite is None:
        console.print("office: 200 tasks over 5 domains, generated from a seed; needs nothing")
        console.print("workbench:PATH: the public WorkBench, 690 tasks, from its folder")
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
    json_file: JsonOption = None,
) -> None:
    """Check that gold plans run, that the scorer tells right from wrong, and that golden calls give their results."""
    check_writable(json_file)
    from ace.evaluation.reports import SuiteCheckReport
    from ace.evaluation.suite import load_suite

    loaded = load_suite(suite)
    report = SuiteCheckReport(suite=loaded.name, golden=_golden(loaded, golden), tasks=_tasks(loaded))
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
    for problem in tasks.problems[:10]:
        console.print(f"  {problem}", markup=False)
    write_json(report, json_file)
    if cases.failed or tasks.problems:
        raise typer.Exit(1)


def _golden(suite: Suite, path: Path | None) -> GoldenReport:
    from ace.core import SuiteError
    from ace.evaluation.reports import GoldenReport

    if path is None:
        return GoldenReport(n=0, passed=0, failed=[])
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


def _tasks(suite: Suite) -> TasksReport:
    """Every task's gold plan in a fresh world, and the same task left alone."""
    from ace.evaluation.reports import TasksReport
    from ace.tasks import TaskOutput
    from ace.tools import ToolCall, call_tool, check_call

    ids = [task.id for task in suite.tasks]
    report = TasksReport(
        n=len(ids), gold_plans_run=0, oracle_right=0, empty_wrong=0, empty_expected=0,
        unique_ids=len(set(ids)) == len(ids), problems=[],
    )  # fmt: skip
    if not report.unique_ids:
        report.problems.append("some ids come twice")
    with progress_bar("tasks", len(ids)) as advance:
        for task in suite.tasks:
            done = TaskOutput(task_id=task.id, run_id="check", task=task.task, termination_reason="completed")
            episode, failures = suite.episode(task), 0
            for number, call in enumerate(task.gold):
                checked: ToolCall = check_call(episode.registry, call.name, call.args, f"c{number}")
                result = call_tool(episode.registry.get(call.name), checked)
                refused = isinstance(result.content, str) and "not found" in result.content
                failures += result.outcome != "success" or refused
            right = episode.score(done).success
            report.gold_plans_run += not failures
            report.oracle_right += right
            if failures or not right:
                report.problems.append(f"{task.id}: {failures} gold calls fail, scored {'right' if right else 'wrong'}")
            untouched = suite.episode(task).score(done)
            if untouched.details["state_sha256"] != episode.score(done).details["state_sha256"]:
                report.empty_expected += 1
                report.empty_wrong += not untouched.success
                if untouched.success:
                    report.problems.append(f"{task.id}: doing nothing is scored right")
            advance()
    return report
