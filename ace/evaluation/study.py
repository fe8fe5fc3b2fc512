"""`Study`: an evaluation in a folder that survives interruptions, with playbooks that it learns itself where it has none."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from ace.agent import Policy
from ace.core import SuiteError
from ace.core.durable import claimed, digest, same_job, write_atomic
from ace.evaluation.arms import Arms, arms_of, open_revision
from ace.evaluation.engines import Engine, engine_of
from ace.evaluation.episodes import AgentPool, Attempt
from ace.evaluation.hosted import ModelServer
from ace.evaluation.log import RunLog
from ace.evaluation.models import load_suite_for, with_others
from ace.evaluation.report.build import Books, build_report, quote_bullets
from ace.evaluation.report.models import EvaluateReport
from ace.evaluation.runner import Caps, Evaluation, evaluate
from ace.evaluation.schemas import schema_url
from ace.learner import Learner
from ace.playbook import Playbook
from ace.react.saved_program import check_optimized, load_optimized
from ace.reflector import Reflector
from ace.suites.protocol import Suite, SuiteTask
from ace.suites.splits import split as split_of
from ace.tools.changes import describe_tools

FOLDER = Path("ace-evaluations")
"""The default folder of studies."""
CONFIG, RUNS, REPORT, STORE = "config.json", "runs.jsonl", "report.json", "store"
TRAINING_SEED_OFFSET = 1_000
"""Training uses other random seeds than the comparison: seed 0 trains with 1,000, 1,001, ..."""


@dataclass(frozen=True)
class StudyConfig:
    """What is compared, on what, and how far.

    Examples:
        >>> StudyConfig(suite="office", lm="simulated", arms="none,playbook", seeds=5).epochs
        5
    """

    suite: str
    """As `ace.suites.load_suite` takes it."""
    lm: str = ""
    """Any DSPy model name, ``simulated[:PRESET]``, or that of an installed source; for all arms that name none."""
    arms: str = "none"
    """Comma-separated: none, playbook, online, gold, random, full-history, program, ``NAME=PLAYBOOK.db[@REVISION]``,
    ``NAME=lm:MODEL``."""
    seeds: int = 1
    """Runs per task and arm."""
    playbook: str = ""
    """Of the arms playbook and random; without one, a playbook is learned on the first part of the split."""
    epochs: int = 5
    """Where a playbook is learned: how often a task is tried."""
    unseen: bool = False
    """Whether all lessons of a task's own family are left out."""
    limit: int | None = None
    """Only the first tasks."""
    program: Path | None = None
    """A folder of `ace optimize`: its instructions and tool descriptions for all arms, its playbook for the arm program."""
    split: str = ""
    """See `ace.suites.split`."""
    part: str = ""
    """Of the split: all, first or second; the second where a playbook is learned."""
    workers: int = 1
    """Runs under way at once."""
    engine: str = "threads"
    """``threads``, ``asyncio`` or ``ray``."""
    ray_address: str = ""
    """Of the Ray cluster; a local one is started by default."""
    store: str = ""
    """A PostgreSQL server where learned playbooks lie, so that all workers read them."""
    caps: Caps = field(default_factory=Caps)
    """Where to stop."""
    out: Path | None = None
    """The folder for every run and its trace."""
    judge_lm: str = ""
    """The model that judges, where a suite's tasks have criteria."""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server."""
    cache: bool = False
    """Whether DSPy's cache may answer; see `ModelServer`."""


class StudyObserver:
    """Receives the progress of a study, `study.run(StudyObserver())`; override what is of interest."""

    def ready(self, study: Study, done: int) -> None:
        """Handle the beginning of the study; this many runs were made before an interruption."""

    def learning(self, runs: int) -> None:
        """Handle the beginning of learning, with at most this many runs."""

    def learned(self) -> None:
        """Handle one of those runs, which was made or was not needed."""

    def running(self, evaluation: Evaluation) -> None:
        """Handle the beginning of the comparison."""

    def attempt(self, attempt: Attempt) -> None:
        """Handle a run of the comparison that was made."""

    def stopping(self, under_way: int) -> None:
        """Handle Ctrl-C: no further run begins, and those under way are finished; a second one drops them."""


