"""Credit: the evidence of a run about the bullets it was shown.

Four levels, from weak to strong: *injected* (it was in the prompt), *cited* (the model named it), *followed* (the calls
that were made are the bullet's), *randomized* (an experiment decided whether it was shown). Being shown earns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from ace.playbook import PlaybookBullet, Tag
from ace.playbook.bullet import PlanRuns
from ace.reflector.reflector import OUTAGES
from ace.tasks import Feedback, ReasoningStep, TaskOutput

FOLLOWED = 0.8
"""A run followed a bullet when their changing calls are aligned at least this well."""

Level = Literal["injected", "cited", "followed"]


def level(bullet: PlaybookBullet, output: TaskOutput) -> Level:
    """Say how strongly a run used a bullet that it was shown.

    A Pitfall is never followed: it is a warning.

    Examples:
        >>> from ace.tasks import TaskInput
        >>> output = TaskOutput(task_id="t", run_id="r", task=TaskInput(inputs={}), termination_reason="completed")
        >>> level(PlaybookBullet(id="b-1", section="Strategies", content="Finish at once."), output)
        'followed'
    """
    if bullet.section == "Strategies" and alignment(bullet, output.structured_trace) >= FOLLOWED:
        return "followed"
    return "cited" if bullet.id in output.cited_bullets else "injected"


def alignment(bullet: PlaybookBullet, steps: Sequence[ReasoningStep]) -> float:
    """Measure how well a run's changing calls fit a bullet's: 1.0 where it teaches them, else by common subsequence.

    Twice its length over the sum of both lengths (Sørensen-Dice), so that missing and extra calls count alike. A bullet
    without changing calls fits a run that changed nothing.
    """
    done = [step.tool_name for step in steps if step.executed and step.changes_state]
    if not done and not bullet.changing_tools and bullet.tool_sequence:  # then the reads are all there is
        read = [step.tool_name for step in steps if step.executed]
        return 2 * _common(bullet.tool_sequence, read) / (len(bullet.tool_sequence) + len(read)) if read else 0.0
    if bullet.teaches(done):
        return 1.0
    total = len(done) + len(bullet.changing_tools)
    return 2 * _common(bullet.changing_tools, done) / total


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], diagonal + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


def credit(
    output: TaskOutput, feedback: Feedback, find: Callable[[Iterable[str]], Mapping[str, PlaybookBullet]]
) -> list[Tag]:
    """Make one tag for each bullet that a run used, or that an experiment was about; none for a run that an outage ended.

    Args:
        output: The run.
        feedback: Whether it succeeded.
        find: Gives the book's bullets by their ids; what is not there gets no credit.
    """
    if output.termination_reason in OUTAGES:
        return []
    plan_of, plan_runs = _plan_runs(output)
    control = set(output.metadata.get("held_back_at_random_bullets", ()))
    treated = set(output.metadata.get("randomized_bullets", ()))
    tags: list[Tag] = []
    for bullet_id, bullet in find(dict.fromkeys((*output.injected_bullets, *sorted(control)))).items():
        used = "injected" if bullet_id in control else level(bullet, output)
        arm: Literal["none", "treated", "control"] = "none"
        if bullet_id in control or bullet_id in treated:
            arm = "control" if bullet_id in control else "treated"
        if used == "injected" and arm == "none" and bullet_id != plan_of:
            continue
        counts = used != "injected"
        tags.append(
            Tag(
                bullet_id=bullet_id,
                helpful=int(counts and feedback.success),
                harmful=int(counts and not feedback.success),
                arm=arm,
                success=None if arm == "none" else feedback.success,
                plan_runs=plan_runs if bullet_id == plan_of else PlanRuns(),
                run_id=output.run_id,
                reason=used if counts else "offered" if arm == "none" else arm,
            )
        )
    return tags


def _plan_runs(output: TaskOutput) -> tuple[str, PlanRuns]:
    """Return the lesson whose plan the run was offered as one call, and what became of it."""
    told: Mapping[str, Any] = output.metadata.get("plan") or {}
    end: Mapping[str, Any] = told.get("end") or {}
    finished = bool(end) and not end.get("why")
    stops = {end["at"]: 1} if end.get("at") is not None else {}
    return str(told.get("bullet", "")), PlanRuns(
        offered=bool(told), taken=bool(told.get("taken")), finished=finished, stops=stops
    )
