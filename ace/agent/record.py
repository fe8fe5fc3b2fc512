"""The data of a run: what it is given, what it has done so far, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python

from ace.agent.breaker import Breaker
from ace.agent.history import (
    IN_FULL,
    PLAYBOOK,
    SHORT,
    Aside,
    Conversation,
    Entry,
    RunTurns,
    SoFar,
    message_of,
    summary_note,
)
from ace.agent.hooks import Agent
from ace.agent.planned import PlannedCalls, TakenPlan
from ace.agent.policy import Policy, PolicyEngine
from ace.agent.shortening import Shortening
from ace.agent.states import Idle, State
from ace.agent.summary import Summary
from ace.core import (
    CancellationToken,
    Clock,
    Event,
    InvalidModelAction,
    ObserverThread,
    RunStoreError,
    RunUsage,
    SystemClock,
    TokenPrices,
    UsageLimits,
)
from ace.core.context import Tally
from ace.tasks import ErrorRecord, MemoryUse, ReasoningStep, RunSummary, TaskInput, TerminationReason
from ace.tools import Tool, ToolRegistry

DEFAULT_MAX_ITERS = 10
"""The system's limit when neither the task nor the agent sets one."""


@dataclass(frozen=True)
class RunSpec:
    """What a run is given, `RunSpec(task, registry, finish, max_iters=5)`; it does not change while it runs."""

    task: TaskInput
    registry: ToolRegistry
    finish: Tool
    """Its arguments are the signature's outputs; when they fit, no `extract` request is needed."""
    max_iters: int
    limits: UsageLimits = field(default_factory=UsageLimits)
    policy: PolicyEngine = field(default_factory=Policy)
    summary: Summary | None = None
    agent: Agent = field(default_factory=Agent)
    """The hooks that define a step."""
    observers: tuple[ObserverThread[Event], ...] = ()
    """Each behind a thread of its own."""
    listeners: tuple[Callable[[Event], None], ...] = ()
    """Called in the run's own thread, so only for functions of the library that neither raise nor wait."""
    injected_bullets: tuple[str, ...] = ()
    plan: PlannedCalls | None = None
    """A lesson's plan that the model may choose as one tool, which the registry holds."""
    context: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else the prompt holds, for a run that is resumed: the text of the playbook, and the plan that is offered."""
    opening: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the first request says: the inputs and the playbook, as a prompt may hold them."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    memory: MemoryUse | None = None
    prices: TokenPrices | None = None
    tally: Tally | None = None
    """Where a run inside a tool of another run reports each request."""
    clock: Clock = field(default_factory=SystemClock)
    cancellation: CancellationToken | None = None
    """Stops the run from outside. A sync run with one makes its requests in a thread, which is left behind then."""

    def with_stored(self, stored: RunSnapshot) -> RunSpec:
        """Return the same tools, policy and observers with the task and the limits of a stored run.

        Raises:
            RunStoreError: The run began with other tools; it names each that is missing, new or changed.
        """
        now = self.registry.schema_hashes
        missing, new = sorted(stored.tools.keys() - now.keys()), sorted(now.keys() - stored.tools.keys())
        changed = sorted(name for name in stored.tools.keys() & now.keys() if stored.tools[name] != now[name])
        if missing or new or changed:
            raise RunStoreError(
                f"run {stored.run_id!r} began with other tools (missing now: {missing}, new: {new}, changed: {changed}); "
                "resume it with the agent that started it"
            )
        return replace(self, **{name: getattr(stored, name) for name in _OF_SPEC})


_OF_SPEC = ("task", "max_iters", "limits", "injected_bullets", "context", "metadata", "memory")
"""What a stored run keeps of its spec."""


class RunSnapshot(BaseModel, extra="forbid"):
    """A run as data: what it was given, and all that it has done and spent so far; as JSON, another process goes on with it.

    Only `AgentRun` writes to it; policies are given an `AgentState` of it.

    Examples:
        >>> snapshot = RunSnapshot(run_id="r", task=TaskInput(task_id="t", inputs={}), tools={}, max_iters=5)
        >>> RunSnapshot.from_json(snapshot.to_json()) == snapshot
        True
    """

    schema_version: Literal["1"] = "1"
    run_id: str
    task: TaskInput
    tools: dict[str, str]
    """Name to schema hash: a run goes on only with the tools it began with."""
    max_iters: int
    limits: UsageLimits = UsageLimits()
    state: Annotated[State, Field(discriminator="kind")] = Idle()
    scratch: dict[str, Any] = Field(default_factory=dict)
    """The agent's own data, see `Agent.initialize`."""
    steps: list[ReasoningStep] = Field(default_factory=list[ReasoningStep])
    usage: RunUsage = RunUsage()
    charged: int = 0
    """Retries and reprompts that spent budget."""
    asides: list[Aside] = Field(default_factory=list[Aside])
    """Replies that were rejected, and what the model was told."""
    reprompts_here: int = 0
    """Replies to the present decision that were rejected."""
    outputs: dict[str, Any] = Field(default_factory=dict)
    cited: list[str] = Field(default_factory=list[str])
    forced_by: TerminationReason | None = None
    """Why the answer was asked for although the model had not finished."""
    errors: list[ErrorRecord] = Field(default_factory=list[ErrorRecord])
    repeats: dict[str, tuple[int, str]] = Field(default_factory=dict)
    """How often each call gave the same result, see `RepeatDetector`."""
    breakers: dict[str, Breaker] = Field(default_factory=dict)
    summary: RunSummary | None = None
    summarised: int = 0
    """Steps that the summary covers."""
    summary_tried: int = 0
    """Steps that there were when a summary was last asked for."""
    injected_bullets: tuple[str, ...] = ()
    context: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    memory: MemoryUse | None = None
    decisions: int = 0
    """How many answers went into those that `resume` was given, so that a caller knows which ones are used up."""
    cuts: dict[int, int] = Field(default_factory=dict)
    """Steps that the prompt shows in part: index to the characters of the observation, 0 for a step that is left out."""
    levels: dict[int, int] = Field(default_factory=dict)
    """How far earlier turns of the conversation are shortened, see `ace.agent.history`."""
    plan: TakenPlan | None = None
    """The plan that it has taken."""
    closing: tuple[str, Any] | None = None
    """Thought and arguments of the call that ended it."""
    without_playbook: bool = False
    """Whether the playbook was left out, because nothing else could go from a prompt that was too long."""
    seq: int = 0
    """The next event's."""

    @classmethod
    def begun(cls, run_id: str, spec: RunSpec) -> RunSnapshot:
        """Return a run that has done nothing yet."""
        given = {name: getattr(spec, name) for name in _OF_SPEC}
        return cls(run_id=run_id, tools=spec.registry.schema_hashes, **given)

    def copied(self, **changes: Any) -> RunSnapshot:
        """Copy the run as it is now, which what comes later does not change; what is derived of its data is computed
        again."""
        held = {name: getattr(self, name) for name in RunSnapshot.model_fields}
        own = {name: copy(held[name]) for name in held if isinstance(held[name], (list, dict))}
        own["outputs"] = to_jsonable_python(self.outputs)
        return RunSnapshot.model_construct(**{**held, **own, **changes})

    def reopened(self, finish: Tool) -> RunSnapshot:
        """Copy the run to go on with; its outputs have the types that the signature gives them."""
        typed: dict[str, Any] = {}
        with suppress(InvalidModelAction):
            typed = finish.checked(self.outputs)
        return self.copied(outputs={name: typed.get(name, value) for name, value in self.outputs.items()})

    @cached_property
    def conversation(self) -> Conversation:
        """The messages before this one."""
        return Conversation(self.task.history, self.levels)

    @cached_property
    def shown(self) -> RunTurns:
        """The steps as a prompt shows them."""
        return RunTurns(len(self.conversation.messages))

    @property
    def iteration(self) -> int:
        """The decision that the run is at, from 1; 0 before and after."""
        return getattr(self.state, "iteration", 0)

    @property
    def step_id(self) -> str:
        """Names the decision in events and calls."""
        return f"s{self.iteration}"

    @property
    def spent(self) -> int:
        """Of `max_iters`: committed decisions, and the retries and reprompts that cost budget."""
        return self.usage.iterations + self.charged

    def turns(self, opening: Mapping[str, Any], setting: Summary | None) -> tuple[list[Entry], Entry]:
        """Return what the prompt shows so far, and what the next request says first."""
        said = {name: value for name, value in opening.items() if name != PLAYBOOK or not self.without_playbook}
        notes = self.conversation.note() + ([] if self.summary is None else [summary_note(self.summary)])
        shown, said = self.shown.shown(
            said, self.steps, self.asides, cuts=self.cuts, first=self._first(setting), notes=notes
        )
        return [*self.conversation.shown(), *shown], said

    @property
    def turns_cut(self) -> list[int]:
        """The earlier messages that the prompt does not show in full."""
        return [index for index, level in self.conversation.levels.items() if level]

    @property
    def shortened(self) -> int:
        """How many steps and turns the prompt does not show in full."""
        return len(self.cuts) + len(self.turns_cut)

    def so_far(self, steps: Sequence[ReasoningStep]) -> SoFar:
        """Return the conversation with this run as its last turn."""
        message = message_of(
            steps,
            self.asides,
            inputs=self.task.inputs,
            outputs=self.outputs,
            closing=self.closing,
            playbook="" if self.without_playbook else self.context.get("playbook", ""),
            shortened=SHORT if self.cuts else IN_FULL,
            run=(self.run_id, self.task.task_id),
        )
        return SoFar(self.task.history, self.conversation.levels, message)

    def _first(self, setting: Summary | None) -> int:
        """Return the first step that the summary does not stand for."""
        keep = setting.keep_last if setting and self.summary is not None else None
        first = 0 if keep is None else max(0, self.summarised - keep)
        while 0 < first < len(self.steps) and self.steps[first - 1].iteration == self.steps[first].iteration:
            first -= 1  # the calls of one turn stay together
        return first

    def shorten(self, setting: Summary | None, keep: float) -> bool:
        """Show less of the steps and of earlier turns, and then no playbook; False when nothing is left that could go."""
        shorter = Shortening(self.steps, self.cuts, self._first(setting), self.conversation)
        if not shorter.to(keep):
            before, self.without_playbook = self.without_playbook, True
            return not before
        self.cuts = shorter.cuts
        self.levels = self.conversation.levels = shorter.levels
        return True

    def to_json(self) -> str:
        """Write it as one line of JSON."""
        return json.dumps(self.model_dump(mode="json"))

    @classmethod
    def from_json(cls, text: str) -> RunSnapshot:
        """Read what `to_json` wrote.

        Raises:
            RunStoreError: It is no snapshot, or of another version.
        """
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise RunStoreError(f"this is no stored run of version 1: {str(error)[:300]}") from error
