"""What happened to a book: differences between revisions, the way back, and whether all of it is still true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from ace.playbook.bullet import COUNTERS, PlaybookBullet
from ace.playbook.chain import START, link
from ace.playbook.delta import Add, Delta, Merge, Remove, Restore, Tag, apply
from ace.playbook.store import Credits, Entry, Row

Bullets = Mapping[str, PlaybookBullet]
CREDIT_FIELDS = frozenset({*COUNTERS, "credited_at"})
"""Counters: they change all the time, and a reader of a diff wants them in one line."""
_BOOKKEEPING = frozenset({"updated_revision", "created_revision"})


class Change(BaseModel):
    """What happened to one bullet between two revisions."""

    model_config = ConfigDict(frozen=True)

    bullet_id: str
    kind: Literal["added", "removed", "merged", "changed", "credited"]
    before: PlaybookBullet | None = None
    after: PlaybookBullet | None = None
    fields: tuple[str, ...] = ()
    """The fields that differ, without counters and revisions; for `credited` the counters."""
    into: str = ""
    """For `merged`: the bullet that took its place."""
    reasons: tuple[str, ...] = ()
    """Why, as the deltas say, oldest first."""
    authors: tuple[str, ...] = ()


class Diff(BaseModel):
    """Everything that differs between two revisions, in id order."""

    model_config = ConfigDict(frozen=True)

    a: int
    b: int
    changes: tuple[Change, ...]

    def of(self, kind: str) -> list[Change]:
        """The changes of one kind."""
        return [change for change in self.changes if change.kind == kind]


class VerifyReport(BaseModel):
    """Whether the journal is whole and the table is its fold."""

    model_config = ConfigDict(frozen=True)

    revision: int
    entries: int
    bullets: int
    problems: tuple[str, ...]
    """In words; empty when all is well."""

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def state_at(entries: Iterable[Entry], revision: int | None = None) -> dict[str, PlaybookBullet]:
    """The fold of a journal up to a revision."""
    bullets: dict[str, PlaybookBullet] = {}
    for entry in entries:
        if revision is not None and entry.revision > revision:
            break
        for bullet_id, bullet in apply(bullets, entry.delta, entry.revision).items():
            if bullet is None:
                bullets.pop(bullet_id, None)
            else:
                bullets[bullet_id] = bullet
    return bullets


def diff(entries: Sequence[Entry], a: int, b: int) -> Diff:
    """What differs between revision `a` and revision `b`; with a > b, what going back would do."""
    before, after = state_at(entries, a), state_at(entries, b)
    between = [entry for entry in entries if min(a, b) < entry.revision <= max(a, b)]
    said: dict[str, tuple[list[str], list[str]]] = {}
    merged: dict[str, str] = {}
    for entry in between:
        delta = entry.delta
        ids = (delta.bullet.id,) if isinstance(delta, Add) else (delta.bullet_id, *getattr(delta, "absorbed", ()))
        for bullet_id in ids:
            reasons, authors = said.setdefault(bullet_id, ([], []))
            if delta.reason and delta.reason not in reasons and not isinstance(delta, Tag):
                reasons.append(delta.reason)
            if entry.author and entry.author not in authors:
                authors.append(entry.author)
        if isinstance(delta, Merge):
            merged |= dict.fromkeys(delta.absorbed, delta.bullet_id)
        elif isinstance(delta, Restore):
            merged.pop(delta.bullet_id, None)
    changes: list[Change] = []
    for bullet_id in sorted(before.keys() | after.keys(), key=lambda i: int(i.removeprefix("b-"))):
        old, new = before.get(bullet_id), after.get(bullet_id)
        if old == new or (old and new and _differing(old, new) <= _BOOKKEEPING):
            continue
        reasons, authors = said.get(bullet_id, ([], []))
        fields = tuple(sorted(_differing(old, new) - _BOOKKEEPING - CREDIT_FIELDS)) if old and new else ()
        kind: Literal["added", "removed", "merged", "changed", "credited"] = "changed"
        if old is None:
            kind = "added"
        elif new is None:
            kind = "merged" if a < b and bullet_id in merged else "removed"
        elif not fields:
            kind, fields = "credited", tuple(sorted(_differing(old, new) & CREDIT_FIELDS))
        into = merged.get(bullet_id, "") if kind == "merged" else ""
        changes.append(
            Change(
                bullet_id=bullet_id,
                kind=kind,
                before=old,
                after=new,
                fields=fields,
                into=into,
                reasons=tuple(reasons),
                authors=tuple(authors),
            )
        )
    return Diff(a=a, b=b, changes=tuple(changes))


def _differing(old: PlaybookBullet | None, new: PlaybookBullet | None) -> set[str]:
    if old is None or new is None:
        return set()
    return {name for name in PlaybookBullet.model_fields if getattr(old, name) != getattr(new, name)}


def way_back(now: Bullets, then: Bullets, revision: int) -> list[Delta]:
    """The deltas that make the book what it was, byte for byte; the journal only grows."""
    reason = f"back to revision {revision}"
    gone: list[Delta] = [Remove(bullet_id=i, reason=reason) for i in now if i not in then]
    back: list[Delta] = [Restore(bullet=bullet, reason=reason) for i, bullet in then.items() if now.get(i) != bullet]
    return [*gone, *back]


class _Given(NamedTuple):
    """What runs have credited a bullet: shared with the bullet's earlier states, of which a rollback brings one back."""

    run_id: str = ""
    before: tuple[_Given, ...] = ()


