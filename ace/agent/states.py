"""The states of a run, what it asks of its driver, and what the driver hands back.

``Idle -> Thinking -> (Completed | Acting) -> Observing -> Thinking ...``; from any active state ``Failed``, and by policy
``Interrupted``. Each state is its own frozen type with only its legal transitions, so that an illegal one is a type error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ace.core import AgentError, RunUsage
from ace.tasks import TerminationReason
from ace.tools import ToolCall, ToolResult


@dataclass(frozen=True)
class ModelReply:
    """What the model answered, already parsed. Its content is not yet checked against the tools."""

    thought: str = ""
    tool_name: Any = None
    tool_args: Any = None
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    """The signature's outputs, for a reply to an `extract` request."""
    usage: RunUsage = field(default_factory=RunUsage)
    """What this reply cost."""


@dataclass(frozen=True)
class Idle:
    """Before the first request."""

    def start(self) -> Thinking:
        """Ask for the first decision."""
        return Thinking(iteration=1)


@dataclass(frozen=True)
class Thinking:
    """Waiting for the model's decision number `iteration` (from 1)."""

    iteration: int
    purpose: Literal["decide", "extract"] = "decide"
    forced_by: TerminationReason | None = None
    """Why an answer is extracted although the model did not finish."""

    def act(self, call: ToolCall, thought: str) -> Acting:
        """The decision is a legal call."""
        return Acting(self.iteration, call, thought)

    def extract(self, forced_by: TerminationReason | None = None) -> Thinking:
        """Ask for the answer alone."""
        return Thinking(self.iteration, "extract", forced_by)

    def think_again(self, *, committed: bool) -> Thinking:
        """The next decision, after one that was `committed` as a step or thrown away."""
        return Thinking(self.iteration + committed)

    def complete(self) -> Completed:
        """The answer is there."""
        return Completed()

    def fail(self, error: AgentError) -> Failed:
        """The run ends with an error."""
        return Failed(error)


@dataclass(frozen=True)
class Acting:
    """A checked call is out at a tool."""

    iteration: int
    call: ToolCall
    thought: str

    def observe(self, result: ToolResult) -> Observing:
        """The result is back."""
        return Observing(self.iteration, self.call, self.thought, result)

    def fail(self, error: AgentError) -> Failed:
        """The run ends with an error."""
        return Failed(error)


@dataclass(frozen=True)
class Observing:
    """A result is back and the policy decides what it means."""

    iteration: int
    call: ToolCall
    thought: str
    result: ToolResult

    def think(self) -> Thinking:
        """Ask for the next decision."""
        return Thinking(self.iteration + 1)

    def fail(self, error: AgentError) -> Failed:
        """The run ends with an error."""
        return Failed(error)


@dataclass(frozen=True)
class Completed:
    """Over, with an answer."""


@dataclass(frozen=True)
class Failed:
    """Over, because of an error."""

    error: AgentError


@dataclass(frozen=True)
class Interrupted:
    """Stopped by policy; it can be resumed."""

    reason: str


State = Idle | Thinking | Acting | Observing | Completed | Failed | Interrupted


@dataclass(frozen=True)
class AskModel:
    """Ask the model; answer with `AgentRun.model_replied` or `AgentRun.model_failed`."""

    purpose: Literal["decide", "extract"]
    trajectory: str


@dataclass(frozen=True)
class CallTool:
    """Run this call; answer with `AgentRun.tool_finished`."""

    call: ToolCall


@dataclass(frozen=True)
class Done:
    """The run is over; `AgentRun.output` holds what came out."""
