"""A circuit breaker per tool and task: closed, open after failures in a row, half-open for one probe.

Source of the pattern: Nygard, "Release It!" (2007). Pure functions over a frozen state; time is handed in.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from ace.agent.settings import PolicySettings
from ace.core import TOOL_ERROR_KINDS, ToolErrorKind


class BreakerPolicy(PolicySettings, frozen=True):
    """When a tool is taken out of service: `Policy(breaker=BreakerPolicy(threshold=5, cooldown=30))`."""

    threshold: int = Field(default=3, ge=1)
    """Failures in a row that open it."""
    cooldown: float = Field(default=60.0, ge=0)
    """Seconds until one probe is let through."""
    counts: tuple[ToolErrorKind, ...] = tuple(kind for kind, traits in TOOL_ERROR_KINDS.items() if traits.counts)
    """Kinds of failure that count against the tool; bad arguments and refusals do not."""
    exclude: bool = True
    """Whether a tool that is out of service leaves the catalog that the model sees."""


class Breaker(BaseModel, frozen=True, extra="forbid"):
    """One tool's breaker.

    Examples:
        >>> policy, breaker = BreakerPolicy(threshold=2, cooldown=10), Breaker()
        >>> for _ in range(2):
        ...     breaker = breaker.failed("timeout", policy, now=0.0)
        >>> breaker.state, breaker.allows(policy, now=5.0), breaker.allows(policy, now=10.0)
        ('open', False, True)
    """

    state: Literal["closed", "open", "half_open"] = "closed"
    failures: int = 0
    """In a row, of kinds that count."""
    opened_at: float = 0.0

    def allows(self, policy: BreakerPolicy, now: float) -> bool:
        """Check whether a call may go out now. Half-open means that the one probe is out."""
        if self.state == "closed":
            return True
        return self.state == "open" and now >= self.opened_at + policy.cooldown

    def called(self) -> Breaker:
        """Return the breaker after a call went out; from open, that call is the probe."""
        return self.model_copy(update={"state": "half_open"}) if self.state == "open" else self

    def succeeded(self) -> Breaker:
        """Return the breaker after a call came back well, or failed in a way that does not count against the tool."""
        return self if self.state == "closed" and not self.failures else Breaker()

    def failed(self, kind: ToolErrorKind, policy: BreakerPolicy, now: float) -> Breaker:
        """Return the breaker after a call failed."""
        if kind not in policy.counts:
            # the tool answered, so it is available, even if it refused the call
            return Breaker() if self.state == "half_open" else self
        failures = self.failures + 1
        if self.state == "half_open" or failures >= policy.threshold:
            return Breaker(state="open", failures=failures, opened_at=now)
        return self.model_copy(update={"failures": failures})

    def abandoned(self) -> Breaker:
        """Return the breaker after the probe was cut off before it returned: another one may go out."""
        return self.model_copy(update={"state": "open"}) if self.state == "half_open" else self


class Breakers:
    """The breakers of one run, one per tool.

    Args:
        policy: When a tool is taken out of service; None never does.
        states: By tool, of the tools that are not closed and clean; changed in place.
    """

    def __init__(self, policy: BreakerPolicy | None, states: dict[str, Breaker]) -> None:
        self.policy = policy
        self.states = states

    def out_of_service(self, now: float) -> tuple[str, ...]:
        """Name the tools that leave the catalog for the present."""
        if self.policy is None or not self.states or not self.policy.exclude:
            return ()
        return tuple(name for name, breaker in self.states.items() if not breaker.allows(self.policy, now))

    def call(self, name: str, now: float) -> str:
        """Let a call of a tool out; why not, in words for the model, when it may not go."""
        breaker = self.states.get(name)
        if self.policy is None or breaker is None:
            return ""
        if not breaker.allows(self.policy, now):
            return f"{name} failed {breaker.failures} times in a row and is out of service now; use another tool."
        self.states[name] = breaker.called()
        return ""

    def settle(self, name: str, outcome: str, kind: ToolErrorKind, now: float) -> None:
        """Record the outcome of a call."""
        if self.policy is None:
            return
        breaker = self.states.get(name, Breaker())
        if outcome == "success":
            breaker = breaker.succeeded()
        elif outcome == "failed":
            breaker = breaker.failed(kind, self.policy, now)
        else:
            breaker = breaker.abandoned()
        if breaker == Breaker():
            self.states.pop(name, None)
        else:
            self.states[name] = breaker

    def is_open(self, name: str) -> bool:
        """Check whether a tool was taken out of service."""
        return self.policy is not None and self.states.get(name, Breaker()).state == "open"
