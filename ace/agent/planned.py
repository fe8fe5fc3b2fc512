"""A plan that a run follows: the model chose it and filled its slots, and the machine makes its calls, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import BaseModel

from ace.agent.states import RequestedTool
from ace.tasks import ReasoningStep
from ace.tools import Tool


class PlanEnd(BaseModel, frozen=True, extra="forbid"):
    """How a plan ended: `PlanEnd()` where all its calls were made, `PlanEnd(at=1, why="pay failed")` where one was not."""

    at: int | None = None
    """The call of the plan that was not made, or did not succeed, from 0; None where that is not the plan's doing."""
    why: str = ""
    """In words that the model reads."""

    @property
    def finished(self) -> bool:
        """Whether all calls were made."""
        return not self.why


class TakenPlan(BaseModel, frozen=True, extra="forbid"):
    """A plan that a run has taken: `TakenPlan(args={"customer": "Ana"}, first=0)`."""

    args: dict[str, Any]
    """What the model filled its slots with."""
    first: int
    """Steps of the run before its first call."""
    end: PlanEnd | None = None
    """None while it is followed."""


class PlannedCalls(Protocol):
    """A plan that a run is offered as one tool."""

    bullet_id: str
    """The lesson that it belongs to."""
    tool: Tool
    """Takes what fills the slots; it is never called itself."""

    def slots_of(self, args: Any) -> Any:
        """Return a call's arguments without those in which the model repeats what the plan itself says."""
        ...

    def after(self, args: Mapping[str, Any], made: Sequence[ReasoningStep]) -> RequestedTool | PlanEnd:
        """Return the call that comes after those that were made, or how the plan ended."""
        ...