def credits(entries: Iterable[Entry]) -> set[tuple[str, int]]:
    """Which run's credit counts for which bullet's number, after a journal."""
    now, then = dict[str, _Given](), dict[tuple[str, int], _Given]()
    for entry in entries:
        delta = entry.delta
        if isinstance(delta, Restore):  # byte for byte, so that the bullet says when it was like this
            now[delta.bullet_id] = then.get((delta.bullet_id, delta.bullet.updated_revision), _Given())
        elif isinstance(delta, Remove):
            now.pop(delta.bullet_id, None)
        elif isinstance(delta, Merge) and delta.absorbed:
            absorbed = [now.pop(other) for other in delta.absorbed if other in now]
            now[delta.bullet_id] = _Given(before=(now.get(delta.bullet_id, _Given()), *absorbed))
        elif isinstance(delta, Tag) and delta.run_id:
            now[delta.bullet_id] = _Given(delta.run_id, (now.get(delta.bullet_id, _Given()),))
        bullet_id = delta.bullet.id if isinstance(delta, Add) else delta.bullet_id
        then[bullet_id, entry.revision] = now.get(bullet_id, _Given())
    return {(run, int(bullet_id.removeprefix("b-"))) for bullet_id, given in now.items() for run in _runs(given)}


def _runs(given: _Given) -> set[str]:
    found, left = set[str](), [given]
    while left:
        one = left.pop()
        found.add(one.run_id)
        left += one.before
    return found - {""}


def verify(entries: Sequence[Entry], rows: Sequence[Row], next_number: int, credited: Credits) -> VerifyReport:
    """Recompute checksums, fold and credits, and compare with what is stored."""
    problems = [*_broken_links(entries), *_gaps(entries)]
    unreadable = [f"the entry {e.revision}.{e.position} cannot be read" for e in entries if not _readable(e)]
    problems += unreadable
    if not unreadable:
        problems += [*_unlike(entries, rows), *_wrong_numbers(entries, next_number)]
        there = {row.number for row in rows}
        if {pair for pair in credited if pair[1] in there} != {pair for pair in credits(entries) if pair[1] in there}:
            problems.append("which runs have given their credit differs from what the journal says")
    return VerifyReport(
        revision=entries[-1].revision if entries else 0,
        entries=len(entries),
        bullets=len(rows),
        problems=tuple(problems),
    )


def _readable(entry: Entry) -> bool:
    try:
        return bool(entry.delta)
    except ValueError:
        return False


def _unlike(entries: Sequence[Entry], rows: Sequence[Row]) -> Iterator[str]:
    """Where the table is not the fold of the journal."""
    try:
        folded = state_at(entries)
    except ValueError as error:
        yield f"the journal cannot be folded: {error}"
        return
    stored = {row.number: row for row in rows}
    for bullet_id, bullet in folded.items():
        row = stored.pop(int(bullet_id.removeprefix("b-")), None)
        if row is None:
            yield f"{bullet_id} is missing from the table"
        elif row.bullet != bullet.model_dump_json():
            yield f"{bullet_id} differs from what the journal says"
        elif row.facets != bullet.facets:
            yield f"{bullet_id} has facets that are not its own"
    yield from (f"b-{number} is in the table, but not in the journal" for number in stored)


def _wrong_numbers(entries: Sequence[Entry], next_number: int) -> Iterator[str]:
    """Ids that came twice, and a counter that does not follow the last one."""
    numbers = [entry.delta.bullet.number for entry in entries if isinstance(entry.delta, Add)]
    for number in (number for number, times in Counter(numbers).items() if times > 1):
        yield f"b-{number} was given twice"
    expected = max(numbers, default=0) + 1
    if next_number < expected:
        yield f"the next bullet would be b-{next_number}, which was given before"
    elif next_number > expected:
        yield f"b-{next_number - 1} was given, but the journal does not know it: its end is missing"


def _broken_links(entries: Sequence[Entry]) -> list[str]:
    previous, problems = START, list[str]()
    for entry in entries:
        expected = link(previous, entry.revision, entry.position, entry.text, entry.author, entry.created_at)
        if expected != entry.checksum:
            problems.append(f"the entry {entry.revision}.{entry.position} was changed after it was written")
        previous = entry.checksum
    return problems


def _gaps(entries: Sequence[Entry]) -> list[str]:
    expected, position, problems = 0, -1, list[str]()
    for entry in entries:
        if (entry.revision, entry.position) not in ((expected, position + 1), (expected + 1, 0)):
            problems.append(f"after entry {expected}.{position} comes {entry.revision}.{entry.position}")
        expected, position = entry.revision, entry.position
    return problems


def as_dicts(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """One entry per delta: revision, kind, author, time, and the delta's own fields."""
    return [
        {
            "revision": entry.revision,
            "author": entry.author,
            "created_at": entry.created_at,
            **entry.delta.model_dump(mode="json"),
        }
        for entry in entries
    ]
