"""`Insight`: a lesson between the reflector that found it and the curator that compares it with the playbook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, Field

from ace.playbook.bullet import PlaybookBullet, Provenance, Section, readable
from ace.playbook.plan import Plan, Situation, digest_of, fill_of
from ace.playbook.sources import Source

RECORD = "Did not work:"
"""How the record of a failed run begins."""
DIFFERENCE = "The difference:"
"""How the comparison of a failed run with one that succeeded begins."""


MAX_VALUES = 10_000
"""Values that a process remembers of the runs that it has learned from."""


class HeardValues:
    """What the runs of this process were asked and wrote, by hash: a book holds none of it before enough tasks share it.

    A verdict that changes later may make enough of them share it, long after the run.

    Examples:
        >>> HeardValues().texts
        {}
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.written: dict[str, Any] = {}

    def note(self, insights: Iterable[Insight]) -> None:
        """Keep what a run was asked and wrote; what was heard too long ago goes."""
        for insight in insights:
            self.texts |= {digest_of(text): text for text in insight.values.values()}
            self.written |= insight.plan.constants() if insight.plan is not None else {}
        for kept in (self.texts, self.written):
            while len(kept) > MAX_VALUES:
                kept.pop(next(iter(kept)))

    def clear(self) -> None:
        """Forget it: something was purged."""
        self.texts.clear()
        self.written.clear()


class Insight(BaseModel, frozen=True, extra="forbid"):
    """A lesson that has not yet been compared with the playbook."""

    section: Section
    trigger: str
    """Empty for a lesson that holds wherever its tools are used."""
    content: str
    plan: Plan | None = None
    """What the run did, for a lesson that was mined."""
    situation: Situation | None = None
    """The request of the run with slots in place of what was its own."""
    values: dict[str, str] = Field(default_factory=dict, exclude=True)
    """What filled the slots; it is written nowhere."""
    filled: str = ""
    """A hash of it."""
    domain: str | None = None
    tenant: str | None = None
    tool_sequence: tuple[str, ...] = ()
    changing_tools: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Tools that it names without recommending calls; when one of them changes, the lesson is outdated."""
    tool_success_rate: float | None = None
    iterations: int = 0
    steps: tuple[int, ...] = ()
    """The steps of the run's trace that it rests on, from 1."""
    words_from: tuple[Source, ...] = ()
    """Who gave its words, where it has no plan."""
    held: str = ""
    """Why it waits for a person, with the words that made it wait; empty when it may be shown."""
    after: tuple[str, ...] = ()
    """See `PlaybookBullet.after`."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """Of the judge of the run, where that is known; a metric or a person is certain."""
    provenance: Provenance = Provenance()

    @property
    def fill(self) -> str:
        """A hash of what filled the slots."""
        return self.filled or fill_of(self.values)

    @property
    def stored(self) -> Insight:
        """The lesson as a journal keeps it: what only one run wrote is a hash."""
        plan = self.plan.stored if self.plan is not None else None
        return self.model_copy(update={"plan": plan, "values": {}, "filled": self.fill})

    def as_bullet(self, schema_hashes: dict[str, str]) -> PlaybookBullet:
        """Make the bullet that this lesson would become: its fields of the same names, but a plan with its situation
        only."""
        named = (*self.tool_sequence, *self.tools)
        shared = (PlaybookBullet.model_fields.keys() & Insight.model_fields.keys()) - {"plan"}
        fields: dict[str, Any] = {name: getattr(self, name) for name in shared}
        if self.situation is not None:
            fields |= readable(self.plan.stored if self.plan is not None else None, [self.situation])
        return PlaybookBullet(
            **fields,
            avg_iterations=float(self.iterations),
            tool_schema_hashes={name: schema_hashes[name] for name in named if name in schema_hashes},
            trust="tainted" if self.held else "trusted",
        )

    @property
    def shape(self) -> str:
        """As `PlaybookBullet.shape`: lessons of one scope with another shape are not the same."""
        if self.plan is not None:
            return self.plan.shape
        return digest_of(self.content) if self.situation is not None else ""

    @property
    def evidence(self) -> str:
        """The run and steps that it rests on, in words for the journal.

        Examples:
            >>> of = Provenance(run_ids=("r1",))
            >>> Insight(section="Pitfalls", trigger="", content="x", steps=(2, 5), provenance=of).evidence
            'run r1, steps 2 and 5'
        """
        runs = ", ".join(self.provenance.run_ids) or "no run"
        if not self.steps:
            return f"run {runs}"
        *first, last = map(str, self.steps)
        return f"run {runs}, steps {', '.join(first)} and {last}" if first else f"run {runs}, step {last}"
