"""A study: an evaluation in a folder that survives interruptions, with playbooks that it learns itself where it has none."""
# pyright: basic

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ace.agent import Policy
from ace.core import SuiteError
from ace.core.folders import claimed, digest, replace_text, same_job
from ace.evaluation.attempts import AgentPool
from ace.evaluation.log import RunLog
from ace.evaluation.suite import Suite, SuiteTask
from ace.learner import Learner
from ace.playbook import Playbook
from ace.playbook.engine import schema_url
from ace.reflector import Reflector
from ace.tools.changes import describe_tools

CONFIG, RUNS, REPORT, STORE = "config.json", "runs.jsonl", "report.json", "store"
LUCK = 1_000
"""Learning draws other luck than the runs that are compared: seed 0 learns with 1,000, 1,001 and so on."""


def parts_of(suite: Suite, tasks: Sequence[SuiteTask], policy: Policy, books: Mapping[str, Playbook]) -> dict[str, str]:
    """Digests of what decides an evaluation's results, besides what was asked for."""
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


@contextmanager
def study(folder: Path, config: Mapping[str, Any], parts: Mapping[str, str], *, anew: bool) -> Generator[RunLog]:
    """Hold a folder for one evaluation; what an interrupted one left there is gone on with.

    Args:
        folder: Made when it is not there.
        config: What was asked for.
        parts: See `parts_of`.
        anew: Whether a finished evaluation makes room for another; it is kept beside it, once, as ``FOLDER.previous``.

    Raises:
        AceError: It is in use, or holds another evaluation.
    """
    if anew and (folder / REPORT).exists():
        previous = folder.with_name(f"{folder.name}.previous")
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
    with claimed(folder):
        same_job(folder / CONFIG, config, parts)
        with RunLog(folder / RUNS) as log:
            yield log


def study_book(folder: Path, name: str, store: str = "", *, anew: bool = False, embedder: Any = None) -> Playbook:
    """A playbook of a study: a file in its folder, or a schema of a PostgreSQL server that other machines reach too.

    Args:
        folder: Of the study.
        name: Within the study.
        store: ``postgresql://...``; empty for a file.
        anew: Whether what is there already is dropped.

    Raises:
        PlaybookError: The store cannot be reached.
    """
    if not store:
        path = folder / f"{name}.db"
        if anew:
            path.unlink(missing_ok=True)
        return Playbook.open(path)
    known = folder / STORE  # which schemas are this study's: its folder may be moved, and another take its place
    if not known.exists():
        replace_text(known, f"ace_{uuid.uuid4().hex[:12]}")
    schema = f"{known.read_text(encoding='utf-8')}_{name}".replace("-", "_")
    return Playbook.open(schema_url(store, schema, anew=anew))


@contextmanager
def learned_playbooks(
    folder: Path,
    suite: Suite,
    tasks: Sequence[SuiteTask],
    lm_for: Callable[[int], Any],
    *,
    policy: Policy,
    seeds: Sequence[int],
    epochs: int,
    source: str,
    on_run: Callable[[], None] = lambda: None,
    store: str = "",
) -> Generator[dict[int, Playbook]]:
    """A playbook for each seed, learned on some tasks, each run at most `epochs` times until it is solved.

    They lie in the folder as ``playbook-SEED.db``, or in the store; after an interruption, learning goes on where it was.
    """
    with ExitStack() as stack:
        books: dict[int, Playbook] = {}
        for seed in seeds:
            state = folder / f"playbook-{seed}.learned.jsonl"
            if not store and state.exists() and not (folder / f"playbook-{seed}.db").exists():
                raise SuiteError(
                    f"{str(state)!r} says what was learned, but the playbook beside it is gone; restore it, or remove both"
                )
            book = books[seed] = stack.enter_context(study_book(folder, f"playbook-{seed}", store))
            pool = AgentPool(suite, policy)

            def agent_for(episode: Any, seed: int = seed, book: Playbook = book, pool: AgentPool = pool) -> Any:
                return pool.agent(episode, lm_for(LUCK * (seed + 1) + episode.attempt), book)

            with Learner(book, agent_for, reflector=Reflector(source), state=state, author="ace evaluate") as learner:
                learner.fit(
                    [partial(suite.episode, task) for task in tasks],
                    epochs=epochs,
                    skip_solved=True,
                    name=f"seed {seed}",
                    on_run=lambda *_: on_run(),
                )
        yield books
