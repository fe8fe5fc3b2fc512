"""`ace demo`: learn on half of the office, show what that does to the other half."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ace.cli._shared import JsonOption, console, counted, examples, progress_bar, shown, write_json
from ace.cli.evaluate import COLUMNS
from ace.core import PlaybookError

if TYPE_CHECKING:
    from ace.evaluation.episodes import Attempt
    from ace.evaluation.models import ModelChoice
    from ace.playbook import Playbook
    from ace.suites.office import OfficeSuite
    from ace.suites.protocol import SuiteTask

EXAMPLES = examples("ace demo --json demo.json")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the playbook.")] = Path("ace-demo"),
    epochs: Annotated[int, typer.Option(min=1, help="How often unsolved training tasks are tried again.")] = 15,
    seeds: Annotated[int, typer.Option(min=1, help="Each held-out task is run with this many seeds per arm.")] = 3,
    suite_seed: Annotated[int, typer.Option(help="Another office: other people, orders and wordings.")] = 0,
    json_file: JsonOption = None,
) -> None:
    """Learn on half of each office family's tasks; run the other half without and with what was learned."""
    started = time.monotonic()
    from ace.core.durable import write_atomic
    from ace.evaluation.arms import FIXED
    from ace.evaluation.models import choose_model
    from ace.evaluation.report import tables
    from ace.evaluation.report.build import build_report, quote_bullets
    from ace.evaluation.report.html import html
    from ace.evaluation.report.models import DemoReport
    from ace.evaluation.report.summary import closed, summarise
    from ace.playbook import Playbook
    from ace.suites.office import OfficeSuite
    from ace.suites.splits import halves

    suite = OfficeSuite(suite_seed)
    choice = choose_model("simulated", suite)
    train, test = halves(suite.tasks)
    path, times = _fresh_file(out), f"{seeds} times each" if seeds > 1 else "once each"
    console.print("Does an agent get better by what it learned from its own runs? About two minutes:", style="bold")
    console.print(
        f"1. It tries {len(train)} tasks of a small office until they are solved, and writes down what worked.\n"
        f"2. It does {len(test)} other tasks, {times}: without lessons, with its own, with perfect ones, and "
        "with random ones.\n"
        "3. The same again, with all lessons of a task's own family left out: nothing should be gained there.\n"
        "The model is a stand-in that errs as real ones did in recorded runs, so all results are simulated: like GPT-3.5 "
        "without a fitting lesson, like GPT-4 with one, like Llama-2-70B when a lesson misleads it."
    )
    with Playbook.open(path) as playbook:
        _learn(suite, train, playbook, choice, epochs)
        attempts = _compare(suite, test, playbook, choice, seeds, unseen=False)
        _show_one(attempts, playbook)
        seen = [attempt.report() for attempt in attempts]
        unseen = [attempt.report() for attempt in _compare(suite, test, playbook, choice, seeds, unseen=True)]
        arms, others = summarise(seen), summarise(unseen)
        told = build_report(suite, choice, FIXED, seen, learns=False)
        quote_bullets(told.bullets, playbook, {})
        page = path.with_name(path.name.replace("playbook", "report")).with_suffix(".html")
        write_atomic(page, html(told))
        report = DemoReport(
            label="simulated",
            policy=choice.policy.name,
            arms=arms,
            unseen_families=others,
            closed=closed(arms),
            bullets=len(playbook),
            playbook_path=str(path),
            report_path=str(page),
            seconds=time.monotonic() - started,
        )
        for title, of in (
            (f"held-out tasks of seen families, {counted(seeds, 'seed')}", arms),
            ("unseen families: all lessons of the task's own family left out", others),
        ):
            console.print(shown(tables.arms(title, of).only(*COLUMNS), "simulated"))
        for arm in ("playbook", "random"):
            share = report.closed[arm]["iterations"]
            console.print(
                f"{arm}: {100 * share:.0f} % of the way from no lesson to the right one in iterations (simulated)"
            )
        _show_bullets(playbook)
    write_json(report, json_file)
    for sentence in told.verdicts[:1]:
        console.print(f"\n{sentence}", style="bold")
    console.print(f"report:   {page}", soft_wrap=True)
    console.print(f"playbook: {path}, {report.bullets} lessons", soft_wrap=True)
    console.print(f"look at them: ace playbook list {path}", soft_wrap=True)
    console.print(f"or in a browser: {serve_command(path)}", soft_wrap=True)


def serve_command(path: Path) -> str:
    """Return what shows a playbook in a browser, with the installation that it needs, where it is missing."""
    from importlib.util import find_spec

    there = all(find_spec(name) is not None for name in ("mcp", "starlette", "uvicorn", "multipart"))
    return f"ace serve {path}" if there else f"pip install 'dspy-ace[serve]' && ace serve {path}"


