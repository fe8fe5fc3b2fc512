"""Find loops: the same call with the same result, again and again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from ace.agent.settings import PolicySettings
from ace.core import value_to_text
from ace.tasks import ReasoningStep


class NoProgress(PolicySettings, frozen=True):
    """When a repeated call counts as a loop: `Policy(no_progress=NoProgress(note_after=2, stop_after=4))`.

    A tool that is meant to be called again and again with the same result (it presses a key) needs higher numbers.
    """

    note_after: int = Field(default=3, ge=2)
    """The call that would be this one with the same result, nothing having changed in between, is not made: the observation
    repeats the result in short and says that it is known."""
    stop_after: int | None = Field(default=4, ge=2)
    """After this many, the model is asked for its answer; None never."""

    @model_validator(mode="after")
    def _ordered(self) -> NoProgress:
        if self.stop_after is not None and self.stop_after < self.note_after:
            raise ValueError(
                f"stop_after={self.stop_after} is below note_after={self.note_after}; the note has to come before the stop"
            )
        return self


class RepeatDetector:
    """Counts how often the same call was made in a row with the same result while nothing else changed anything.

    A different call of a tool that changes something, and that succeeded, is progress: the counts start again. So does the
    count of a call whose result is another one now.

    Examples:
        >>> step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="peek", outcome="success", observation="no",
        ...                      executed=True)
        >>> repeats = RepeatDetector()
        >>> repeats.add(step), repeats.add(step), repeats.times("peek", {})
        (1, 2, 2)
    """

    def __init__(self, seen: dict[str, tuple[int, str]] | None = None) -> None:
        self.seen = {} if seen is None else seen
        """By a digest of the call: how often, and a digest of the result; plain JSON, kept with the run."""

    def times(self, name: str, args: Mapping[str, Any]) -> int:
        """Count how often this call was made with the result that it has now."""
        return self.seen.get(_call(name, args), (0, ""))[0]

    def add(self, step: ReasoningStep) -> int:
        """Count how often this call has now been made with this result; one that was not made again has the result of
        before."""
        call, result = _call(step.tool_name, step.tool_args), _digest(step.outcome, step.observation)
        times, before = self.seen.get(call, (0, ""))
        if step.executed:
            times = times if result == before else 0
            if step.changes_state and step.outcome == "success":
                self.seen.clear()
        else:
            result = before
        self.seen[call] = (times + 1, result)
        return times + 1


def _call(name: str, args: Mapping[str, Any]) -> str:
    return _digest(name, json.dumps(args, sort_keys=True, default=value_to_text))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()[:16]
