"""What a run has used, all in one place, and the limits on it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field


class RunUsage(BaseModel, frozen=True, extra="forbid"):
    """What a run spent so far; every attempt counts, whatever its outcome.

    Examples:
        >>> (RunUsage(lm_calls=1) + RunUsage(lm_calls=2, tool_calls=1)).lm_calls
        3
    """

    iterations: int = 0
    """Committed model decisions, `finish` and invalid ones included."""
    lm_calls: int = 0
    """Requests to the language model, of every kind: decisions, reprompts, retries, summaries, the final answer."""
    cached: int = 0
    """Of these, how many a cache answered (``--cache``); their tokens are counted as what they would have cost."""
    reprompts: int = 0
    """Replies that were rejected and asked for again."""
    retries: int = 0
    """Requests and tool calls that were made again without the model knowing."""
    summaries: int = 0
    """Requests that wrote the running summary."""
    tool_calls: int = 0
    """Tool calls that were really executed, retries included."""
    input_tokens: int = 0
    """Prompt tokens, as the model's API reported them."""
    output_tokens: int = 0
    """Completion tokens, as the model's API reported them."""
    cost: float = 0.0
    """US dollars, by the agent's `TokenPrices`; 0 when it has none."""
    seconds: float = 0.0
    """Wall time of the run in seconds."""

    def __add__(self, other: RunUsage) -> RunUsage:
        more = other.__dict__  # a constructor that validates is faster than pydantic's `model_construct`
        return RunUsage(**{name: value + more[name] for name, value in self.__dict__.items()})

    def changed(self, **fields: Any) -> RunUsage:
        """Return the same with other values in some fields; it takes a fifth of the time of `model_copy`."""
        return RunUsage(**{**self.__dict__, **fields})

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.input_tokens + self.output_tokens


class TokenPrices(BaseModel, frozen=True, extra="forbid"):
    """What a model costs, in US dollars per million tokens.

    Examples:
        >>> TokenPrices(input=0.25, output=2.0).cost(1_000_000, 500_000)
        1.25
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost in dollars of these tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


class UsageLimits(BaseModel, frozen=True, extra="forbid"):
    """What a run may spend; None is no limit.

    `iterations`, `lm_calls` and `tool_calls` are never exceeded: when the next one would, the model is asked for one last
    answer without tools, and that request is part of `lm_calls`. What a request costs in tokens and dollars is known only
    afterwards: the request in flight may go over those limits, and nothing follows it. When the seconds are over, the
    request in flight is given up: an async one is cancelled, a sync one left behind in its thread.

    Examples:
        >>> UsageLimits(lm_calls=5).tighter(UsageLimits(lm_calls=9, seconds=60.0))
        UsageLimits(lm_calls=5, seconds=60.0)
    """

    iterations: int | None = Field(default=None, ge=0)
    lm_calls: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    total_tokens: int | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0)
    """US dollars."""
    seconds: float | None = Field(default=None, ge=0)
    """Wall time; tools get at most what is left of it."""

    _AFTERWARDS: ClassVar[tuple[str, ...]] = ("input_tokens", "output_tokens", "total_tokens", "cost", "seconds")

    def __repr__(self) -> str:
        return f"UsageLimits({', '.join(f'{k}={v!r}' for k, v in self.model_dump(exclude_none=True).items())})"

    def tighter(self, other: UsageLimits) -> UsageLimits:
        """Return the smaller of the two for each limit."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in UsageLimits.model_fields)
        return UsageLimits(**{name: b if a is None else a if b is None else min(a, b) for name, a, b in pairs})

    def left(self, usage: RunUsage) -> UsageLimits:
        """Return what remains after `usage`."""
        return UsageLimits(
            **{
                name: max(0, limit - getattr(usage, name))
                for name in UsageLimits.model_fields
                if (limit := getattr(self, name)) is not None
            }
        )

    def exceeded(self, usage: RunUsage) -> str:
        """Name the first limit that is used up and that no last answer may follow, in words; empty when there is none."""
        for name in self._AFTERWARDS:
            limit = getattr(self, name)
            if limit is not None and getattr(usage, name) >= limit:
                return f"{name} {getattr(usage, name):g} of at most {limit:g}"
        if self.lm_calls is not None and usage.lm_calls >= self.lm_calls:
            return f"lm_calls {usage.lm_calls} of at most {self.lm_calls}"
        return ""

    def last_answer_due(self, usage: RunUsage) -> str:
        """Say why the next request has to be the last one, in words; empty when it need not."""
        if self.lm_calls is not None and usage.lm_calls >= self.lm_calls - 1:
            return f"lm_calls: 1 left of {self.lm_calls}"
        if self.tool_calls is not None and usage.tool_calls >= self.tool_calls:
            return f"tool_calls {usage.tool_calls} of at most {self.tool_calls}"
        return ""
