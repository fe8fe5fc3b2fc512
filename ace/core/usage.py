"""The ledger of a run: everything that was spent, in one place."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class RunUsage(BaseModel):
    """What a run spent so far.

    Example:
        >>> (RunUsage(lm_calls=1) + RunUsage(lm_calls=2, tool_calls=1)).lm_calls
        3
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    iterations: int = 0
    """Committed model decisions, `finish` and invalid ones included."""
    lm_calls: int = 0
    """Requests to the language model, of every kind."""
    reprompts: int = 0
    """Replies that were thrown away and asked for again."""
    tool_calls: int = 0
    """Tool calls that were really executed."""
    input_tokens: int = 0
    """Prompt tokens, as the model's API reported them."""
    output_tokens: int = 0
    """Completion tokens, as the model's API reported them."""
    seconds: float = 0.0
    """Wall time of the run in seconds."""

    def __add__(self, other: RunUsage) -> RunUsage:
        return RunUsage(**{name: getattr(self, name) + getattr(other, name) for name in RunUsage.model_fields})
