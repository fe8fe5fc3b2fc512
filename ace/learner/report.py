"""The counts of what learning did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from ace.core import RunUsage
from ace.playbook.delta import Delta


@dataclass
class LearningReport:
    """What learning did: `learner.report.since(LearningReport())`."""

    runs: int = 0
    successes: int = 0
    added: int = 0
    merged: int = 0
    tagged: int = 0
    removed: int = 0
    """Bullets that left a full book."""
    refused: int = 0
    """New bullets that the gate did not let in."""
    skipped: int = 0
    """Runs that had been learned from before."""
    corrected: int = 0
    """Runs with a verdict that took the place of an earlier one."""
    unjudged: int = 0
    """Runs that a metric gave no verdict on: they teach nothing."""
    invented: int = 0
    """Bullets that a model cited and was never shown."""
    unknown: Counter[str] = field(default_factory=Counter[str])
    """Names of tools and arguments in recorded runs that the schemas do not know."""
    unread: int = 0
    """Runs whose reflection waits for a model that could not be reached."""
    postponed: int = 0
    """Runs that are kept for later, because the playbook was out of reach or learning took too long."""
    usage: RunUsage = field(default_factory=RunUsage)

    def count(self, deltas: Sequence[Delta]) -> None:
        """Add a commit."""
        for delta in deltas:
            self.added += delta.kind == "add"
            self.merged += delta.kind == "merge"
            self.tagged += delta.kind == "tag"
            self.removed += delta.kind == "remove" or (delta.kind == "merge" and bool(delta.absorbed))

    def plus(self, other: LearningReport) -> LearningReport:
        """Add both together."""
        return LearningReport(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def since(self, before: LearningReport) -> LearningReport:
        """Return what came after an earlier count."""
        numbers = {f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self) if f.name != "usage"}
        then = before.usage.model_dump()
        usage = RunUsage(**{name: value - then[name] for name, value in self.usage.model_dump().items()})
        return LearningReport(**numbers, usage=usage)
