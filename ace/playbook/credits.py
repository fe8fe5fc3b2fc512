"""Which runs have given their credit to which bullets: what the journal says, of which the table is a copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ace.playbook.delta import Delta, Learned, Merge, Remove, Restore, Tag

_BOOK = "b-0"
"""Stands for the book itself, as `Learned.bullet_id` does: it has learned from the run."""
Credits = Mapping[str, set[str]]
"""By bullet id, the runs that have given it their credit."""


def credits_of(journal: Iterable[tuple[int, Delta]]) -> Credits:
    """Return by bullet the runs whose credit counts after a journal: `credits_of(book.history.deltas())`."""
    return _credited(list(journal), {})


def _credited(journal: Sequence[tuple[int, Delta]], earlier: dict[int, Credits]) -> Credits:
    now: dict[str, set[str]] = {}
    for _, delta in journal:
        back_to = delta.back_to if isinstance(delta, (Remove, Restore)) else None
        if back_to is not None:  # what it had learned from by then
            if back_to not in earlier:
                earlier[back_to] = _credited([pair for pair in journal if pair[0] <= back_to], earlier)
            now[_BOOK] = set(earlier[back_to].get(_BOOK, ()))
        if isinstance(delta, Restore):
            then = earlier[back_to].get(delta.bullet_id, ()) if back_to is not None else ()
            now[delta.bullet_id] = set(then if delta.credited is None else delta.credited)
        elif isinstance(delta, Remove):
            now.pop(delta.bullet_id, None)
        elif isinstance(delta, Merge):
            now.setdefault(delta.bullet_id, set()).update(*(now.pop(other, set()) for other in delta.absorbed))
        elif isinstance(delta, (Learned, Tag)) and delta.run_id:
            now.setdefault(delta.bullet_id, set()).add(delta.run_id)
    return now
