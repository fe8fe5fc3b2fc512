"""One run of one task, as the log keeps it and the report reads it."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ReportModel(BaseModel, extra="forbid", populate_by_name=True):
    """Base of what commands write as JSON."""


class InvalidAction(ReportModel):
    """A reply that was no legal action."""

    iteration: int
    kind: str
    tool: str
    message: str


class RunReport(ReportModel):
    """One run of one task."""

    id: str
    arm: str
    seed: int
    domain: str
    group: str
    correct: bool
    iterations: int
    lm_calls: int
    cached: int = 0
    """Of these, how many a cache answered; their tokens are counted as what they would have cost."""
    termination: str
    state_sha256: str
    """Hash over the hashes of all tables after the run."""
    tables_sha256: dict[str, str]
    invalid_actions: int
    input_tokens: int = 0
    output_tokens: int = 0
    memory_tokens: int = 0
    """Of the playbook in the prompt."""
    cost: float = 0.0
    """US dollars, where prices are known."""
    seconds: float = 0.0
    confidence: float | None = None
    """What a verifier gave the answer."""
    bullets: list[str] = Field(default_factory=list)
    """Ids of the bullets in the prompt."""
    learned_from: int = 0
    """Arms that learn while they go: how many runs were learned from before this one."""
    errors: list[InvalidAction] = Field(default_factory=list)
