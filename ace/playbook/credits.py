"""Which runs have given their credit to which bullets: what the journal says, of which the table is a copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ace.playbook.delta import Add, Delta, Learned, Merge, Remove, Restore, Tag


class _Given(NamedTuple):
    """What runs have credited a bullet: shared with the bullet's earlier states, of which a rollback brings one back."""

    run_id: str = ""
    before: tuple[_Given, ...] = ()


_BOOK = "b-0"
"""Stands for the book itself, as `Learned.bullet_id` does."""


def credits_of(journal: Iterable[tuple[int, Delta]]) -> set[tuple[str, int]]:
    """Which run's credit counts for which bullet's number, after a journal: `credits_of(book.history.deltas())`.

    Number 0 stands for the book itself: it has learned from the run.
    """
    now, then = {_BOOK: _Given()}, dict[tuple[str, int], _Given]()
    book = [(0, now[_BOOK])]
    for revision, delta in journal:
        if isinstance(delta, (Remove, Restore)) and delta.back_to is not None:  # what it had learned from by then
            now[_BOOK] = next(given for at, given in reversed(book) if at <= delta.back_to)
        if isinstance(delta, Restore) and delta.credited is not None:
            now[delta.bullet_id] = _Given(before=tuple(map(_Given, delta.credited)))
        elif isinstance(delta, Restore):  # byte for byte, so that the bullet keeps its old revision
            now[delta.bullet_id] = then.get((delta.bullet_id, delta.bullet.updated_revision), _Given())
        elif isinstance(delta, Remove):
            now.pop(delta.bullet_id, None)
        elif isinstance(delta, Merge) and delta.absorbed:
            absorbed = [now.pop(other) for other in delta.absorbed if other in now]
            now[delta.bullet_id] = _Given(before=(now.get(delta.bullet_id, _Given()), *absorbed))
        elif isinstance(delta, (Learned, Tag)) and delta.run_id:
            now[delta.bullet_id] = _Given(delta.run_id, (now.get(delta.bullet_id, _Given()),))
        bullet_id = delta.bullet.id if isinstance(delta, Add) else delta.bullet_id
        then[bullet_id, revision] = now.get(bullet_id, _Given())
        if now[_BOOK] is not book[-1][1]:
            book.append((revision, now[_BOOK]))
    return {(run, int(bullet_id.removeprefix("b-"))) for bullet_id, given in now.items() for run in _runs(given)}


def _runs(given: _Given) -> set[str]:
    found, left = set[str](), [given]
    while left:
        one = left.pop()
        found.add(one.run_id)
        left += one.before
    return found - {""}
