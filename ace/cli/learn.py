"""`ace learn`: fill a playbook from a suite's runs."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ace.cli import _shared as shared
from ace.cli._shared import check_reachable, console, counted, examples, progress_bar, write_json
from ace.core import SuiteError
from ace.suites.registry import SUITE_SPECS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ace.agent.episode import Episode, Solver
    from ace.evaluation.models import ModelChoice
    from ace.learner import LearningReport
    from ace.playbook import Playbook
    from ace.suites.protocol import Suite, SuiteTask
    from ace.tasks import Feedback, TaskOutput

EXAMPLES = examples("ace learn --from office --lm simulated --playbook pb.db --epochs 5")


def learn(
    source: Annotated[str, typer.Option("--from", help=SUITE_SPECS)],
    playbook: Annotated[
        str, typer.Option(help="The playbook to fill, a file or postgresql://USER@HOST/DB; made if it is not there.")
    ],
    runs: Annotated[
        list[str] | None,
        typer.Option(
            help="Learn from this recorded run, by its name (dspy-ace-suites), instead of an LM; may be repeated."
        ),
    ] = None,
    lm: Annotated[str, typer.Option("--lm", envvar="ACE_LM", help="As for `ace evaluate`.")] = "",
    epochs: Annotated[int, typer.Option(min=1, help="How often the first part is run.")] = 1,
    state: Annotated[
        Path | None, typer.Option(help="A folder that remembers what was learned from; PLAYBOOK.learned by default.")
    ] = None,
    split: shared.SplitOption = "",
    judge_lm: shared.JudgeOption = "",
    api_base: shared.ApiBaseOption = None,
    cache: shared.CacheOption = False,
    json_file: shared.JsonOption = None,
) -> None:
    """Learn from the runs of one part of the suite's tasks, and look up the other part.

    The suite's scorer decides about success, never the model.
    """
    from ace.playbook.database import named_as

    check_reachable([lm], api_base, playbook, made=True)
    shown, name = named_as(playbook)
    from ace.evaluation.hosted import ModelServer
    from ace.evaluation.models import choose_model, load_suite_for
    from ace.evaluation.report.models import LearnReport
    from ace.learner import LearningReport
    from ace.playbook import Playbook
    from ace.suites.splits import split as split_of

    if bool(runs) == bool(lm):
        raise SuiteError("pass either --runs RUN (recorded) or --lm NAME")
    specs = [f"recorded:{run}" for run in runs] if runs else [lm]
    server = ModelServer(api_base, cache)
    suite = load_suite_for(source, specs[0], judge_lm, server)
    choices = [choose_model(spec, suite, server) for spec in specs]
    train, test = split_of(suite.tasks, split)
    for choice in choices:
        if not any(choice.knows(task) for task in train):
            raise SuiteError(f"{choice.name!r} holds none of the tasks of {source!r}")
    started = time.monotonic()
    total = LearningReport()
    with Playbook.open(playbook) as book:
        before = book.revision
        for choice in choices:
            console.print(f"{suite.name}, {choice.name}, policy: {choice.policy.name}   {choice.label}")
            known = [task for task in train if choice.knows(task)]
            path = state or Path(f"{name}.learned")
            total = total.plus(_learned(suite, known, choice, book, path, epochs, f"{source} {choice.name}"))
        if total.skipped:
            console.print(
                f"{total.skipped} runs had been learned from before; to learn from them again, use another --state"
            )
        n, hits = _held_out(suite, test, book)
        pitfalls = [bullet for bullet in book.bullets if bullet.section == "Pitfalls"]
        report = LearnReport(
            suite=suite.name,
            label=choices[0].label,
            policy=choices[0].policy.name,
            runs=total.runs,
            successes=total.successes,
            bullets=len(book),
            tokens=sum(map(book.budget.tokens_of, book.bullets)),
            pitfalls=len(pitfalls),
            pitfalls_without_run=sum(not bullet.provenance.run_ids for bullet in pitfalls),
            playbook_path=shown,
            held_out={"n": n, "hit@3": 100.0 * hits / n if n else 0.0},
        )
        console.print(
            f"{counted(total.runs, 'run')}, {total.successes} right; {counted(total.added, 'lesson')} added, "
            f"{total.merged} merged; revisions {before} to {book.revision} in {time.monotonic() - started:.0f} s"
        )
    console.print(
        f"held-out part: of {counted(n, 'task')} whose changing calls some run taught, {hits} find a strategy with them "
        "among the first three lessons"
    )
    console.print(
        f"{counted(report.bullets, 'lesson')} ({report.pitfalls} of them pitfalls, {report.tokens} tokens) in {shown}; "
        f"look at them with: ace playbook list {shown}"
    )
    write_json(report, json_file)


def _learned(
    suite: Suite, tasks: Sequence[SuiteTask], choice: ModelChoice, book: Playbook, state: Path, epochs: int, name: str
) -> LearningReport:
    """Learn from the runs of one model."""
    from ace.evaluation.episodes import AgentPool
    from ace.evaluation.reach import check_answered
    from ace.learner import Learner
    from ace.reflector import Reflector

    pool = AgentPool(suite, choice.policy)

    def agent_for(episode: Episode) -> Solver:
        return pool.agent(episode, choice.lm_for(episode.attempt), None if choice.replays else book)

    reflector = Reflector(choice.label or choice.name)
    with (
        Learner(book, agent_for, reflector=reflector, state=state, author="ace learn") as learner,
        progress_bar("learning", len(tasks) * epochs) as advance,
    ):
        runs = [partial(suite.episode, task) for task in tasks]

        def ran(_: Episode, output: TaskOutput, __: Feedback) -> None:
            check_answered(output, choice.name, "what was learned before is kept")
            advance()

        learner.fit(runs, epochs=epochs, name=name, on_run=ran)
        return learner.report


def _held_out(suite: Suite, test: Sequence[SuiteTask], book: Playbook) -> tuple[int, int]:
    """Count how many held-out tasks have calls that were taught, and how many of those find them."""
    from ace.suites.protocol import changing

    taught = {bullet.key for bullet in book.bullets if bullet.section == "Strategies"}
    asked = [task for task in test if changing(suite, task) in taught]
    hits = 0
    with progress_bar("looking up the other part", len(asked)) as advance:
        for task in asked:
            found = book.retrieve(task.task.text, domain=task.task.domain)
            hits += any(b.section == "Strategies" and b.key == changing(suite, task) for b in found)
            advance()
    return len(asked), hits
