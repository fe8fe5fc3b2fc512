"""A bullet: one lesson, with where it came from and how it has done since."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, field_validator

from ace.core import clean_text, truncate
from ace.playbook.plan import MAX_SITUATIONS, Plan, Situation, digest_of
from ace.playbook.sources import Part, Source, sources_of

Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
"""The largest counter; every database can hold it."""
Section = Literal["Strategies", "Pitfalls", "Observations"]
"""What kind of lesson a bullet is: what to do, what to avoid, what was seen."""
Stage = Literal["shadow", "active", "pinned", "quarantined", "retired"]
"""Whether a bullet is shown: `active` and `pinned` ones are, `shadow` ones in experiments only."""

SHOWN_STAGES: tuple[Stage, ...] = ("active", "pinned")
"""Only these reach a prompt."""

HOLDOUT_COUNTERS = ("control_successes", "control_failures", "treated_successes", "treated_failures")
COUNTERS = ("helpful_count", "harmful_count", *HOLDOUT_COUNTERS)


MAX_CONTENT = 600
"""Characters of a plan in words."""


def sequence_key(tools: Iterable[str]) -> tuple[str, ...]:
    """Return the key of a tool sequence: two are equal when they are the same multiset; no call at all is a sequence too.

    Examples:
        >>> sequence_key(["b", "a", "b"]) == sequence_key(["a", "b", "b"])
        True
    """
    return tuple(sorted(tools))


def same_calls(said: Iterable[str], made: Iterable[str], repeated: Collection[str] = ()) -> bool:
    """Return whether calls are those that a lesson says: each tool as often, a repeated one as often or more often.

    Examples:
        >>> same_calls(["find", "delete"], ["find", "delete", "delete"], repeated={"delete"})
        True
        >>> same_calls(["find", "delete"], ["find", "delete", "delete"])
        False
    """
    expected, found = Counter(said), Counter(made)
    more = {tool for tool in repeated if 0 < expected[tool] <= found[tool]}
    return all(tool in more or expected[tool] == found[tool] for tool in expected | found)


class FilterKey(NamedTuple):
    """All that a filter reads of a bullet, apart from its provenance; many bullets share one.

    Examples:
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
        """Read the key that `PlaybookBullet.filter_key` wrote."""
        stage, section, domain, tenant, tags, tools, hashes = json.loads(text)
        return cls(stage, section, domain, tenant, tuple(tags), tuple(tools), tuple((n, h) for n, h in hashes))


class Provenance(BaseModel, frozen=True, extra="forbid"):
    """What a bullet rests on: `Provenance(task_ids=("t-1",), run_ids=("r-1",))`."""

    task_ids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    """Task families; retrieval can leave a whole one out."""
    run_ids: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    """Hashes of the users whose tasks they were, where that is known."""
    source: str = ""
    """The source: an LM's name, `simulated`, `recorded:RUN`, a person."""

    @property
    def support(self) -> int:
        """Distinct tasks that it rests on; of users who are known, one each."""
        return min(len(self.task_ids), len(self.users)) if self.users else len(self.task_ids)

    def joined(self, *others: Provenance) -> Provenance:
        """Join what several bullets rest on, each task and run once: `one.provenance.joined(other.provenance)`."""
        names = ("task_ids", "groups", "run_ids", "users")
        every = {name: dict.fromkeys(item for one in (self, *others) for item in getattr(one, name)) for name in names}
        source = next((one.source for one in (self, *others) if one.source), "")
        return Provenance(**{name: tuple(found) for name, found in every.items()}, source=source)


class PlanRuns(BaseModel, frozen=True, extra="forbid"):
    """What became of a lesson's plan in the runs that could choose it as one call: `PlanRuns(offered=3, taken=1)`."""

    offered: Count = 0
    taken: Count = 0
    finished: Count = 0
    stops: dict[int, int] = Field(default_factory=dict)
    """How often it stopped at each of its calls, from 0."""

    def joined(self, *others: PlanRuns) -> PlanRuns:
        """Return the sum with others: `bullet.plan_runs.joined(other.plan_runs)`."""
        everyone = (self, *others)
        stops = sum((Counter(one.stops) for one in everyone), Counter[int]())
        sums = {name: sum(getattr(one, name) for one in everyone) for name in ("offered", "taken", "finished")}
        return PlanRuns(**sums, stops=dict(sorted(stops.items())))


