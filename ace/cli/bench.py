"""`ace bench`: measure on your own machine and your own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ace.cli._shared import JsonOption, check_writable, console, progress_bar, write_json

app = typer.Typer(
    help="Measure retrieval on your own data.",
    no_args_is_help=True,
    epilog="Example: ace bench retrieval tasks.jsonl --json hits.json",
)


@app.callback()
def _bench() -> None:
    """Keeps `retrieval` a subcommand of its own."""


@app.command(
    "retrieval",
    epilog='Each line: {"id": "t1", "query": "Refund order 17", "tools": ["refund"], "group": "refunds"}',
)
def retrieval(
    file: Annotated[
        Path, typer.Argument(help="JSON lines with id, query, tools and group; or workbench:PATH, office.")
    ],
    json_file: JsonOption = None,
) -> None:
    """How often the bullet with the right calls is found when the task's own one, or its whole group, is left out."""
    check_writable(json_file)
    from ace.evaluation.retrieval_bench import bench_retrieval, read_tasks, suite_tasks
    from ace.evaluation.suite import SUITES, load_suite

    name = str(file)
    tasks = suite_tasks(load_suite(name)) if name.partition(":")[0] in SUITES else read_tasks(file)
    queries = 2 * (len(tasks) + sum(bool(task.tools) for task in tasks))
    with progress_bar("queries", queries) as advance:
        report = bench_retrieval(tasks, on_query=advance)
    table = Table(title="bullets with the right multiset of tools, percent", title_justify="left")
    for column in ("left out", "queries", "n", "hit@1", "hit@3", "95 %"):
        table.add_column(column, justify="left" if column in ("left out", "queries") else "right")
    for guard, split in (("the task", report.loo), ("its group", report.group)):
        for subset in ("all", "nonempty", "empty"):
            hit = getattr(split, subset)
            interval = f"{hit.interval[0]:.1f} - {hit.interval[1]:.1f}"
            table.add_row(guard, subset, str(hit.n), f"{hit.hit_1:.1f}", f"{hit.hit_3:.1f}", interval)
    console.print(table)
    write_json(report, json_file)