class Study:
    """An evaluation from what was asked for to its report.

    Every run is on disk as it comes: after Ctrl-C or a crash, a study with the same configuration goes on.

    Args:
        config: What is compared.

    Attributes:
        suite: The suite.
        arms: What `config.arms` names.
        choice: The language models.
        tasks: The tasks that are compared.
        folder: The folder of all runs with their traces; known once `run` has begun.

    Raises:
        SuiteError: The configuration contradicts itself, or names what is not there; nothing was spent.

    Examples:
        >>> report = Study(StudyConfig("office", "simulated", "none,gold", limit=4, out=getfixture("tmp_path"))).run()
        >>> [arm.n for arm in report.arms.values()], report.label
        ([4, 4], 'simulated')
    """

    def __init__(self, config: StudyConfig) -> None:
        self.config = config
        if config.engine != "ray":
            engine_of(config.engine, config.workers)
        if config.part not in ("", "all", "first", "second"):
            raise SuiteError(f"part {config.part!r}: expected all, first or second")
        if config.program is not None:
            check_optimized(config.program)
        self.arms: Arms = arms_of(config.arms)
        models = self.arms.models
        server = ModelServer(config.api_base, config.cache)
        self.suite: Suite = load_suite_for(config.suite, config.lm, config.judge_lm, server, models.values())
        self.choice = with_others(config.lm, models, self.suite, server, self.arms.names if models else ())
        self.learns = not config.playbook and bool({"playbook", "random"} & set(self.arms.names))
        if self.learns and self.choice.replays:
            raise SuiteError("recorded runs can not learn: the arms playbook and random need a playbook")
        self.part = config.part or ("second" if self.learns else "all")
        if self.learns and self.part != "second":
            raise SuiteError("a playbook is learned on the first part, compared on the second (--playbook FILE)")
        divided = self.part != "all" or config.split  # a split that is none is refused in any case
        first, second = split_of(self.suite.tasks, config.split) if divided else ([], [])
        chosen = {"all": self.suite.tasks, "first": first, "second": second}[self.part]
        self.training = [task for task in first if self.choice.knows(task)]
        self.tasks = [task for task in chosen if self.choice.knows(task)][: config.limit]
        if not self.tasks:
            raise SuiteError(f"{config.lm!r} holds none of the tasks of {config.suite!r}")
        self.folder = config.out or FOLDER

    def run(self, observer: StudyObserver | None = None) -> EvaluateReport:
        """Make the runs that are missing, and report on all of them.

        Ctrl-C begins no further run and finishes those under way; a second one drops them. The report states that it was
        interrupted.

        Args:
            observer: Receives the progress.

        Raises:
            AceError: The folder holds another evaluation, or is in use by another process.
            KeyboardInterrupt: Ctrl-C came before there was a single run.
        """
        observer = observer or StudyObserver()
        started = time.monotonic()
        with ExitStack() as stack:
            own = {name: open_revision(where, stack, at) for name, (where, at) in self.arms.books.items()}
            book = open_revision(self.config.playbook, stack) if self.config.playbook else None
            log = stack.enter_context(self._opened(own, book))
            observer.ready(self, len(log.done))
            engine = self._engine(stack)
            books: Books = self._learned(stack, observer) if self.learns else book
            evaluation = self._evaluation(own, books, log, engine, stack)
            observer.running(evaluation)
            interrupted = _run_all(evaluation, observer)
            rows = list(log.rows())
            if not rows and interrupted:
                raise KeyboardInterrupt
            if not rows:
                raise SuiteError(f"no run was made: {evaluation.stopped}")
            report = build_report(self.suite, self.choice, self.arms.names, rows, learns=self.learns)
            quote_bullets(report.bullets, books, own)
            report.interrupted = interrupted
            report.stopped = "" if interrupted else evaluation.stopped
            report.folder = str(self.folder)
            report.seconds = time.monotonic() - started
            if not interrupted and not evaluation.stopped:
                write_atomic(self.folder / REPORT, report.model_dump_json(indent=1, by_alias=True))
        return report

    def write_html(self, report: EvaluateReport, path: Path) -> None:
        """Write a report as one HTML page, with the traces of the runs that it names; after `run`.

        Raises:
            SuiteError: Jinja is missing, or another process has gone on with the folder.
        """
        from ace.evaluation.report.html import html, traces_of

        with claimed(self.folder), RunLog(self.folder / RUNS) as log:
            write_atomic(path, html(report, traces_of(report, log)))

    # -- one part after another ------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, own: Mapping[str, Playbook], book: Playbook | None) -> Generator[RunLog]:
        """Hold the study's folder; what an interrupted one left there is gone on with.

        In the default folder, a new study replaces a finished one, which is kept beside it, once, as ``FOLDER.previous``.
        """
        config = self.config
        asked = {
            "format_of_runs": 2,
            **{
                name: getattr(config, name) for name in ("suite", "lm", "judge_lm", "seeds", "split", "unseen", "limit")
            },
            "arms": self.arms.names,
            "models": self.arms.models,
            "api_base": config.api_base or "",
            "store": sha256(config.store.encode()).hexdigest()[:16] if config.store else "",  # it may hold a password
            "part": self.part,
            "program": str(config.program or ""),
            "epochs": config.epochs if self.learns else 0,
        }
        books = {**own, **({"playbook": book} if book is not None else {})}
        parts = parts_of(self.suite, self.tasks, self.choice.policy, books)
        if config.program is not None:
            files = sorted(config.program.glob("*.json"))
            parts["program"] = digest([path.read_text(encoding="utf-8") for path in files])
        folder = self.folder = config.out or FOLDER / f"{self.suite.name}-{digest([asked, parts])[:8]}"
        if config.out is None and (folder / REPORT).exists():
            previous = folder.with_name(f"{folder.name}.previous")
            shutil.rmtree(previous, ignore_errors=True)
            folder.rename(previous)
        with claimed(folder):
            same_job(folder / CONFIG, asked, parts)
            with RunLog(folder / RUNS) as log:
                yield log

    def _engine(self, stack: ExitStack) -> str | Engine:
        config = self.config
        if config.engine != "ray":
            return config.engine
        from ace.evaluation.ray import BUILD, RayCluster

        options = {"suite": config.suite, "lm": config.lm, "models": self.arms.models, "judge_lm": config.judge_lm}
        options |= {"api_base": config.api_base, "cache": config.cache, "program": str(config.program or "")}
        cluster = RayCluster(config.workers, BUILD, options, address=config.ray_address or None)
        stack.callback(cluster.close)
        return cluster

    def _learned(self, stack: ExitStack, observer: StudyObserver) -> dict[int, Playbook]:
        """Learn a playbook for each seed; after an interruption, learning goes on where it was."""
        config, choice = self.config, self.choice
        observer.learning(len(self.training) * config.epochs * config.seeds)
        books: dict[int, Playbook] = {}
        for seed in range(config.seeds):
            state = self.folder / f"playbook-{seed}.learned"
            if not config.store and state.exists() and not (self.folder / f"playbook-{seed}.db").exists():
                raise SuiteError(
                    f"{str(state)!r} lists what was learned, but the playbook beside it is gone; restore it, or remove both"
                )
            book = books[seed] = stack.enter_context(study_book(self.folder, f"playbook-{seed}", config.store))
            pool = AgentPool(self.suite, choice.policy)

            def agent_for(episode: Any, seed: int = seed, book: Playbook = book, pool: AgentPool = pool) -> Any:
                return pool.agent(episode, choice.lm_for(TRAINING_SEED_OFFSET * (seed + 1) + episode.attempt), book)

            reflector = Reflector(choice.label or choice.name)
            with Learner(book, agent_for, reflector=reflector, state=state, author="ace evaluate") as learner:
                learner.fit(
                    [partial(self.suite.episode, task) for task in self.training],
                    epochs=config.epochs,
                    skip_solved=True,
                    name=f"seed {seed}",
                    on_run=lambda episode, output, feedback: observer.learned(),
                )
        return books

    def _evaluation(
        self, own: Mapping[str, Playbook], books: Books, log: RunLog, engine: str | Engine, stack: ExitStack
    ) -> Evaluation:
        config = self.config

        def online_book(seed: int) -> Playbook:
            # learn again from the runs in the log
            return stack.enter_context(study_book(self.folder, f"online-{seed}", config.store, fresh=True))

        return evaluate(
            self.suite,
            self.choice.lm_for,
            tasks=self.tasks,
            arms=self.arms.names,
            seeds=range(config.seeds),
            policy=self.choice.policy,
            playbook=books,
            playbooks=own,
            models=self.choice.others,
            unseen=config.unseen,
            prepare=partial(load_optimized, config.program) if config.program is not None else None,
            log=log,
            engine=engine,
            workers=config.workers,
            online_book=online_book if config.store else None,
            caps=config.caps,
        )