class PlaybookBullet(BaseModel, frozen=True, extra="forbid"):
    """One lesson in the playbook.

    Examples:
        >>> bullet = PlaybookBullet(section="Strategies", content="Look the order up first.", tool_sequence=("find",))
        >>> bullet.searched
        'Look the order up first.'
    """

    id: str = Field(default="", pattern=r"^(b-(0|[1-9][0-9]{0,8}))?$")
    """Given at commit, never used again after a removal."""
    section: Section
    situations: tuple[Situation, ...] = Field(default=(), max_length=MAX_SITUATIONS)
    """When a mined lesson applies, best supported first: requests with slots; each is searched by itself."""
    plan: Plan | None = None
    """What a mined Strategy does; `content`, `tool_sequence` and `changing_tools` are made of it."""
    trigger: str = ""
    """When it applies, in the words of a task; of a mined lesson the best supported situation. Empty: it applies always."""
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
    plan_runs: PlanRuns = PlanRuns()
    """What became of its plan where it could be one call."""
    released: str = ""
    """Of the plan that a person released to be run as one call: see `ace.playbook.release.release_of`."""
    stage: Stage = "active"
    tool_schema_hashes: dict[str, str] = Field(default_factory=dict)
    provenance: Provenance = Provenance()
    words_from: tuple[Source, ...] = ()
    """Who gave the words of a lesson without a plan."""
    trust: Literal["trusted", "tainted"] = "trusted"
    """Tainted: it rests on what is not trusted; a person, or a clean run with the same plan, comes before it is shown."""
    after: tuple[str, ...] = ()
    """Hashes of the sentences of strangers after which its calls came unasked for, while it waits for that alone: a run of
    another task that makes them without these sentences lets it out."""
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
    def text(self) -> str:
        """The lesson in a sentence: when it holds, and what to do."""
        return f"{self.trigger}: {self.content}" if self.trigger else self.content

    def __repr__(self) -> str:
        return f"<Lesson {self.id or 'new'} ({self.section}, {self.stage}): {truncate(self.text, 120)!r}>"

    __str__ = __repr__

    def _repr_markdown_(self) -> str:
        return f"**{self.id or 'new'}** ({self.section}, {self.stage}) {self.text}"

    @property
    def searched(self) -> str:
        """The text that retrieval compares with a query; of several situations the best supported one."""
        return self.situations[0].searched if self.situations else self.trigger or self.content

    @property
    def sources(self) -> tuple[Part, ...]:
        """Where each of its parts came from.

        Examples:
            >>> PlaybookBullet(section="Pitfalls", content="Never guess an id.").sources
            (Part(part='words', source='person', tool=''),)
        """
        return sources_of(
            self.plan, self.words_from, situations=bool(self.situations), taught=bool(self.provenance.run_ids)
        )

    @property
    def plan_record(self) -> str:
        """What became of its plan where runs could choose it as one call, in words; empty where none could."""
        runs, calls = self.plan_runs, self.plan.calls if self.plan is not None else ()
        if not runs.offered:
            return ""
        stops = (f"stopped {n} times at {calls[at].tool if at < len(calls) else at}" for at, n in runs.stops.items())
        return ", ".join([f"offered {runs.offered} times", f"taken {runs.taken}", f"finished {runs.finished}", *stops])

    @cached_property
    def filter_key(self) -> str:
        """All that a filter may read, in one canonical text; many bullets share one."""
        tools = sorted(set(self.tool_sequence))
        parts = (self.stage, self.section, self.domain, self.tenant, sorted(self.tags), tools)
        return json.dumps([*parts, sorted(self.tool_schema_hashes.items())], ensure_ascii=False)

    @cached_property
    def shape(self) -> str:
        """What makes it one lesson for many requests: its plan, or a mined Pitfall's words; empty for one in free words."""
        if self.plan is not None:
            return self.plan.shape
        return digest_of(self.content) if self.situations else ""

    @cached_property
    def key(self) -> tuple[str, ...]:
        """See `sequence_key`."""
        return sequence_key(self.changing_tools)

    @cached_property
    def repeated(self) -> frozenset[str]:
        """The changing tools that its plan calls for each item of a list."""
        calls = self.plan.calls if self.plan is not None else ()
        return frozenset(call.tool for call in calls if call.changes and call.times == "each")

    def teaches(self, changing: Iterable[str]) -> bool:
        """Return whether these are its changing calls; those that its plan makes for each item may be more.

        Examples:
            >>> PlaybookBullet(section="Strategies", content="Pay.", changing_tools=("pay",)).teaches(["pay", "pay"])
            False
        """
        return same_calls(self.changing_tools, changing, self.repeated)


def readable(plan: Plan | None, situations: Sequence[Situation]) -> dict[str, Any]:
    """Return the fields of a mined lesson that are made of its data.

    Examples:
        >>> readable(Plan(), [Situation(template="Say hello")])["content"]
        'answer at once, without a call, then submit(...)'
    """
    fields: dict[str, Any] = {"situations": tuple(situations), "trigger": situations[0].shown if situations else ""}
    if plan is not None:
        counted = ((call, call.times if isinstance(call.times, int) else 1) for call in plan.calls)
        calls = [(call.tool, call.changes) for call, times in counted for _ in range(times)]
        fields |= {
            "plan": plan,
            "content": truncate(plan.text, MAX_CONTENT),
            "tool_sequence": tuple(tool for tool, _ in calls),
        }
        fields["changing_tools"] = tuple(tool for tool, changes in calls if changes)
    return fields
