"""The first page: how a book is doing, as one person sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, get_args

from ace.core import visible
from ace.playbook import Playbook, Section, Stage
from ace.playbook.history import Verdict
from ace.playbook.statistics import Record, credible_interval
from ace.serve.inspector.access import Access
from ace.serve.people import Person

MOST_KINDS = 12
"""Families and kinds of tasks on the page; the others are one more."""
POINTS = 12
"""Parts that the runs of a family are drawn in, each as long as the next."""
WIDTH, HEIGHT = 240.0, 40.0
"""Of a small plot, in its own units."""
SHADES = 4
OTHERS = "others"


class Course(NamedTuple):
    """How the runs of a family went: `Course.of("refunds", [False, True, True]).right` is 2."""

    name: str
    right: int
    runs: int
    low: float
    high: float
    """The 95 % interval of the share that was right, from a uniform prior."""
    line: str
    """That share over the runs, oldest first, as an SVG path."""
    ends: tuple[str, str]
    """Of the first and the last part of them, in words."""

    @classmethod
    def of(cls, name: str, verdicts: Sequence[bool]) -> Course:
        """Make the course of verdicts, the oldest first; there is at least one."""
        count = min(POINTS, len(verdicts))
        cuts = [len(verdicts) * n // count for n in range(count + 1)]
        parts = [verdicts[a:b] for a, b in pairwise(cuts)]
        heights = [HEIGHT * (1 - sum(part) / len(part)) for part in parts]
        places = [WIDTH * n / max(1, count - 1) for n in range(count)]
        if count == 1:
            places, heights = [0.0, WIDTH], heights * 2
        line = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in zip(places, heights, strict=True))
        right = sum(verdicts)
        low, high = credible_interval(Record(right, len(verdicts) - right))
        first, last = (f"{sum(part)} of {len(part)}" for part in (parts[0], parts[-1]))
        return cls(name, right, len(verdicts), low, high, line, (first, last))


def overview(book: Playbook, access: Access, person: Person) -> dict[str, object]:
    """Return all that the first page shows of how a book is doing: `overview(book, Access(book),
    Person("ana"))["waiting"]`."""
    seen = list(access.seen(person))
    verdicts = [v for v in book.history.verdicts().values() if v.tenant in (None, person.tenant)]
    stages = Counter(bullet.stage for bullet in seen)
    own = {bullet.id for bullet in access.own(person)}
    outdated = book.review.outdated(access.tools(person), tenant=person.tenant)
    kinds = [((bullet.provenance.groups or (bullet.domain or "",))[0], bullet.section) for bullet in seen]
    return {
        "lessons": len(seen),
        "stages": [(stage, stages[stage]) for stage in get_args(Stage) if stages[stage]],
        "courses": _courses(verdicts),
        "kinds": _kinds(kinds),
        "waiting": sum(bullet.stage == "quarantined" and bullet.id in own for bullet in seen),
        "stopped": len(own.intersection(book.review.stopped())),
        "outdated": len(book.find(outdated)),
    }


def _courses(verdicts: Sequence[Verdict]) -> tuple[Course, ...]:
    """Make the course of all runs with a verdict, then of each family where there are several."""
    said = [(v.family, v.success) for v in sorted(verdicts, key=lambda v: v.at) if v.success is not None]
    known, by_family = _named(Counter(family for family, _ in said)), dict[str, list[bool]]()
    for family, success in said:
        by_family.setdefault(known.get(family, OTHERS), []).append(success)
    names = [name for name in dict.fromkeys([*known.values(), OTHERS]) if name in by_family]
    courses = [("all runs", [success for _, success in said]), *((name, by_family[name]) for name in names)]
    return tuple(Course.of(*course) for course in courses[: 1 if len(names) == 1 else None] if course[1])


def _kinds(found: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """Return for each kind its sections, how many lessons each has and its shade, from 0 for none to `SHADES`.

    Args:
        found: Of each lesson the kind of task and the section.
    """
    known = _named(Counter(kind for kind, _ in found))
    cells = Counter((known.get(kind, OTHERS), section) for kind, section in found)
    most = max(cells.values(), default=1)
    return [
        (name, [(s, cells[name, s], -(-SHADES * cells[name, s] // most)) for s in get_args(Section)])
        for name in dict.fromkeys([*known.values(), OTHERS])
        if any(cells[name, s] for s in get_args(Section))
    ]


def _named(count: Counter[str]) -> dict[str, str]:
    """Return the most frequent ones, with the names that a page shows."""
    return {name: visible(name) or "not named" for name, _ in count.most_common(MOST_KINDS)}
