"""Which plans an agent may run by itself: those that a person released, and those that their own runs have proved."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

from ace.playbook.bullet import SHOWN_STAGES, PlaybookBullet
from ace.playbook.plan import Call, Constant, FromAnswer, Plan
from ace.playbook.sources import Source
from ace.playbook.statistics import Record, effect

PlanMode = Literal["off", "approved", "proven"]
"""Whether an agent is offered a lesson's plan as one tool: never; where a person released it; where runs proved it, too."""
OWN_RUNS = 8
"""Runs with a lesson, left to chance, from which its effect may prove its plan."""
MAX_STOPS = 3
"""Runs in which a plan stopped at the same call, after which it is no longer offered."""
_UNTRUSTED: tuple[Source, ...] = ("text", "import")


def release_of(plan: Plan, book_id: str | None) -> str:
    """Return what the release of a plan is stored as: it holds for these very calls, and in this book alone.

    Examples:
        >>> release_of(Plan(calls=(Call(tool="f"),)), "a") == release_of(Plan(calls=(Call(tool="g"),)), "a")
        False
    """
    return hashlib.sha256(f"{book_id} {plan.canonical}".encode("utf-8", "replace")).hexdigest()[:16]


def is_released(bullet: PlaybookBullet, book_id: str | None) -> bool:
    """Return whether a person released the plan of a bullet, as it is now, in the book of this id.

    Examples:
        >>> is_released(PlaybookBullet(section="Pitfalls", content="Ask first."), "a")
        False
    """
    # most lessons are not released, and every retrieval asks
    return bool(bullet.released) and bullet.plan is not None and bullet.released == release_of(bullet.plan, book_id)


def why_no_call(bullet: PlaybookBullet) -> str:
    """Return why a lesson's plan cannot be one call, also when a person releases it; empty when it can.

    Examples:
        >>> why_no_call(PlaybookBullet(id="b-1", section="Strategies", content="Ask first."))
        'b-1 has no plan with two calls or more'
    """
    plan = bullet.plan
    if plan is None or len(plan.calls) < 2 or bullet.section != "Strategies":
        return f"{bullet.id} has no plan with two calls or more"
    if plan.declines:
        return f"{bullet.id} declines, and makes no change"
    if bullet.stage not in SHOWN_STAGES:
        return f"{bullet.id} is {bullet.stage}, and not shown"
    if bullet.trust != "trusted" or any(part.source in _UNTRUSTED for part in bullet.sources):
        return f"{bullet.id} rests on what is not trusted"
    if "import" in bullet.words_from:
        return f"{bullet.id} comes from another book"
    loose = next((f"{c.tool}({name})" for c in plan.calls for name in c.args if not _settled(c, name)), "")
    if loose:
        return f"where {loose} of {bullet.id} comes from is not settled"
    loops = {call.loop for call in plan.calls if call.times == "each"}
    driven = {call.loop for call in plan.calls if call.loop and plan.drives(call)}
    if loops != driven:
        return f"what a loop of {bullet.id} goes over is not settled"
    unknown = next((call.tool for call in plan.calls if call.tool not in bullet.tool_schema_hashes), "")
    if unknown:
        return f"with which arguments of {unknown} {bullet.id} was learned is not known; learn it from an agent's run"
    return ""


def why_stopped(bullet: PlaybookBullet) -> str:
    """Return at which call a plan stopped so often that it is no longer offered; empty where it did not.

    Examples:
        >>> from ace.playbook.bullet import PlanRuns
        >>> runs = PlanRuns(offered=3, taken=3, stops={1: 3})
        >>> why_stopped(PlaybookBullet(id="b-1", section="Strategies", content="x", plan_runs=runs))
        'the plan of b-1 stopped 3 times at call 2'
    """
    stops = bullet.plan_runs.stops.items()
    return next(
        (f"the plan of {bullet.id} stopped {n} times at call {at + 1}" for at, n in stops if n >= MAX_STOPS), ""
    )


def why_changed(bullet: PlaybookBullet, tools: Mapping[str, str]) -> str:
    """Return which tool of a plan is not what it was, by its schema's hash; empty where all are.

    Examples:
        >>> plan = Plan(calls=(Call(tool="find"), Call(tool="pay")))
        >>> why_changed(PlaybookBullet(id="b-1", section="Strategies", content="x", plan=plan), {"find": "1", "pay": "2"})
        'b-1 was learned with another find'
    """
    calls = bullet.plan.calls if bullet.plan is not None else ()
    changed = (c.tool for c in calls if c.tool not in tools or bullet.tool_schema_hashes.get(c.tool) != tools[c.tool])
    tool = next(changed, "")
    return f"{bullet.id} was learned with another {tool}" if tool else ""


def proven(bullet: PlaybookBullet) -> bool:
    """Return whether chance has shown that a lesson helps: the interval of its effect lies above 0, over enough runs.

    Examples:
        >>> counts = {"treated_successes": 20, "control_successes": 2, "control_failures": 18}
        >>> proven(PlaybookBullet(section="Strategies", content="x", **counts))
        True
    """
    treated = Record(bullet.treated_successes, bullet.treated_failures)
    control = Record(bullet.control_successes, bullet.control_failures)
    return treated.uses >= OWN_RUNS and effect(treated, control).low > 0


def _settled(call: Call, name: str) -> bool:
    """Check whether the engine can tell where an argument comes from: of an answer, all that it came from so far are
    fields."""
    places = call.places(name) if isinstance(call.args[name], FromAnswer) else ()
    fields = all(isinstance(place, FromAnswer) and place.path and not place.unnamed for place in places)
    varies = not call.over or (call.over in call.args and not isinstance(call.args[call.over], Constant))
    return fields and varies and "[]" not in name and not isinstance(call.times, int)
