"""`ace bench`: measure on your own machine and your own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ace.cli._shared import JsonOption, check_writable, console, progress_bar, write_json

app = typer.Typer(
    help="Measure on your own machine and your own data.",
    no_args_is_help=True,
    epilog="Examples: ace bench playbook --bullets 10000 | ace bench retrieval tasks.jsonl --json hits.json",
)


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
    tasks = suite_tasks(load_suite(name)) if name.partition(":")[0] in SUITES or ".py:" in name else read_tasks(file)
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


@app.command(
    "playbook",
    epilog="Examples: ace bench playbook --bullets 100000 | ace bench playbook --playbook mine.db | "
    "ace bench playbook --store postgresql://me@host/db",
)
def playbook(
    bullets: Annotated[int, typer.Option(min=1, help="So many made-up bullets.")] = 10_000,
    copy_of: Annotated[
        Path | None,
        typer.Option("--playbook", help="Measure a copy of this playbook file in place of made-up bullets."),
    ] = None,
    store: Annotated[str, typer.Option(help="On this PostgreSQL server, in place of a file.")] = "",
    fast: Annotated[bool, typer.Option(help="Embed with onnxruntime (extra onnx).")] = False,
    queries: Annotated[int, typer.Option(min=1, help="How many retrievals are timed.")] = 100,
    json_file: JsonOption = None,
) -> None:
    """How long retrieval and commits take with a playbook of this size, here. Nothing of it stays."""
    check_writable(json_file)
    from ace.evaluation.playbook_bench import bench_playbook, steps
    from ace.playbook import as_embedder

    embedder = as_embedder("onnx") if fast else None
    with progress_bar("filling and asking", steps(bullets, queries, copy_of)) as advance:
        report = bench_playbook(
            bullets, copy_of=copy_of, store=store, embedder=embedder, queries=queries, on_step=advance
        )
    title = f"{report.bullets:,} bullets, {report.store}, {report.embedder}: milliseconds"
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    for column in ("median", "95 %", "99 %"):
        table.add_column(column, justify="right")
    for name, took in (
        ("embed a query", report.embedding),
        ("retrieve, embedding included", report.retrieval),
        ("retrieve the same again", report.retrieval_cached),
        ("commit a bullet", report.commit),
    ):
        table.add_row(name, *(f"{value:.2f}" for value in (took.p50, took.p95, took.p99)))
    console.print(table)
    size = "" if report.megabytes is None else f", {report.megabytes:.1f} MB on the disk"
    console.print(
        f"filled in {report.load_seconds:.1f} s; opened again in {report.open_ms:.0f} ms{size}", highlight=False
    )
    write_json(report, json_file)
