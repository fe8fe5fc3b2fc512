"""What a lesson's page shows: its plan as steps, its situations with their slots, its evidence over time, its history."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ace.core import visible as as_visible
from ace.playbook import Playbook, PlaybookBullet
from ace.playbook.plan import Situation
from ace.playbook.release import why_no_call, why_stopped
from ace.playbook.results import ReviewItem
from ace.playbook.sources import SOURCES
from ace.playbook.statistics import credible_interval, record
from ace.playbook.versions import CREDIT_FIELDS, Version

_WIDTH, _HEIGHT = 600.0, 160.0
"""Of the plot, in its own units."""
_SLOT = re.compile(r"(\{\w+\})")
MOST_RUNS = 200
_MEASURED = CREDIT_FIELDS | {"provenance", "tool_success_rate", "avg_iterations"}
_FIELDS = ("section", "domain", "tenant", "tags", "stage", "trust", "trigger", "content", "tool_sequence", "words_from")
"""What a history compares in words; a plan and its situations are what `content` and `trigger` are made of."""


class Piece(NamedTuple):
    """A part of a text: `Piece("{order_id}", marked=True)`."""

    text: str
    marked: bool


class Evidence(NamedTuple):
    """How a lesson has done over time."""

    line: str
    """The mean of the helpful rate, as an SVG path."""
    band: str
    """Its interval, as an SVG path."""
    helped: int
    harmed: int
    mean: float
    interval: tuple[float, float]
    """95 %, of the helpful rate, from a uniform prior."""
    first: float
    last: float
    """Seconds since the epoch."""


class Difference(NamedTuple):
    """One field before and after; in longer texts the words that differ are marked."""

    name: str
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]


class Event(NamedTuple):
    """One commit in a lesson's history."""

    version: Version
    what: str
    differences: tuple[Difference, ...]
    undo: int | None
    """The revision to go back to, to undo it; None where nothing was said differently."""


class LessonPage(NamedTuple):
    """All that a lesson's page shows, from `lesson_page(book, bullet)`."""

    bullet: PlaybookBullet
    steps: tuple[tuple[str, bool, bool], ...]
    """Calls of its plan: the text, whether it changes something, and whether it is done for each item."""
    situations: tuple[tuple[tuple[Piece, ...], Situation], ...]
    evidence: Evidence
    sources: tuple[tuple[str, str, str], ...]
    """Part, source, what that source may do."""
    runs: tuple[tuple[str, float, str], ...]
    """Runs that were shown it, the newest first: id, time, how it ended."""
    events: tuple[Event, ...]
    """The newest first; credit alone is left to the evidence."""
    gone: bool = False
    """Whether it was removed, or merged into another."""
    waiting: ReviewItem | None = None
    released: bool = False
    """Whether agents may run its plan as one call."""
    why_no_call: str = ""
    """Why nobody can release its plan."""


def lesson_page(book: Playbook, bullet_id: str, visible: Callable[[PlaybookBullet], bool]) -> LessonPage | None:
    """Return what the page of a lesson shows, also of one that is gone: `lesson_page(book, "b-1", may_see).steps`.

    Args:
        book: The playbook.
        bullet_id: The lesson.
        visible: Whether the reader may see a version; what was before the last hidden one is hidden, too.

    Returns:
        None where there is nothing that the reader may see.

    Raises:
        PlaybookError: There never was such a lesson.
    """
    versions = book.history.versions(bullet_id)
    hidden = [n for n, version in enumerate(versions) if version.bullet is not None and not visible(version.bullet)]
    versions = versions[hidden[-1] + 1 if hidden else 0 :]
    bullet = next((version.bullet for version in reversed(versions) if version.bullet is not None), None)
    if bullet is None:
        return None
    waits = bullet.stage == "quarantined" and versions[-1].bullet is not None
    return LessonPage(
        gone=versions[-1].bullet is None,
        waiting=next((i for i in book.review.pending() if i.bullet.id == bullet.id), None) if waits else None,
        released=book.review.is_released(bullet) and not why_stopped(bullet),
        why_no_call=why_no_call(bullet),
        bullet=bullet,
        steps=_steps(bullet),
        situations=tuple((pieces(situation.template), situation) for situation in bullet.situations),
        evidence=_evidence(versions),
        sources=tuple(
            (part.part, f"{part.source}{f' of {part.tool}' if part.tool else ''}", SOURCES[part.source])
            for part in bullet.sources
        ),
        runs=tuple(_runs(versions))[:MOST_RUNS],
        events=tuple(reversed(list(events(versions)))),
    )


