"""The bullets that a process holds: parsed on first access, filtered all at once."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ace.core import PlaybookError
from ace.playbook.bullet import FilterKey, PlaybookBullet
from ace.playbook.filters import Filters
from ace.playbook.ranking import Scored
from ace.playbook.store import Row

Mask = NDArray[np.bool_]


@contextmanager
def collector_paused() -> Generator[None]:
    """Reading a large book makes no garbage, and the collector would look through all of it again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class BulletTable(Mapping[int, PlaybookBullet]):
    """Bullets by number, in the order of their numbers.

    A filter is asked once per distinct filter key, not once per bullet; the answer is looked up for all of them
    in one step, which keeps a filtered search over 100,000 bullets as fast as an unfiltered one.

    Examples:
        >>> table = BulletTable([])
        >>> table.put(PlaybookBullet(id="b-3", section="Pitfalls", content="x", domain="shop"))
        >>> table.allowed(Filters(), "shop", None).tolist(), table.allowed(Filters(), "bank", None).tolist()
        ([False, False, False, True], [False, False, False, False])
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._held: dict[int, PlaybookBullet | str] = {}
        self._codes = np.full(0, -1, dtype=np.int32)
        """By number: which filter key it has; -1 where there is no bullet."""
        self._size = 0
        self._code_of: dict[str, int] = {}
        self._filter_keys: list[FilterKey] = []
        self._answers: dict[object, Mask] = {}
        self._by_task: dict[str, set[int]] | None = None
        self._by_group: dict[str, set[int]] = {}
        self._by_shape: dict[str, set[int]] = {}
        self._shape_of: dict[int, str] = {}
        codes: list[tuple[int, int]] = []
        for row in rows:
            self._held[row.number] = row.bullet
            self._note_shape(row.number, row.shape)
            codes.append((row.number, self._code(row.filter_key)))
        if codes:
            numbers, values = zip(*codes, strict=True)
            self._reserve(max(numbers))
            self._codes[np.asarray(numbers)] = values

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
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, number: object) -> bool:
        return number in self._held

    def put(self, bullet: PlaybookBullet) -> None:
        """Add a bullet, or replace the one with its number."""
        number = bullet.number
        self.remove(number, keep_order=True)
        behind = number not in self._held and self._held and number < next(reversed(self._held))
        self._held[number] = bullet
        if behind:  # a rollback brought it back
            self._held = dict(sorted(self._held.items()))
        self._reserve(number)
        self._codes[number] = self._code(bullet.filter_key)
        self._note_shape(number, bullet.shape)
        if self._by_task is not None:
            self._note(number, bullet)

    def remove(self, number: int, keep_order: bool = False) -> None:
        """Forget a bullet; an unknown number is fine."""
        if number not in self._held:
            return
        if self._by_task is not None:
            provenance = self[number].provenance
            for task in provenance.task_ids:
                self._by_task[task].discard(number)
            for group in provenance.groups:
                self._by_group[group].discard(number)
        self._codes[number] = -1
        self._by_shape.get(self._shape_of.pop(number, ""), set[int]()).discard(number)
        if not keep_order:
            del self._held[number]

    def planned(self, shape: str, section: str, domain: str | None, tenant: str | None) -> list[PlaybookBullet]:
        """The lessons of one scope that have this shape, without retired ones."""
        found: list[PlaybookBullet] = []
        for number in sorted(self._by_shape.get(shape, ())):
            key = self._filter_keys[int(self._codes[number])]
            if key.stage != "retired" and (key.section, key.domain, key.tenant) == (section, domain, tenant):
                found.append(self[number])
        return found

    def _note_shape(self, number: int, shape: str) -> None:
        if shape:
            self._shape_of[number] = shape
            self._by_shape.setdefault(shape, set()).add(number)

    def why_excluded(self, number: int, filters: Filters, domain: str | None, tenant: str | None) -> str:
        """Why a bullet may not be shown, in words; empty when it may."""
        if filters.guarded and number in self._guarded_out(filters):
            return "it rests on a task that is left out"
        return filters.why_excluded(self._filter_keys[int(self._codes[number])], domain, tenant)

    def still(
        self, candidates: Iterable[Scored], filters: Filters, domain: str | None, tenant: str | None
    ) -> list[Scored]:
        """Those of some candidates that are there, and may be shown, now."""
        answers = self._answered(filters, domain, tenant)
        out = self._guarded_out(filters) if filters.guarded else ()
        return [
            c for c in candidates if c.number in self._held and answers[self._codes[c.number]] and c.number not in out
        ]

    def allowed(self, filters: Filters, domain: str | None, tenant: str | None) -> Mask:
        """By number, whether a bullet may be shown; shape (highest number + 1,)."""
        answers = self._answered(filters, domain, tenant)
        mask = answers[self._codes[: self._size]]
        if filters.guarded:
            mask[list(self._guarded_out(filters))] = False
        return mask

    def pinned(self, filters: Filters, domain: str | None, tenant: str | None) -> list[int]:
        """Numbers of the pinned bullets that may be shown, whatever is asked."""
        if "pinned" not in filters.stages:
            return []
        wanted = replace(filters, stages=("pinned",))
        if not self._answered(wanted, domain, tenant).any():
            return []
        return np.flatnonzero(self.allowed(wanted, domain, tenant)).tolist()

    def changed_tools(self, tools: Mapping[str, str], domain: str | None, tenant: str | None) -> list[int]:
        """Numbers of the bullets that nothing but a changed signature of one of these tools hides."""
        codes = [
            code
            for code, filter_key in enumerate(self._filter_keys)
            if any(tools.get(name, digest) != digest for name, digest in filter_key.hashes)
            and all(name in tools for name in filter_key.tools)
            and Filters().allow(filter_key, domain, tenant)
        ]
        return np.flatnonzero(np.isin(self._codes[: self._size], codes)).tolist() if codes else []

    def _answered(self, filters: Filters, domain: str | None, tenant: str | None) -> Mask:
        """The filter's answer for each filter key; the last entry stands for "no bullet"."""
        key = (filters.criteria, domain, tenant)
        known = self._answers.get(key)
        if known is None or len(known) != len(self._filter_keys) + 1:
            fresh = [filters.allow(filter_key, domain, tenant) for filter_key in self._filter_keys]
            known = np.asarray([*fresh, False], dtype=bool)
            if len(self._answers) > 256:
                self._answers.clear()
            self._answers[key] = known
        return known

    def _guarded_out(self, filters: Filters) -> set[int]:
        if self._by_task is None:
            self._by_task = {}
            for number in self._held:
                self._note(number, self[number])
        found: set[int] = set()
        for task in filters.exclude_tasks:
            found |= self._by_task.get(task, set())
        for group in filters.exclude_groups:
            found |= self._by_group.get(group, set())
        return found

    def _note(self, number: int, bullet: PlaybookBullet) -> None:
        assert self._by_task is not None
        for task in bullet.provenance.task_ids:
            self._by_task.setdefault(task, set()).add(number)
        for group in bullet.provenance.groups:
            self._by_group.setdefault(group, set()).add(number)

    def _code(self, filter_key: str) -> int:
        code = self._code_of.get(filter_key)
        if code is None:
            try:
                self._filter_keys.append(FilterKey.parse(filter_key))
            except ValueError as error:
                raise PlaybookError(
                    f"a filter key that cannot be read: {filter_key[:60]!r}; `ace playbook verify` shows more"
                ) from error
            code = self._code_of[filter_key] = len(self._filter_keys) - 1
        return code

    def _reserve(self, number: int) -> None:
        if number >= len(self._codes):
            grown = np.full(max(2 * len(self._codes), number + 1, 64), -1, dtype=np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown
        self._size = max(self._size, number + 1)
