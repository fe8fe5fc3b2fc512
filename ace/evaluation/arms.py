"""The memory an agent gets in each arm: none, the playbook, the reference solution, random bullets, or its full history."""

from __future__ import annotations

import random
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from ace.core import PlaybookError, SuiteError
from ace.evaluation.memories import FixedBullets
from ace.evaluation.models import names_model
from ace.playbook import DEFAULT_K, Filters, Playbook, PlaybookBullet
from ace.playbook.database import check_there
from ace.suites.protocol import Suite, SuiteTask, changing

Arm = Literal["none", "playbook", "online", "gold", "random", "full-history", "program"]
ARMS: tuple[Arm, ...] = get_args(Arm)
"""The arms that are built in."""
LEARNING: tuple[Arm, ...] = ("online", "full-history")
"""These learn from each run before the next, and run their tasks one after another, in an order drawn from the seed."""
FIXED: tuple[Arm, ...] = ("none", "playbook", "gold", "random")
"""These show the same whatever was run before, and need no program."""


def gold_bullet(suite: Suite, task: SuiteTask) -> PlaybookBullet:
    """Make the recipe of a task's reference solution: the ceiling of what a playbook can deliver."""
    return PlaybookBullet(
        id="b-0",
        section="Strategies",
        trigger=" ".join(task.task.text.split()),
        content="This is how it is done.",
        tool_sequence=tuple(call.name for call in task.gold),
        changing_tools=changing(suite, task),
    )


def arm_source(
    arm: str,
    suite: Suite,
    task: SuiteTask,
    playbook: Playbook | None,
    *,
    seed: int = 0,
    unseen: bool = False,
    program: bool = False,
):
    """Return what the agent's `playbook` is in an arm, for one task.

    Args:
        arm: One of `ARMS` that does not learn.
        suite: The suite.
        task: The task; its own lessons are never shown in the playbook arm.
        playbook: Needed by `playbook` and `random`.
        seed: Of the random draw.
        unseen: Whether the lessons of the task's whole family are left out too.
        program: Whether the agents come from a program, which may bring a playbook of its own.

    Returns:
        None for what the agent brings itself.

    Raises:
        SuiteError: There is no such arm, or it needs a playbook or a program.
    """
    if arm not in ARMS:
        raise SuiteError(f"no arm {arm!r}; there are {', '.join(ARMS)}")
    if arm in LEARNING:
        raise SuiteError(f"the arm {arm!r} has a memory of its own for each seed; use ace.evaluation.evaluate")
    if arm == "none":
        return FixedBullets([]) if program else None
    if arm == "program":
        if not program:
            raise SuiteError("the arm 'program' needs a folder of `ace optimize` (--program FOLDER)")
        return None
    if arm == "gold":
        if not task.gold and not any(some.gold for some in suite.tasks):
            raise SuiteError(f"the arm 'gold' shows reference solutions, and no task of {suite.name!r} has one")
        return FixedBullets([gold_bullet(suite, task)])
    if playbook is None:
        raise SuiteError(f"the arm {arm!r} needs a playbook (--playbook FILE)")
    if arm == "playbook":
        groups = (task.group,) if unseen else ()
        return playbook.view(Filters(exclude_tasks=(task.id,), exclude_groups=groups))
    bullets = [b for b in playbook.bullets if not unseen or task.group not in b.provenance.groups]
    drawn = random.Random(f"{seed}|{task.id}").sample(bullets, min(DEFAULT_K, len(bullets)))
    return FixedBullets(drawn)


@dataclass
class Arms:
    """What `--arms` names."""

    names: list[str] = field(default_factory=list[str])
    books: dict[str, tuple[str, int | None]] = field(default_factory=dict[str, tuple[str, int | None]])
    """Of arms like ``old=office.db@40``: where the playbook is, and at which revision."""
    models: dict[str, str] = field(default_factory=dict[str, str])
    """Of arms like ``big=lm:openai/gpt-5``."""


def arms_of(text: str) -> Arms:
    """Parse the words of `--arms`.

    Raises:
        SuiteError: One of them is no arm, or comes twice.
    """
    found = Arms()
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, given, path = word.partition("=")
        if given and not name:
            raise SuiteError(f"arms {text!r}: {word!r} has no name before its =")
        if given and names_model(path):
            found.models[name] = path.removeprefix("lm:")
        elif given:
            file, _, revision = path.rpartition("@") if path.rpartition("@")[2].isdigit() else (path, "", "")
            found.books[name] = (file, int(revision) if revision else None)
        elif name not in ARMS:
            raise SuiteError(
                f"arms {text!r}: expected some of {', '.join(ARMS)}, NAME=PLAYBOOK.db or NAME=lm:MODEL, and commas "
                "between"
            )
        if name in found.names:
            raise SuiteError(f"arms {text!r} names {name!r} twice")
        found.names.append(name)
    if not found.names or (set(found.books) | set(found.models)) & set(ARMS):
        raise SuiteError(f"arms {text!r}: expected arms, separated by commas; NAME=... needs a name of its own")
    return found


def open_revision(where: str, stack: ExitStack, revision: int | None = None) -> Playbook:
    """Open a playbook that is there; of an earlier revision, a copy that was rolled back."""
    check_there(where)
    if revision is None:
        return stack.enter_context(Playbook.open(where))
    if "://" in where:
        raise PlaybookError(f"an earlier revision of {where!r} needs a copy in a file; see `ace playbook export`")
    path = Path(where)
    copy = Path(stack.enter_context(TemporaryDirectory())) / path.name
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
    book = stack.enter_context(Playbook.open(copy))
    book.history.rollback(revision)
    return book
