"""What a run is given and what is stored of it: both plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from ace.agent.breaker import Breaker
from ace.agent.hooks import Agent
from ace.agent.policy import Policy, PolicyEngine
from ace.agent.states import STATE_CODEC, State
from ace.agent.summary import Summary
from ace.core import (
    CancellationToken,
    Clock,
    Event,
    Relay,
    RunStoreError,
    RunUsage,
    SystemClock,
    Tally,
    TokenPrices,
    UsageLimits,
)
from ace.tasks import ErrorRecord, ReasoningStep, RunSummary, TaskInput, TerminationReason
from ace.tools import Tool, ToolRegistry


@dataclass(frozen=True)
class RunSpec:
    """What a run is given; it does not change while it runs."""

    task: TaskInput
    registry: ToolRegistry
    finish: Tool
    """Its arguments are the signature's outputs; when they fit, no `extract` request is needed."""
    max_iters: int
    limits: UsageLimits = field(default_factory=UsageLimits)
    policy: PolicyEngine = field(default_factory=Policy)
    summary: Summary | None = None
    agent: Agent = field(default_factory=Agent)
    """The hooks that say what a step is."""
    relays: tuple[Relay[Event], ...] = ()
    """Observers, each behind a thread of its own."""
    listeners: tuple[Callable[[Event], None], ...] = ()
    """Called in line: for the library's own sinks, which neither raise nor wait."""
    injected_bullets: tuple[str, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else the prompt holds, for a run that is resumed: the text of the playbook."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prices: TokenPrices | None = None
    tally: Tally | None = None
    """Where a run inside a tool of another run reports each request."""
    clock: Clock = field(default_factory=SystemClock)
    cancellation: CancellationToken = field(default_factory=CancellationToken)


class RunSnapshot(BaseModel):
    """A run as JSON, after any step: enough to go on with it in another process.

    Example:
        >>> snapshot = RunSnapshot(run_id="r", task=TaskInput(task_id="t", inputs={}), tools={}, max_iters=5,
        ...                        state=STATE_CODEC.validate_python({"kind": "idle"}))
        >>> RunSnapshot.from_json(snapshot.to_json()) == snapshot
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal["1"] = "1"
    run_id: str
    task: TaskInput
    tools: dict[str, str]
    """Name to schema hash: a run goes on only with the tools it began with."""
    max_iters: int
    limits: UsageLimits = UsageLimits()
    state: State
    scratch: dict[str, Any] = Field(default_factory=dict)
    """The agent's own data, see `Agent.initialize`."""
    steps: tuple[ReasoningStep, ...] = ()
    usage: RunUsage = RunUsage()
    charged: int = 0
    """Retries and reprompts that spent budget."""
    notes: tuple[str, ...] = ()
    reprompts_here: int = 0
    outputs: dict[str, Any] = Field(default_factory=dict)
    cited: tuple[str, ...] = ()
    forced_by: TerminationReason | None = None
    finish_after: dict[str, Any] | None = None
    errors: tuple[ErrorRecord, ...] = ()
    repeats: dict[str, int] = Field(default_factory=dict)
    """How often each call gave the same result, see `Circles`."""
    breakers: dict[str, Breaker] = Field(default_factory=dict)
    summary: RunSummary | None = None
    summarised: int = 0
    """Steps that the summary covers."""
    summary_tried: int = 0
    injected_bullets: tuple[str, ...] = ()
    context: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    decisions: int = 0
    """How many answers went into those that `resume` was given: whoever asks again knows which ones are used up."""
    seq: int = 0
    """The next event's."""

    @field_validator("state", mode="before")
    @classmethod
    def _read_state(cls, value: Any) -> State:
        return STATE_CODEC.validate_python(value)

    @field_serializer("state")
    def _write_state(self, state: State) -> Any:
        return STATE_CODEC.dump_python(state, mode="json")

    def to_json(self) -> str:
        """As one line of JSON."""
        return json.dumps(self.model_dump(mode="json"))

    @classmethod
    def from_json(cls, text: str) -> RunSnapshot:
        """Read what `to_json` wrote.

        Raises:
            RunStoreError: It is no snapshot, or of another version.
        """
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, ValidationError, RecursionError) as error:
            raise RunStoreError(f"this is no stored run of version 1: {str(error)[:300]}") from error
