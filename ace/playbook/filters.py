"""Which bullets may come at all: by section, stage, tags, tools, scope, and the guards of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from ace.core import PlaybookError
from ace.playbook.bullet import SHOWN_STAGES, FilterKey, Provenance, Section, Stage

ANY_VERSION = "*"
"""In place of a schema hash, where only the names of an agent's tools are known."""


@dataclass(frozen=True)
class Filters:
    """What may come at all; a dict of the same names does, too.

    Examples:
        >>> Filters(sections=("Strategies",), exclude_tasks=("t-1",)).guarded
        True
        >>> Filters.of({"has_tool_sequence": True, "domain": "shop"}).domain
        'shop'
    """

    sections: tuple[Section, ...] | None = None
    tags: tuple[str, ...] = ()
    """A bullet must have all of them."""
    tools: Mapping[str, str] | None = None
    """Tool name to schema hash: bullets of other tools, or of other versions of these, do not come."""
    exclude_tasks: tuple[str, ...] = ()
    """Leave-one-task-out guard: no bullet that rests on one of these tasks."""
    exclude_groups: tuple[str, ...] = ()
    """Leave-one-family-out guard."""
    stages: tuple[Stage, ...] = SHOWN_STAGES
    """Stages in a bullet's life that may be shown."""
    domain: str | None = None
    """Bullets of this domain, or of none; where the request names its own domain, that holds as well."""
    has_tool_sequence: bool | None = None
    """Only bullets that recommend calls, or record them (True), or only those that do not (False)."""

    @classmethod
    def of(cls, given: Filters | Mapping[str, Any] | None) -> Filters:
        """Return filters as they were given, made of a dict, or that let everything shown come.

        Raises:
            PlaybookError: The dict has a name that is no filter.
        """
        if isinstance(given, Filters):
            return given
        names = [field.name for field in fields(cls)]
        if unknown := sorted(set(given or {}) - set(names)):
            raise PlaybookError(f"there is no filter {', '.join(map(repr, unknown))}; there are {', '.join(names)}")
        return cls(**(given or {}))

    def __post_init__(self) -> None:
        # a bare "t-1" would be split into letters and guard nothing, without a word
        for name in ("sections", "tags", "exclude_tasks", "exclude_groups", "stages"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))

    @property
    def guarded(self) -> bool:
        """Whether an evaluation guard is on."""
        return bool(self.exclude_tasks or self.exclude_groups)

    def guard(self, provenance: Provenance) -> bool:
        """Check whether an evaluation guard leaves out what rests on this."""
        by_task = not set(self.exclude_tasks).isdisjoint(provenance.task_ids)
        return by_task or not set(self.exclude_groups).isdisjoint(provenance.groups)

    @cached_property
    def cache_key(self) -> tuple[object, ...]:
        """Hashable form of everything."""
        tools = None if self.tools is None else tuple(sorted(self.tools.items()))
        return (tools, *(getattr(self, field.name) for field in fields(self) if field.name != "tools"))

    def why_excluded(self, filter_key: FilterKey, domain: str | None, tenant: str | None) -> str:
        """Say why bullets with this filter key may not be shown; empty when they may."""
        if filter_key.stage not in self.stages:
            return f"it is {filter_key.stage}"
        if filter_key.tenant not in (None, tenant):
            return "it belongs to another tenant"
        if any(name is not None and filter_key.domain not in (None, name) for name in (domain, self.domain)):
            return f"it belongs to the domain {filter_key.domain!r}"
        if self.has_tool_sequence not in (None, bool(filter_key.tools)):
            return "it names no calls" if self.has_tool_sequence else "it names calls"
        if self.sections is not None and filter_key.section not in self.sections:
            return f"its section is {filter_key.section}"
        if not set(self.tags) <= set(filter_key.tags):
            return "it lacks a tag"
        return "" if self.tools is None else tools_mismatch(filter_key, self.tools)


def tools_mismatch(filter_key: FilterKey, tools: Mapping[str, str]) -> str:
    """Say why a bullet does not fit these tools (name to schema hash); empty when it does.

    Examples:
        >>> from ace.playbook.bullet import PlaybookBullet
        >>> bullet = PlaybookBullet(section="Pitfalls", content="x", tool_schema_hashes={"refund": "old"})
        >>> tools_mismatch(FilterKey.parse(bullet.filter_key), {"refund": "new"})
        "the tool 'refund' has changed"
    """
    for name in filter_key.tools:
        if name not in tools:
            return f"the tool {name!r} is not there"
    for name, digest in filter_key.hashes:
        if name not in tools:
            return f"the tool {name!r} is not there"
        if tools[name] not in (digest, ANY_VERSION):
            return f"the tool {name!r} has changed"
    return ""