def _run_all(evaluation: Evaluation, observer: StudyObserver) -> bool:
    """Make the runs; whether Ctrl-C ended it."""
    interrupted = False
    while True:
        try:
            for attempt in evaluation:
                observer.attempt(attempt)
            return interrupted
        except KeyboardInterrupt:
            if interrupted:  # a second one: what is under way is dropped
                evaluation.close()
                return True
            interrupted = True
            evaluation.stop("interrupted")
            if evaluation.under_way:
                observer.stopping(evaluation.under_way)


def parts_of(suite: Suite, tasks: Sequence[SuiteTask], policy: Policy, books: Mapping[str, Playbook]) -> dict[str, str]:
    """Hash what decides an evaluation's results, besides what was asked for."""
    return {
        "tasks": digest([task.model_dump(mode="json") for task in tasks]),
        "tools": digest(describe_tools(suite.episode(tasks[0]).registry)),
        "suite": str(getattr(suite, "source", "")),
        "policy": digest([policy.name, repr(policy)]),
        **{
            f"playbook of {name}": digest([b.model_dump(mode="json") for b in book.bullets])
            for name, book in books.items()
        },
    }


def study_book(folder: Path, name: str, store: str = "", *, fresh: bool = False) -> Playbook:
    """Open a playbook of a study: a file in its folder, or a schema of a PostgreSQL server that other machines reach too.

    Args:
        folder: Of the study.
        name: Within the study.
        store: ``postgresql://...``; empty for a file.
        fresh: Whether what is there already is dropped.

    Raises:
        PlaybookError: The store cannot be reached.
    """
    if not store:
        path = folder / f"{name}.db"
        if fresh:
            path.unlink(missing_ok=True)
        return Playbook.open(path)
    known = folder / STORE  # which schemas are this study's: its folder may be moved, and another take its place
    if not known.exists():
        write_atomic(known, f"ace_{uuid.uuid4().hex[:12]}")
    schema = f"{known.read_text(encoding='utf-8')}_{name}".replace("-", "_")
    return Playbook.open(schema_url(store, schema, fresh=fresh))