def pieces(template: str) -> tuple[Piece, ...]:
    """Split a situation into its words and its slots: `pieces("Refund {order_id}")[1].marked`."""
    return tuple(Piece(as_visible(part), _SLOT.fullmatch(part) is not None) for part in _SLOT.split(template) if part)


def events(versions: Sequence[Version]) -> Iterable[Event]:
    """Yield the commits that changed what a lesson says, oldest first: `events(book.history.versions("b-1"))`."""
    before: Version | None = None
    for version in versions:
        old = before.bullet if before is not None else None
        if version.bullet is None:
            back = before.revision if before is not None and not version.into else None
            yield Event(version, f"merged into {version.into}" if version.into else "removed", (), back)
        elif old is None:
            yield Event(version, "added" if before is None else "brought back", (), None)
        elif said := set(version.fields) - _MEASURED:
            changed = tuple(_difference(n, getattr(old, n), getattr(version.bullet, n)) for n in _FIELDS if n in said)
            assert before is not None
            yield Event(version, "changed", changed, before.revision)
        elif "provenance" in version.fields:
            yield Event(version, "taught again", (), None)
        before = version


def _steps(bullet: PlaybookBullet) -> tuple[tuple[str, bool, bool], ...]:
    if bullet.plan is None:
        return tuple((as_visible(name), name in bullet.changing_tools, False) for name in bullet.tool_sequence)
    return tuple(
        (as_visible(bullet.plan.call_text(call, call.times == "each")), call.changes, call.times == "each")
        for call in bullet.plan.calls
    )


def _evidence(versions: Sequence[Version]) -> Evidence:
    known = [(v.at, record(v.bullet)) for v in versions if v.bullet is not None]
    start, (end, last) = known[0][0], known[-1]
    places = [_WIDTH * (at - start) / (end - start) if end > start else 0.0 for at, _ in known]
    drawn = [(x, of.mean, credible_interval(of)) for x, (_, of) in zip(places, known, strict=True)]
    drawn.append((_WIDTH, last.mean, credible_interval(last)))
    there = [(x, high) for x, _, (_, high) in drawn]
    back = [(x, low) for x, _, (low, _) in reversed(drawn)]
    return Evidence(
        line=f"M{_points((x, mean) for x, mean, _ in drawn)}",
        band=f"M{_points([*there, *back])} Z",
        helped=int(last.successes),
        harmed=int(last.failures),
        mean=last.mean,
        interval=credible_interval(last),
        first=start,
        last=end,
    )


def _points(rates: Iterable[tuple[float, float]]) -> str:
    """Write rates at places of the plot as the points of an SVG path."""
    return " L".join(f"{x:.1f},{(1 - rate) * _HEIGHT:.1f}" for x, rate in rates)


def _runs(versions: Sequence[Version]) -> Iterable[tuple[str, float, str]]:
    for before, version in zip(reversed(versions[:-1]), reversed(versions[1:]), strict=True):
        if version.bullet is not None and before.bullet is not None:
            helped = version.bullet.helpful_count > before.bullet.helpful_count
            harmed = version.bullet.harmful_count > before.bullet.harmful_count
            said = "helped" if helped else "harmed" if harmed else "counted for the experiment"
            yield from ((as_visible(run), version.at, said) for run in version.runs)


def _difference(name: str, old: Any, new: Any) -> Difference:
    before, after = _shown(old), _shown(new)
    if len(before.split()) < 4 or len(after.split()) < 4:
        return Difference(name, (Piece(before or "none", True),), (Piece(after or "none", True),))
    words, others = before.split(), after.split()
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        sides[0].append(Piece(" ".join(words[i1:i2]), kind != "equal"))
        sides[1].append(Piece(" ".join(others[j1:j2]), kind != "equal"))
    return Difference(name, *(tuple(piece for piece in side if piece.text) for side in sides))


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " → ".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return "" if value is None else as_visible(str(value))
