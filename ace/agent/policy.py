"""What to do about a bad reply or a failed tool: pure, deterministic, bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from ace.core import AgentError, InvalidModelAction, PolicyConfigInvalid
from ace.tools import ToolResult

MAX_REPROMPTS = 10
"""More reprompts for one decision than this is a loop, not a policy."""


@dataclass(frozen=True)
class Fail:
    """End the run."""


@dataclass(frozen=True)
class Retry:
    """Do the same again, the model is not told."""


@dataclass(frozen=True)
class Reprompt:
    """Throw the reply away, tell the model what was wrong, ask again."""

    with_catalogue: bool = False
    """Whether the list of tool names is repeated."""


@dataclass(frozen=True)
class Observe:
    """Commit the bad call as a failed step: its error is the observation, and it spends an iteration."""


@dataclass(frozen=True)
class Continue:
    """Hand the tool's error to the model as the observation and go on."""


@dataclass(frozen=True)
class Interrupt:
    """Stop and wait for somebody."""

    reason: str


Decision = Fail | Retry | Reprompt | Observe | Continue | Interrupt


class PolicyEngine(Protocol):
    """Decides; knows nothing but its arguments."""

    @property
    def name(self) -> str:
        """Shown by the command line."""
        ...

    def on_model_error(self, error: AgentError, reprompts: int) -> Decision:
        """What to do about a reply that is no legal action; `reprompts` were already spent on this decision."""
        ...

    def on_tool_error(self, result: ToolResult) -> Decision:
        """What to do about a call that failed."""
        ...


@dataclass(frozen=True)
class Policy:
    """The policy that comes with the library.

    Raises:
        PolicyConfigInvalid: The settings contradict each other or have no bound.

    Example:
        >>> Policy.lenient().reprompts, Policy().reprompts
        (2, 0)
    """

    name: str = "default"
    on_invalid_action: Literal["fail", "reprompt", "observe"] = "fail"
    """An unknown tool, arguments that do not fit, an unparsable reply."""
    reprompts: int = 0
    """How often one decision is asked for again, when `on_invalid_action` is `reprompt`; then the run fails."""
    tool_error: Literal["append_and_continue", "fail_fast"] = "append_and_continue"

    def __post_init__(self) -> None:
        if not 0 <= self.reprompts <= MAX_REPROMPTS:
            raise PolicyConfigInvalid(f"reprompts must be 0 to {MAX_REPROMPTS}, got {self.reprompts!r}")
        if (self.on_invalid_action == "reprompt") != (self.reprompts > 0):
            raise PolicyConfigInvalid(
                f"on_invalid_action={self.on_invalid_action!r} contradicts reprompts={self.reprompts}; reprompting "
                "needs reprompts >= 1, anything else needs 0"
            )

    @classmethod
    def lenient(cls) -> Policy:
        """Ask twice again after a bad reply."""
        return cls(name="lenient", on_invalid_action="reprompt", reprompts=2)

    @classmethod
    def replay(cls) -> Policy:
        """A bad call becomes an observation that spends one iteration, as in a recorded run."""
        return cls(name="replay", on_invalid_action="observe")

    def on_model_error(self, error: AgentError, reprompts: int) -> Decision:
        """See `PolicyEngine`."""
        if not isinstance(error, InvalidModelAction):
            return Fail()
        if self.on_invalid_action == "observe":
            return Observe()
        if reprompts < self.reprompts:
            return Reprompt(with_catalogue=error.reason == "unknown_tool")
        return Fail()

    def on_tool_error(self, result: ToolResult) -> Decision:
        """See `PolicyEngine`."""
        return Fail() if self.tool_error == "fail_fast" else Continue()
