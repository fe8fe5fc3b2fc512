"""Detects loops: the same call with the same result, repeatedly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from pydantic import Field, model_validator

from ace.agent.settings import PolicySettings
from ace.core import value_to_text
from ace.tasks import ReasoningStep


class NoProgress(PolicySettings, frozen=True):
    """When a repeated call counts as a loop: `Policy(no_progress=NoProgress(note_after=2, stop_after=4))`."""

    note_after: int = Field(default=3, ge=2)
    """From this many equal calls with equal results on, the observation carries a note."""
    stop_after: int | None = Field(default=6, ge=2)
    """After this many, the model is asked for its answer; None never."""

    @model_validator(mode="after")
    def _ordered(self) -> NoProgress:
        if self.stop_after is not None and self.stop_after < self.note_after:
            raise ValueError(
                f"stop_after={self.stop_after} is below note_after={self.note_after}; the note has to come before the stop"
            )
        return self


class RepeatDetector:
    """Counts how often the same call was made with the same result while nothing else changed anything.

    A different call of a tool that changes something, and that succeeded, is progress: the counts start again.

    Examples:
        >>> step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="peek", outcome="success", observation="no")
        >>> repeats = RepeatDetector()
        >>> repeats.add(step), repeats.add(step)
        (1, 2)
    """

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts: dict[str, int] = dict(counts or {})
        """By a digest of call and result; plain JSON, to be stored with the run."""

    def add(self, step: ReasoningStep) -> int:
        """How often this call has now been made with this result."""
        args = json.dumps(step.tool_args, sort_keys=True, default=value_to_text)
        whole = "\x1f".join((step.tool_name, args, step.outcome, step.observation))
        key = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]
        count = self.counts.get(key, 0) + 1
        if step.changes_state and step.outcome == "success":
            self.counts.clear()
        self.counts[key] = count
        return count
