"""What an agent is given to remember: nothing, the playbook, the right answer's recipe, random recipes, or its own past."""

from __future__ import annotations

import random
from typing import Literal, get_args

from ace.core import SuiteError
from ace.evaluation.memories import FixedBullets
from ace.evaluation.suite import Suite, SuiteTask, changing
from ace.playbook import Filters, Playbook, PlaybookBullet
from ace.playbook._retrieving import DEFAULT_K

Arm = Literal["none", "playbook", "online", "gold", "random", "full-history"]
ARMS: tuple[Arm, ...] = get_args(Arm)
LEARNING: tuple[Arm, ...] = ("online", "full-history")
"""These learn from each run before the next, and run their tasks one after another, in an order drawn from the seed."""
FIXED: tuple[Arm, ...] = tuple(arm for arm in ARMS if arm not in LEARNING)
"""These show the same whatever was run before."""


def gold_bullet(suite: Suite, task: SuiteTask) -> PlaybookBullet:
    """The recipe of a task's reference solution: the ceiling of what a playbook can deliver."""
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
):
    """What the agent's `playbook` is in an arm, for one task.

    Args:
        arm: One of `ARMS` that does not learn.
        suite: The suite.
        task: The task; its own lessons are never shown in the playbook arm.
        playbook: Needed by `playbook` and `random`.
        seed: Of the random draw.
        unseen: Whether the lessons of the task's whole family are left out too.

    Raises:
        SuiteError: There is no such arm, or it needs a playbook.
    """
    if arm not in ARMS:
        raise SuiteError(f"no arm {arm!r}; there are {', '.join(ARMS)}")
    if arm in LEARNING:
        raise SuiteError(f"the arm {arm!r} has a memory of its own for each seed; use ace.evaluation.evaluate")
    if arm == "none":
        return None
    if arm == "gold":
        if not task.gold and not any(some.gold for some in suite.tasks):
            raise SuiteError(f"the arm 'gold' shows reference solutions, and no task of {suite.name!r} has one")
        return FixedBullets([gold_bullet(suite, task)])
    if playbook is None:
        raise SuiteError(f"the arm {arm!r} needs a playbook; pass --playbook FILE")
    if arm == "playbook":
        groups = (task.group,) if unseen else ()
        return playbook.guarded(Filters(exclude_tasks=(task.id,), exclude_groups=groups))
    bullets = [b for b in playbook.bullets if not unseen or task.group not in b.provenance.groups]
    drawn = random.Random(f"{seed}|{task.id}").sample(bullets, min(DEFAULT_K, len(bullets)))
    return FixedBullets(drawn)
