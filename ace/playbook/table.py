"""The bullets that a process holds: parsed on first access, and grouped by all that a filter may read."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from pydantic import ValidationError

from ace.core import PlaybookError
from ace.playbook.bullet import FilterKey, PlaybookBullet
from ace.playbook.filters import Filters
from ace.playbook.store import Row


@contextmanager
def collector_paused() -> Generator[None]:
    """Pause the collector: reading a large book makes no garbage, and it would look through all of it again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class _Group(NamedTuple):
    """The bullets that a filter cannot tell apart, but for the tasks that they rest on."""

    key: FilterKey
    numbers: set[int]


class BulletTable(Mapping[int, PlaybookBullet]):
    """Bullets by number, in the order of their numbers.

    Examples:
        >>> table = BulletTable([])
        >>> table.put(PlaybookBullet(id="b-3", section="Pitfalls", content="x", domain="shop"))
        >>> table.allowing(Filters(), "shop", None)(3), table.allowing(Filters(), "bank", None)(3)
        (True, False)
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._held: dict[int, PlaybookBullet | str] = {}
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[int, _Group] = {}
        self._by_shape: dict[str, set[int]] = {}
        for row in rows:
            self._hold(row.number, row.bullet, row.filter_key, row.shape)

    def __getitem__(self, number: int) -> PlaybookBullet:
        held = self._held[number]
        if isinstance(held, str):
            try:
                held = self._held[number] = PlaybookBullet.model_validate_json(held)
            except ValidationError as error:
                raise PlaybookError(
                    f"b-{number} cannot be read: its row is damaged; `ace playbook verify` shows more"
                ) from error
        return held

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._held))  # a rollback brings lower numbers back

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, number: object) -> bool:
        return number in self._held

    def put(self, bullet: PlaybookBullet) -> None:
        """Add a bullet, or replace the one with its number."""
        self.remove(bullet.number)
        self._hold(bullet.number, bullet, bullet.filter_key, bullet.shape)

    def remove(self, number: int) -> None:
        """Forget a bullet; an unknown number is fine."""
        if number in self._held:
            self._by_shape.get(self[number].shape, set[int]()).discard(number)
            self._group_of.pop(number).numbers.discard(number)
            del self._held[number]

    def _hold(self, number: int, held: PlaybookBullet | str, filter_key: str, shape: str) -> None:
        group = self._groups.get(filter_key)
        if group is None:
            try:
                group = self._groups[filter_key] = _Group(FilterKey.parse(filter_key), set())
            except ValueError as error:
                raise PlaybookError(
                    f"a filter key that cannot be read: {filter_key[:60]!r}; `ace playbook verify` shows more"
                ) from error
        self._held[number], self._group_of[number] = held, group
        group.numbers.add(number)
        if shape:
            self._by_shape.setdefault(shape, set()).add(number)

    # -- what may be shown -------------------------------------------------------------------------------------------

    def key(self, number: int) -> FilterKey:
        """Return what a filter reads of a bullet."""
        return self._group_of[number].key

    def planned(self, shape: str, section: str, domain: str | None, tenant: str | None) -> list[PlaybookBullet]:
        """Return the lessons of one scope that have this shape, without retired ones."""
        keys = {number: self.key(number) for number in sorted(self._by_shape.get(shape, ()))}
        scope = (section, domain, tenant)
        return [self[n] for n, k in keys.items() if k.stage != "retired" and (k.section, k.domain, k.tenant) == scope]

    def why_excluded(self, number: int, filters: Filters, domain: str | None, tenant: str | None) -> str:
        """Say why a bullet may not be shown; empty when it may."""
        if filters.guard(self[number].provenance):
            return "it rests on a task that is left out"
        return filters.why_excluded(self.key(number), domain, tenant)

    def allowing(self, filters: Filters, domain: str | None, tenant: str | None) -> Callable[[int], bool]:
        """Return a function that tells by its number whether a bullet may be shown; many share an answer."""
        answers: dict[FilterKey, bool] = {}

        def allow(number: int) -> bool:
            key = self.key(number)
            if key not in answers:
                answers[key] = not filters.why_excluded(key, domain, tenant)
            return answers[key] and not (filters.guarded and filters.guard(self[number].provenance))

        return allow

    def pinned(self, filters: Filters, domain: str | None, tenant: str | None) -> list[int]:
        """Return the numbers of the pinned bullets that may be shown, whatever is asked."""
        groups = [group for group in self._groups.values() if group.key.stage == "pinned"]
        return sorted(filter(self.allowing(filters, domain, tenant), (n for group in groups for n in group.numbers)))

    def changed_tools(self, tools: Mapping[str, str], domain: str | None, tenant: str | None) -> list[int]:
        """Return the numbers of the bullets that nothing but a changed signature of one of these tools hides."""
        return sorted(
            number
            for key, numbers in self._groups.values()
            if any(tools.get(name, digest) != digest for name, digest in key.hashes)
            and all(name in tools for name in key.tools)
            and not Filters().why_excluded(key, domain, tenant)
            for number in numbers
        )
