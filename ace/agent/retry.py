"""When a failed request or call is repeated: back-off with jitter, as a pure function."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from ace.agent.settings import PolicySettings
from ace.core import TOOL_ERROR_KINDS, ToolErrorKind


class RetryPolicy(PolicySettings, frozen=True):
    """Exponential back-off with full jitter (Brooker, "Exponential Backoff And Jitter", AWS 2015).

    Examples:
        >>> policy = RetryPolicy(initial_interval=1.0, jitter=False)
        >>> [policy.delay(attempt) for attempt in (1, 2, 3)]
        [1.0, 2.0, 4.0]
    """

    initial_interval: float = Field(default=0.5, ge=0)
    """Seconds before the second attempt."""
    backoff_factor: float = Field(default=2.0, ge=1)
    max_interval: float = Field(default=30.0, ge=0)
    """Seconds between attempts at most."""
    max_attempts: int = Field(default=3, ge=1, le=100)
    """The first one included."""
    jitter: bool = True
    """Whether the delay is drawn between 0 and the full back-off."""
    retry_on: tuple[ToolErrorKind, ...] = tuple(kind for kind, traits in TOOL_ERROR_KINDS.items() if traits.retryable)
    """Kinds of failure that are worth another attempt."""
    patterns: tuple[str, ...] = ()
    """Regular expressions: a failure of another kind whose message one of them finds is worth another attempt too."""

    @field_validator("patterns")
    @classmethod
    def _compile(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return patterns

    @model_validator(mode="after")
    def _consistent(self) -> RetryPolicy:
        if self.max_interval < self.initial_interval:
            raise ValueError(
                f"max_interval={self.max_interval} is below initial_interval={self.initial_interval}; raise the first or "
                "lower the second"
            )
        return self

    def delay(self, attempt: int, draw: float = 1.0) -> float:
        """Return the seconds to wait after `attempt` (from 1); `draw` in 0..1 is the jitter's random number."""
        try:
            full = self.initial_interval * self.backoff_factor ** (attempt - 1)
        except OverflowError:
            full = self.max_interval
        return min(full, self.max_interval) * (draw if self.jitter else 1.0)

    def matches(self, kind: ToolErrorKind, message: str) -> bool:
        """Check whether a failure is worth another attempt."""
        return kind in self.retry_on or any(re.search(pattern, message) for pattern in self.patterns)
