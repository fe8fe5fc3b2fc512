"""A bullet: one lesson, with where it came from and how it has done since."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, field_validator

from ace.core import clean_text

Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
"""The largest counter; every database can hold it."""
Section = Literal["Strategies", "Pitfalls", "Observations"]
Stage = Literal["shadow", "active", "pinned", "quarantined", "retired"]

SHOWN_STAGES: tuple[Stage, ...] = ("active", "pinned")
"""Only these reach a prompt."""
LIVING_STAGES: tuple[Stage, ...] = ("shadow", "active", "pinned", "quarantined")
"""All but the retired ones."""

HOLDOUT_COUNTERS = ("control_successes", "control_failures", "treated_successes", "treated_failures")
COUNTERS = ("helpful_count", "harmful_count", *HOLDOUT_COUNTERS)


def sequence_key(tools: Iterable[str]) -> tuple[str, ...]:
    """Two tool sequences are equal when they are the same multiset; no call at all is a sequence too.

    Example:
        >>> sequence_key(["b", "a", "b"]) == sequence_key(["a", "b", "b"])
        True
    """
    return tuple(sorted(tools))


class FilterKey(NamedTuple):
    """All that a filter reads of a bullet, apart from its provenance; many bullets share one.

    Example:
        >>> bullet = PlaybookBullet(section="Pitfalls", content="Never guess an id.", domain="shop")
        >>> FilterKey.parse(bullet.filter_key).domain
        'shop'
    """

    stage: Stage
    section: Section
    domain: str | None
    tenant: str | None
    tags: tuple[str, ...]
    tools: tuple[str, ...]
    hashes: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> FilterKey:
        """The key that `PlaybookBullet.filter_key` wrote."""
        stage, section, domain, tenant, tags, tools, hashes = json.loads(text)
        return cls(stage, section, domain, tenant, tuple(tags), tuple(tools), tuple((n, h) for n, h in hashes))


class Provenance(BaseModel, frozen=True, extra="forbid"):
    """What a bullet rests on: `Provenance(task_ids=("t-1",), run_ids=("r-1",))`."""

    task_ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Task families; retrieval can leave a whole one out."""
    run_ids: tuple[str, ...] = ()
    source: str = ""
    """The source: an LM's name, `simulated`, `recorded:RUN`, a person."""


class PlaybookBullet(BaseModel, frozen=True, extra="forbid"):
    """One lesson in the playbook.

    Example:
        >>> bullet = PlaybookBullet(section="Strategies", content="Look the order up first.", tool_sequence=("find",))
        >>> bullet.searched
        'Look the order up first.'
    """

    id: str = Field(default="", pattern=r"^(b-(0|[1-9][0-9]{0,8}))?$")
    """Given at commit, never used again after a removal."""
    section: Section
    trigger: str = ""
    """When it applies, in the words of a task; what retrieval compares with. Empty: `content` is compared."""
    content: str = Field(min_length=1)
    """What to do, or what to avoid."""
    domain: str | None = None
    tenant: str | None = None
    tags: tuple[str, ...] = ()
    tool_sequence: tuple[str, ...] = ()
    """The calls in order, reading ones included."""
    changing_tools: tuple[str, ...] = ()
    """The calls that change something, in order; bullets are alike when their multisets are equal."""
    tool_success_rate: float | None = Field(default=None, ge=0, le=1)
    """Share of the calls that succeeded, over the runs it rests on."""
    avg_iterations: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Mean iterations of the runs it rests on."""
    helpful_count: Count = 0
    """Runs that used it and succeeded."""
    harmful_count: Count = 0
    """Runs that used it and failed."""
    control_successes: Count = 0
    """Runs that succeeded while the holdout left it out: the comparison for its effect."""
    control_failures: Count = 0
    """Runs that failed while the holdout left it out."""
    treated_successes: Count = 0
    """Runs that succeeded where the holdout let it through, used or not."""
    treated_failures: Count = 0
    """Runs that failed where the holdout let it through, used or not."""
    credited_at: float | None = Field(default=None, allow_inf_nan=False)
    """Seconds since the epoch, the mean over its credits: how old its evidence is, which may fade."""
    stage: Stage = "active"
    tool_schema_hashes: dict[str, str] = Field(default_factory=dict)
    provenance: Provenance = Provenance()
    trust: Literal["trusted", "tainted"] = "trusted"
    """Tainted: its words came out of a tool, so that a person has to review them before a model sees them."""
    distinct_from: tuple[str, ...] = ()
    """Near bullets that a person reviewed and kept beside it; a search for duplicates skips them."""
    created_revision: int = 0
    updated_revision: int = 0

    @field_validator("trigger", "content", mode="before")
    @classmethod
    def _encodable(cls, text: Any) -> Any:
        # what cannot be encoded could not be stored, embedded or shown
        return clean_text(text) if isinstance(text, str) else text

    @cached_property
    def number(self) -> int:
        """The number in its id."""
        return int(self.id.removeprefix("b-"))

    @property
    def searched(self) -> str:
        """The text that retrieval compares with a query."""
        return self.trigger or self.content

    @cached_property
    def filter_key(self) -> str:
        """All that a filter may read, in one canonical text; many bullets share one."""
        tools = sorted(set(self.tool_sequence))
        parts = (self.stage, self.section, self.domain, self.tenant, sorted(self.tags), tools)
        return json.dumps([*parts, sorted(self.tool_schema_hashes.items())], ensure_ascii=False)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """See `sequence_key`."""
        return sequence_key(self.changing_tools)