def _fresh_file(folder: Path) -> Path:
    """Choose a file that is not there yet: an earlier demo's playbook stays."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlaybookError(
            f"cannot make the folder {str(folder)!r}: {error.strerror}; choose another with --out"
        ) from error
    path, number = folder / "playbook.db", 1
    while path.exists():
        number += 1
        path = folder / f"playbook-{number}.db"
    return path


def _learn(
    suite: OfficeSuite, train: Sequence[SuiteTask], playbook: Playbook, choice: ModelChoice, epochs: int
) -> None:
    """Run the training tasks; ones that were solved are not run again."""
    from collections import Counter

    from ace.agent.episode import Episode, Solver
    from ace.evaluation.episodes import AgentPool
    from ace.evaluation.study import TRAINING_SEED_OFFSET
    from ace.learner import Learner
    from ace.reflector import Reflector
    from ace.tasks import Feedback, TaskOutput

    pool, attempts, solved = AgentPool(suite, choice.policy), Counter[str](), set[str]()

    def agent_for(episode: Episode) -> Solver:
        attempts[episode.task.task_id] += 1
        seed = TRAINING_SEED_OFFSET + attempts[episode.task.task_id]
        return pool.agent(episode, choice.lm_for(seed), playbook)

    learner = Learner(playbook, agent_for, reflector=Reflector("simulated"), author="ace demo")
    for epoch in range(epochs):
        tasks = [task for task in train if task.id not in solved]
        if not tasks:
            break
        with progress_bar(f"learning, epoch {epoch + 1} of {epochs}", len(tasks)) as advance:

            def done(episode: Episode, output: TaskOutput, feedback: Feedback, step: object = advance) -> None:
                if feedback.success:
                    solved.add(episode.task.task_id)
                step()  # pyright: ignore[reportCallIssue]

            learner.fit([partial(suite.episode, task) for task in tasks], on_run=done)
    console.print(
        f"learned from {attempts.total()} runs of {len(train)} tasks; {len(solved)} were solved at least once"
    )


def _compare(
    suite: OfficeSuite, tasks: Sequence[SuiteTask], playbook: Playbook, choice: ModelChoice, seeds: int, *, unseen: bool
) -> list[Attempt]:
    """Run the tasks in each arm."""
    from ace.evaluation.arms import FIXED
    from ace.evaluation.runner import evaluate

    attempts: list[Attempt] = []
    with progress_bar("comparing", len(tasks) * len(FIXED) * seeds) as advance:
        for attempt in evaluate(
            suite,
            choice.lm_for,
            tasks=tasks,
            arms=FIXED,
            seeds=range(seeds),
            policy=choice.policy,
            playbook=playbook,
            unseen=unseen,
        ):
            attempts.append(attempt)
            advance(f"{'unseen' if unseen else 'seen'} families, arm {attempt.arm}")
    return attempts


def _show_one(attempts: list[Attempt], playbook: Playbook) -> None:
    """Show one task that fails without a lesson and is solved with one, each at the first attempt."""
    stories: dict[str, dict[str, Attempt]] = {}
    for attempt in attempts:
        stories.setdefault(attempt.task.id, {}).setdefault(attempt.arm, attempt)
    both = [(arms["none"], arms["playbook"]) for arms in stories.values()]
    told = [(a, b) for a, b in both if b.feedback.success and not a.feedback.success and b.output.cited_bullets]
    if not told:
        return
    without, with_one = min(told, key=lambda pair: len(pair[1].output.structured_trace))
    lesson = playbook.find(with_one.output.cited_bullets[:1])
    console.print(f"\nOne of the tasks: {without.task.task.text}", style="bold")
    for title, attempt in (("without a lesson, it fails", without), ("with that lesson, it is solved", with_one)):
        console.print(f"{title} (simulated):", style="bold")
        for step in attempt.output.structured_trace:
            args = ", ".join(f"{name}={value!r}" for name, value in step.tool_args.items())
            console.print(f"  {step.tool_name}({args})", soft_wrap=True)
        if attempt is without:
            for bullet in lesson.values():
                console.print("what was learned from other tasks:", style="bold")
                console.print(f"  {bullet.text}")
    console.print()


def _show_bullets(playbook: Playbook) -> None:
    from ace.playbook.render import render_bullet

    strategies = [b for b in playbook.bullets if b.section == "Strategies"]
    best = sorted(strategies, key=lambda b: (-b.helpful_count, b.number))[:5]
    console.print("the most helpful lessons", style="bold")
    for bullet in best:
        console.print(f"  {render_bullet(bullet)}")
