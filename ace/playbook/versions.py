"""One bullet through time: what it was after each commit, and the way back to one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from pydantic import BaseModel

from ace.core import PlaybookError
from ace.playbook.bullet import COUNTERS, PlaybookBullet
from ace.playbook.delta import Add, Delta, Merge, Restore, Tag, Update, apply
from ace.playbook.store import Entry

CREDIT_FIELDS = frozenset((*COUNTERS, "plan_runs"))
"""Counters: they change often, so that a diff shows them in one line."""
BOOKKEEPING = frozenset({"updated_revision", "created_revision"})
_EVIDENCE = CREDIT_FIELDS | {"provenance", "tool_success_rate", "avg_iterations"}
"""What runs have shown: it stays when words are taken back."""


class Version(BaseModel, frozen=True):
    """A bullet after one commit that changed it, from `book.history.versions("b-1")`."""

    revision: int
    at: float
    """When, in seconds since the epoch."""
    author: str
    bullet: PlaybookBullet | None
    """None where it went."""
    fields: tuple[str, ...] = ()
    """What differs from the version before; of a bullet that came or went, nothing."""
    reasons: tuple[str, ...] = ()
    into: str = ""
    """The bullet that took its place, where it was merged away."""
    runs: tuple[str, ...] = ()
    """The runs that gave credit here."""


def differing(old: PlaybookBullet | None, new: PlaybookBullet | None) -> set[str]:
    """Name the fields that differ between two states of one bullet: `differing(before, after)`."""
    if old is None or new is None:
        return set()
    return {name for name in PlaybookBullet.model_fields if getattr(old, name) != getattr(new, name)}


def concerning(entries: Sequence[Entry], bullet_id: str) -> list[Entry]:
    """Find the entries about a bullet, and about those that it absorbed: `concerning(entries, "b-1")`. Others are not
    read."""
    family, new = {bullet_id}, [bullet_id]
    while new:
        name = new.pop()
        for entry in entries:
            if entry.subject == name and isinstance(entry.delta, Merge):
                new += set(entry.delta.absorbed) - family
                family.update(entry.delta.absorbed)
    return [e for e in entries if e.subject in family or is_about(e, bullet_id)]


def is_about(entry: Entry, bullet_id: str) -> bool:
    """Check whether an entry changes a bullet, or merges it away; most others are not read for that."""
    return entry.subject == bullet_id or (f'"{bullet_id}"' in entry.text and bullet_id in _absorbed(entry.delta))


def versions_of(entries: Sequence[Entry], bullet_id: str) -> list[Version]:
    """Return what a bullet was after each commit that changed it, oldest first: `versions_of(entries, "b-1")`.

    Raises:
        PlaybookError: There never was such a bullet.
    """
    family: dict[str, PlaybookBullet] = {}
    found: list[Version] = []
    for revision, group in groupby(concerning(entries, bullet_id), key=lambda entry: entry.revision):
        commit, before = list(group), family.get(bullet_id)
        for entry in commit:
            _follow(family, entry.delta, revision)
        after = family.get(bullet_id)
        mine = [e.delta for e in commit if is_about(e, bullet_id)]
        if mine:
            found.append(
                Version(
                    revision=revision,
                    at=commit[0].created_at,
                    author=commit[0].author,
                    bullet=after,
                    fields=tuple(sorted(differing(before, after) - BOOKKEEPING)),
                    reasons=tuple(dict.fromkeys(delta.reason for delta in mine if delta.reason)),
                    into=next((d.bullet_id for d in mine if isinstance(d, Merge) and d.bullet_id != bullet_id), ""),
                    runs=tuple(delta.run_id for delta in mine if isinstance(delta, Tag) and delta.run_id),
                )
            )
    if not found:
        raise PlaybookError(f"there never was a lesson {bullet_id!r}")
    return found


def tenants_of(entries: Iterable[Entry], bullet_ids: Collection[str]) -> dict[str, list[tuple[int, str | None]]]:
    """Say whose some bullets have been, by id: each revision that said so, with the tenant. `tenants_of(entries,
    {"b-1"})`."""
    found: dict[str, list[tuple[int, str | None]]] = {}
    for entry in entries:
        if entry.subject in bullet_ids:
            delta, known = entry.delta, found.setdefault(entry.subject, [])
            if isinstance(delta, (Add, Restore)):
                known.append((entry.revision, delta.bullet.tenant))
            elif isinstance(delta, Update) and "tenant" in delta.changes:
                known.append((entry.revision, delta.changes["tenant"]))
    return found


def way_back(versions: Sequence[Version], revision: int, reason: str, credited: tuple[str, ...] = ()) -> list[Delta]:
    """Make the deltas that make a bullet say what it said at a revision: `way_back(versions, 3, "as it was")`.

    Args:
        versions: Of the bullet.
        revision: One at which it was there.
        reason: For the journal.
        credited: The runs that had given it their credit when it went.

    Raises:
        PlaybookError: It was not there at that revision, or has been merged into another bullet.
    """
    then = next((version.bullet for version in reversed(versions) if version.revision <= revision), None)
    if then is None:
        raise PlaybookError(f"the bullet was not there at revision {revision}")
    if versions[-1].into:
        raise PlaybookError(
            f"{then.id} was merged into {versions[-1].into}, which has its evidence; roll the playbook back instead "
            "(`ace playbook undo`)"
        )
    last = next(version.bullet for version in reversed(versions) if version.bullet is not None)
    deltas: list[Delta] = (
        [Restore(bullet=last, credited=credited, reason=reason)] if versions[-1].bullet is None else []
    )
    if names := differing(last, then) - BOOKKEEPING - _EVIDENCE:
        changes = then.model_dump(mode="json", include=names)
        deltas.append(Update(bullet_id=then.id, changes=changes, reason=reason))
    return deltas


def _follow(family: dict[str, PlaybookBullet], delta: Delta, revision: int) -> None:
    """Apply a delta to a bullet and those that it absorbed; of the others only what they took away is known."""
    if isinstance(delta, (Add, Restore)) or delta.bullet_id in family:
        apply(family, delta, revision)
    for gone in _absorbed(delta):
        family.pop(gone, None)


def _absorbed(delta: Delta) -> tuple[str, ...]:
    return delta.absorbed if isinstance(delta, Merge) else ()
