"""`ace evaluate`: a suite under several arms."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ace.cli._evaluate_live import watched
from ace.cli._evaluate_views import show
from ace.cli._shared import (
    ApiBaseOption,
    JsonOption,
    JudgeOption,
    LmOption,
    SplitOption,
    check_writable,
    console,
    progress_bar,
    write_json,
)
from ace.evaluation.wording import SUITE_SPECS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ace.cli._lm import LMChoice
    from ace.evaluation.engines import Engine
    from ace.evaluation.log import RunLog
    from ace.evaluation.reports import BulletEffect, Difference, RunReport
    from ace.evaluation.runner import Evaluation
    from ace.evaluation.suite import Suite, SuiteTask
    from ace.playbook import Playbook

EXAMPLES = (
    "Examples: ace evaluate office --lm simulated --arms none,playbook,online,gold --seeds 5 | "
    "ace evaluate workbench:PATH --lm recorded:gpt-4_all --json out.json | "
    "ace evaluate office --lm openai/gpt-5-mini --arms none,playbook --playbook office.db --limit 20 --workers 16 "
    "--max-cost 5 | ace evaluate office --lm simulated --arms none,old=office.db@40,new=office.db    "
    "Run again after Ctrl-C, it goes on."
)
FOLDER = Path("ace-evaluations")


def evaluate(
    suite: Annotated[str, typer.Argument(help=SUITE_SPECS)],
    lm: LmOption = "",
    arms: Annotated[
        str,
        typer.Option(
            help="Comma-separated: none, playbook, online, gold, random, full-history; or NAME=PLAYBOOK.db, or "
            "NAME=PLAYBOOK.db@REVISION; or NAME=lm:MODEL, NAME=recorded:RUN."
        ),
    ] = "none",
    seeds: Annotated[int, typer.Option(min=1, help="Runs per task and arm.")] = 1,
    playbook: Annotated[
        str,
        typer.Option(
            help="Of the arms playbook and random; without it, one is learned on the first part of the split. "
            "A file, or postgresql://USER@HOST/DB."
        ),
    ] = "",
    epochs: Annotated[int, typer.Option(min=1, help="Where a playbook is learned: how often a task is tried.")] = 5,
    unseen: Annotated[bool, typer.Option(help="Leave out all lessons of a task's own family.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N tasks.")] = None,
    program: Annotated[
        Path | None, typer.Option(help="A folder of `ace optimize`: its instructions, tool descriptions and playbook.")
    ] = None,
    split: SplitOption = "",
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
    max_cost: Annotated[float | None, typer.Option(help="Begin no run after so many US dollars.")] = None,
    max_requests: Annotated[int | None, typer.Option(help="The same, in requests to the model.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The same, in tokens.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="The same, in seconds.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for every run and its trace; one in ace-evaluations by default.")
    ] = None,
    judge_lm: JudgeOption = "",
    api_base: ApiBaseOption = None,
    json_file: JsonOption = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Also write the report as Markdown to this file.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Also write the report as one HTML page to this file.")
    ] = None,
) -> None:
    """Run a suite's tasks under each arm and compare.

    Every run is on disk as it comes: after Ctrl-C or a crash, the same command goes on.
    """
    check_writable(json_file)
    check_writable(markdown_file)
    check_writable(html_file)
    from ace.cli._evaluate_arms import arms_of, online_book, open_book
    from ace.cli._lm import load_suite_for, with_others
    from ace.core import SuiteError
    from ace.core.folders import digest, replace_text
    from ace.evaluation import study as studies
    from ace.evaluation.engines import engine_of
    from ace.evaluation.reports import EvaluateReport
    from ace.evaluation.runner import Caps
    from ace.evaluation.runner import evaluate as evaluation_of
    from ace.evaluation.splits import split as split_of

    if engine != "ray":
        engine_of(engine, workers)  # what is wrong or missing shows before anything has been spent
    if html_file is not None:
        from ace.evaluation.html import page_template

        page_template()
    if part not in ("", "all", "first", "second"):
        raise SuiteError(f"--part {part!r}: expected all, first or second")
    with ExitStack() as stack:
        chosen = arms_of(arms, stack)
        book = open_book(playbook, stack) if playbook else None
        if not lm and suite == "office" and set(chosen.names) - set(chosen.models):
            lm = "simulated"
            console.print("no --lm: our stand-in for a language model, whatever it shows is simulated", highlight=False)
        loaded = load_suite_for(suite, lm, judge_lm, api_base, chosen.models.values())
        choice = with_others(lm, chosen.models, loaded, api_base, chosen.names if chosen.models else ())
        learns = book is None and bool({"playbook", "random"} & set(chosen.names))
        if learns and "recorded:" in choice.label:
            raise SuiteError("recorded runs can not learn: the arms playbook and random need --playbook FILE")
        part = part or ("second" if learns else "all")
        if learns and part != "second":
            raise SuiteError("a playbook is learned on the first part and compared on the second; pass --playbook FILE")
        first, second = split_of(loaded.tasks, split) if part != "all" else ([], [])
        tasks = [t for t in {"all": loaded.tasks, "first": first, "second": second}[part] if choice.knows(t)][:limit]
        if not tasks:
            raise SuiteError(f"{lm!r} holds none of the tasks of {suite!r}")
        prepare = None
        if program is not None:
            from ace.optimization import load_optimized

            prepare = partial(load_optimized, program)
        config = {
            "suite": suite,
            "lm": lm,
            "arms": chosen.names,
            "models": chosen.models,
            "judge_lm": judge_lm,
            "api_base": api_base or "",
            "store": sha256(store.encode()).hexdigest()[:16] if store else "",  # it may hold a password
            "seeds": seeds,
            "part": part,
            "split": split,
            "unseen": unseen,
            "limit": limit,
            "program": str(program or ""),
            "epochs": epochs if learns else 0,
        }
        own = {**chosen.books, **({"playbook": book} if book is not None else {})}
        parts = studies.parts_of(loaded, tasks, choice.policy, own)
        if program is not None:
            parts["program"] = digest([path.read_text(encoding="utf-8") for path in sorted(program.glob("*.json"))])
        folder = out or FOLDER / f"{loaded.name}-{digest([config, parts])[:8]}"
        started = time.monotonic()
        console.print(f"{loaded.name}, {choice.name}, policy: {choice.policy.name}   {choice.label}", highlight=False)
        log = stack.enter_context(studies.study(folder, config, parts, anew=out is None))
        if log.done:
            console.print(f"{len(log.done)} runs are in {folder} already", highlight=False)
        made: str | Engine = engine
        if engine == "ray":
            from ace.cli._site import BUILD
            from ace.evaluation.cluster import RayCluster

            told = {"suite": suite, "lm": lm, "models": chosen.models, "judge_lm": judge_lm, "api_base": api_base}
            told["program"] = str(program or "")
            made = RayCluster(workers, BUILD, told, address=ray_address or None)
            stack.callback(made.close)
        books: Playbook | Mapping[int, Playbook] | None = book
        if learns:
            with progress_bar("learning", len(first) * epochs * seeds) as advance:
                books = stack.enter_context(
                    studies.learned_playbooks(
                        folder,
                        loaded,
                        [task for task in first if choice.knows(task)],
                        choice.lm_for,
                        policy=choice.policy,
                        seeds=range(seeds),
                        epochs=epochs,
                        source=choice.label or choice.name,
                        on_run=advance,
                        store=store,
                    )
                )
        runs = evaluation_of(
            loaded,
            choice.lm_for,
            tasks=tasks,
            arms=chosen.names,
            seeds=range(seeds),
            policy=choice.policy,
            playbook=books,
            playbooks=chosen.books,
            models=choice.others,
            unseen=unseen,
            prepare=prepare,
            log=log,
            engine=made,
            workers=workers,
            online_book=online_book(folder, store, stack) if store else None,
            caps=Caps(max_cost, max_requests, max_tokens, max_seconds),
        )
        interrupted = _run(runs, chosen.names, choice.label)
        rows, differences = _rows(loaded, choice, tasks, log)
        if not rows and interrupted:
            raise KeyboardInterrupt
        if not rows:
            raise SuiteError(f"no run was made: {runs.stopped}")
        report = _report(EvaluateReport, loaded, choice, chosen.names, rows, learns)
        _quote(report.bullets, books, chosen.books)
        report = report.model_copy(
            update={
                "differences": differences,
                "interrupted": interrupted,
                "stopped": runs.stopped if not interrupted else "",
                "folder": str(folder),
                "seconds": time.monotonic() - started,
            }
        )
        if html_file is not None:
            from ace.evaluation.html import html, traces_of

            html_file.write_text(html(report, traces_of(report, log)), encoding="utf-8")
        if not interrupted and not runs.stopped:
            replace_text(folder / studies.REPORT, report.model_dump_json(indent=1, by_alias=True))
    show(report, [chosen.names[0], *(name for name in chosen.models if name != chosen.names[0])])
    write_json(report, json_file)
    if html_file is not None:
        console.print(f"HTML: {html_file}", highlight=False)
    if markdown_file is not None:
        from ace.evaluation.markdown import markdown

        markdown_file.write_text(markdown(report), encoding="utf-8")
        console.print(f"Markdown: {markdown_file}", highlight=False)
    if report.stopped:
        console.print(f"stopped: {report.stopped}; the same command with a higher cap goes on", highlight=False)
    if interrupted:
        console.print("interrupted: the table holds what was run until then; the same command goes on")
        raise typer.Exit(130)


def _run(runs: Evaluation, arms: Sequence[str], label: str) -> bool:
    """Make the runs; whether Ctrl-C ended it."""
    interrupted = False
    with watched(runs, arms, label) as told:
        while True:
            try:
                for attempt in runs:
                    told(attempt)
                return interrupted
            except KeyboardInterrupt:
                if interrupted:  # a second one: what is under way is dropped
                    runs.close()
                    return True
                interrupted = True
                runs.stop("interrupted")
                if runs.under_way:
                    console.print(
                        f"{runs.under_way} runs under way are finished; Ctrl-C again drops them", highlight=False
                    )


def _rows(
    suite: Suite, choice: LMChoice, tasks: Sequence[SuiteTask], log: RunLog
) -> tuple[list[RunReport], list[Difference]]:
    """All runs; recorded ones are also compared with the replay that published scores rest on."""
    from ace.evaluation.reports import Difference
    from ace.evaluation.workbench import WorkBenchSuite
    from ace.evaluation.workbench.differences import replay_is_right, ways
    from ace.testing import RecordedLM

    if "recorded:" not in choice.label or not isinstance(suite, WorkBenchSuite):
        return list(log.rows()), []
    rows: list[RunReport] = []
    differences: list[Difference] = []
    known = {task.id: task for task in tasks}
    for row, output, _ in log.runs():
        rows.append(row)
        lm = choice.of(row.arm, 0)
        recording = lm.recording(output.task.text) if isinstance(lm, RecordedLM) else None
        if recording is None:
            continue
        row.empty, row.ways = recording.empty, ways(recording, output)
        replay = replay_is_right(suite, known[row.id], recording)
        if replay != row.correct:
            differences.append(Difference(id=row.id, arm=row.arm, live=row.correct, replay=replay, ways=row.ways))
    return rows, differences


def _quote(
    effects: Sequence[BulletEffect], books: Playbook | Mapping[int, Playbook] | None, own: Mapping[str, Playbook]
) -> None:
    """Say what the bullets say that a report speaks of."""
    from ace.playbook import Playbook
    from ace.playbook.render import render_bullet

    for effect in effects:
        book = own.get(effect.after)
        if book is None:
            book = books if isinstance(books, Playbook) or books is None else books[effect.seed or 0]
        for bullet in book.some([effect.bullet]).values() if book is not None else ():
            effect.text = render_bullet(bullet)


def _report(
    kind: Any, suite: Suite, choice: LMChoice, names: Sequence[str], rows: Sequence[RunReport], learns: bool
) -> Any:
    from ace.evaluation import findings
    from ace.evaluation.arms import LEARNING
    from ace.evaluation.summary import by_domain, comparisons, summarise, ways_closed

    arms, tasks = ({name: place for place, name in enumerate(some)} for some in (names, [t.id for t in suite.tasks]))
    rows = sorted(rows, key=lambda row: (arms[row.arm], row.seed, tasks[row.id]))  # whatever ended first
    seeded = [*LEARNING, *(("playbook", "random") if learns else ())]
    pairs = {name: findings.pairs_of(rows, names[0], name) for name in names[1:]}
    shows = {name: some for name, some in pairs.items() if name not in ("gold", "random", "none", *LEARNING)}
    return kind(
        run=choice.name,
        suite=suite.name,
        label=choice.label,
        policy=choice.policy.name,
        domains={name: by_domain([run for run in rows if run.arm == name]) for name in names},
        arms=summarise(rows),
        runs=list(rows),
        comparisons=comparisons(rows, names[0], seeded),
        closed=ways_closed(rows, seeded),
        families=[effect for some in pairs.values() for effect in findings.families(some)],
        bullets=[effect for name, some in shows.items() for effect in findings.bullets(some, name in seeded)],
        regressions=[row for some in pairs.values() for row in findings.regressions(some)],
        curves=[point for name in names for point in findings.curve(rows, name)],
        calibrations=findings.calibrations(rows),
    )
