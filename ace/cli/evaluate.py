"""`ace evaluate`: a suite under several arms."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ace.cli import _shared as shared
from ace.cli._shared import check_reachable, check_writable, console, examples, shown, write_json
from ace.suites.registry import SUITE_SPECS

if TYPE_CHECKING:
    from ace.evaluation.report.models import EvaluateReport

EXAMPLES = examples(
    "ace evaluate office --lm simulated --arms none,playbook,gold --seeds 5",
    "ace evaluate office --lm openai/gpt-5 --arms none,playbook --max-cost 5",
    "ace evaluate office --lm simulated --arms none,old=pb.db@40,new=pb.db",
    "ace evaluate office --arms s=lm:openai/gpt-5-nano,m=lm:openai/gpt-5",
)
COLUMNS = ("arm", "runs", "success, %", "95 %", "iterations", "requests", "not done")
DIFFERENCES = ("arm", "metric", "difference", "95 %", "p corrected", "gained", "lost", "could show")
ArmsOption = Annotated[
    str,
    typer.Option(
        help="Comma-separated: none, playbook, online, gold, random, full-history, program; or NAME=PLAYBOOK.db, or "
        "NAME=PLAYBOOK.db@REVISION; or NAME=lm:MODEL. By default none, and with --program none,program."
    ),
]
PlaybookOption = Annotated[
    str,
    typer.Option(
        help="Of the arms playbook and random; without it, one is learned on the first part of the split. "
        "A file, or postgresql://USER@HOST/DB."
    ),
]
ProgramOption = Annotated[
    Path | None,
    typer.Option(
        help="A folder of `ace optimize`: its instructions and tool descriptions in all arms, its playbook in the arm "
        "program."
    ),
]
MarkdownOption = Annotated[
    Path | None,
    typer.Option("--markdown", callback=check_writable, help="Also write the report as Markdown to this file."),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", callback=check_writable, help="Also write the report as one HTML page to this file."),
]


def evaluate(
    suite: Annotated[str, typer.Argument(help=SUITE_SPECS)],
    lm: shared.LmOption = "",
    arms: ArmsOption = "",
    seeds: Annotated[int, typer.Option(min=1, help="Runs per task and arm.")] = 1,
    playbook: PlaybookOption = "",
    epochs: Annotated[int, typer.Option(min=1, help="Where a playbook is learned: how often a task is tried.")] = 5,
    unseen: Annotated[bool, typer.Option(help="Leave out all lessons of a task's own family.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N tasks.")] = None,
    program: ProgramOption = None,
    split: shared.SplitOption = "",
    part: Annotated[
        str, typer.Option(help="Which part of the split: all, first, second. The second where a playbook is learned.")
    ] = "",
    workers: Annotated[int, typer.Option(min=1, help="Runs under way at once.")] = 1,
    engine: Annotated[str, typer.Option(help="threads, asyncio, or ray, a cluster.")] = "threads",
    ray_address: Annotated[
        str, typer.Option(envvar="RAY_ADDRESS", help="Of the Ray cluster; a local one is started by default.")
    ] = "",
    store: Annotated[
        str, typer.Option(help="postgresql://USER@HOST/DB: where learned playbooks lie, so that all workers read them.")
    ] = "",
    max_cost: Annotated[float | None, typer.Option(min=0, help="Begin no run after this many US dollars.")] = None,
    max_requests: Annotated[int | None, typer.Option(min=0, help="The same, in requests to the model.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help="The same, in tokens.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="The same, in seconds.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for every run and its trace; one in ace-evaluations by default.")
    ] = None,
    judge_lm: shared.JudgeOption = "",
    api_base: shared.ApiBaseOption = None,
    cache: shared.CacheOption = False,
    json_file: shared.JsonOption = None,
    markdown_file: MarkdownOption = None,
    html_file: HtmlOption = None,
) -> None:
    """Run a suite's tasks under each arm and compare.

    Every run is on disk as it comes: after Ctrl-C or a crash, the same command goes on.
    """
    models, books = _named_in(arms)
    check_reachable([lm, judge_lm, *models], api_base, playbook)
    for book in books:
        check_reachable([], None, book)
    from ace.cli._evaluate_live import Watched
    from ace.core.durable import write_atomic
    from ace.evaluation.arms import arms_of
    from ace.evaluation.report.html import page_template
    from ace.evaluation.report.markdown import markdown
    from ace.evaluation.runner import Caps
    from ace.evaluation.study import Study, StudyConfig

    if html_file is not None:
        page_template()  # what is missing shows before anything has been spent
    arms = arms or ("none" if program is None else "none,program")
    named = arms_of(arms)
    if not lm and suite == "office" and set(named.names) - set(named.models):
        lm = "simulated"
        console.print("no --lm: our stand-in for a language model, whatever it shows is simulated")
    study = Study(
        StudyConfig(
            suite=suite,
            lm=lm,
            arms=arms,
            seeds=seeds,
            playbook=playbook,
            epochs=epochs,
            unseen=unseen,
            limit=limit,
            program=program,
            split=split,
            part=part,
            workers=workers,
            engine=engine,
            ray_address=ray_address,
            store=store,
            caps=Caps(max_cost, max_requests, max_tokens, max_seconds),
            out=out,
            judge_lm=judge_lm,
            api_base=api_base,
            cache=cache,
        )
    )
    with ExitStack() as bar:
        report = study.run(Watched(bar))
    if html_file is not None:
        study.write_html(report, html_file)
    _show(report)
    write_json(report, json_file)
    if html_file is not None:
        console.print(f"HTML: {html_file}")
    if markdown_file is not None:
        write_atomic(markdown_file, markdown(report))
        console.print(f"Markdown: {markdown_file}")
    if report.stopped:
        console.print(f"stopped: {report.stopped}; the same command with a higher cap goes on")
    if report.interrupted:
        console.print("interrupted: the table holds what was run until then; the same command goes on")
        raise typer.Exit(130)


def _show(report: EvaluateReport) -> None:
    """Show what was found, and the tables behind it."""
    from ace.evaluation.report import tables

    for sentence in (*report.verdicts, *report.notes):
        console.print(sentence)
    for table in tables.tables(report):
        columns = COLUMNS if table.title == "Arms" else DIFFERENCES if table.title.startswith("Against") else table.head
        console.print(shown(table.only(*columns), report.label))
        for note in table.notes:
            console.print(note, style="dim")
    if report.folder:
        console.print(f"every run with its trace: {report.folder}")


def _named_in(arms: str) -> tuple[list[str], list[str]]:
    """Return the models and the playbooks that arms name, without what takes seconds to import."""
    given = [word.partition("=")[2].strip() for word in arms.split(",")]
    models = [one.removeprefix("lm:") for one in given if one.startswith("lm:")]
    # other words with a colon are those of a source of models that is installed
    books = [re.sub(r"@\d+$", "", one) for one in given if one and (":" not in one or "://" in one)]
    return models, [book for book in books if book != "simulated"]
