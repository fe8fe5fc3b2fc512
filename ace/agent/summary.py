"""The running summary of a long run: when it is written, and what of the trajectory it stands for."""

from __future__ import annotations

from pydantic import Field

from ace.agent.settings import PolicySettings


class Summary(PolicySettings, frozen=True):
    """Keep a running summary, shown to the model as "Conversation so far".

    Each one is a request to the model, and counted in the run's usage. Steps leave the prompt only when a summary that
    came back well covers them; the trace of the run keeps them all.

    Examples:
        >>> Summary(every=5, keep_last=2).keep_last
        2
    """

    every: int = Field(default=1, ge=1)
    """Steps between two summaries."""
    keep_last: int | None = Field(default=None, ge=1)
    """How many of the steps that a summary covers stay in the prompt; None keeps all."""
