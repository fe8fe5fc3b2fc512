"""The states of a run, its requests to the driver, and the results of the driver.

``Idle -> Thinking -> (Completed | Acting) -> Observing -> Thinking ...``; from any active state ``Failed``, and by policy,
approval or cancellation ``Interrupted``. Each state is its own frozen type with only its legal transitions, so that an
illegal one is a type error. All of them are plain JSON data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ace.core import RunUsage
from ace.tasks import ApprovalRequest, TerminationReason
from ace.tools import ToolCall, ToolResult

Purpose = Literal["decide", "extract", "summarize"]
Stop = Literal["", "fail", "interrupt", "violation", "paused"]
"""Why the result of a call ends the run; empty where it does not."""


@dataclass(frozen=True)
class RequestedTool:
    """A tool call as the model wrote it, `RequestedTool("look_up", {"key": "a"})`: nothing about it is checked yet."""

    name: Any
    args: Any = None
    id: str = ""
    """As the model's provider named it."""


@dataclass(frozen=True)
class ModelReply:
    """What the model answered, parsed and not yet checked: `ModelReply("a thought", "look_up", {"key": "a"})`."""

    thought: str = ""
    tool_name: Any = None
    tool_args: Any = None
    call_id: str = ""
    """As the model's provider named the call."""
    more: tuple[RequestedTool, ...] = ()
    """Further calls of the same reply, that are made as well."""
    ignored: tuple[str, ...] = ()
    """Tools of further calls of the same reply that are not made."""
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    """The summary's fields, for a reply to a `summarize` request."""
    usage: RunUsage = field(default_factory=RunUsage)
    """What this reply cost."""
    raw: str = ""
    """The reply as it came, for people who look into a run that failed."""


@dataclass(frozen=True)
class CallState:
    """One call of a decision, and how far it is."""

    call: ToolCall
    provider_id: str = ""
    """As the model's provider named the call."""
    attempt: int = 1
    repeats: int = 0
    """Of the attempts, those that a crash cut off: they are none of the policy's retries."""
    status: Literal["waiting", "out", "done"] = "waiting"
    not_before: float = 0.0
    """Seconds since 1970; a retry waits for its back-off."""
    result: ToolResult | None = None
    consent: bool = False
    """Whether a person approved this call."""
    known: bool = False
    """Whether it was not made, because its result is known."""
    stop: Stop = ""
    """When the failure of this call ends the run: the policy's reason, or that the tool raised a `Pause`."""
    stop_reason: str = ""
    remark: str = ""
    """What of the result's text is the agent's own."""
    asked: int | None = None
    """Answers that the run had when this call first raised a `Pause`: it asks for the same ones when it is made again."""

    def changed(self, **fields: Any) -> CallState:
        """Replace some fields, as `dataclasses.replace` does, in a fifth of its time: each call changes twice."""
        return CallState(**{**self.__dict__, **fields})

    @property
    def tried(self) -> int:
        """Attempts that came back, the present one included: what a retry policy counts."""
        return self.attempt - self.repeats

    @property
    def id(self) -> str:
        """The id of this attempt: every attempt is a call of its own, with a result of its own."""
        return self.call.id if self.attempt == 1 else f"{self.call.id}-a{self.attempt}"


@dataclass(frozen=True)
class Idle:
    """Before the first request: `Idle().start()`."""

    kind: Literal["idle"] = "idle"

    def start(self) -> Thinking:
        """Ask for the first decision."""
        return Thinking(iteration=1)


class _Active:
    """A state in which the run can fail."""

    def fail(self, error: TerminationReason, message: str) -> Failed:
        """End the run with an error."""
        return Failed(error, message)


@dataclass(frozen=True)
class Thinking(_Active):
    """Waiting for the model's decision number `iteration` (from 1): `Thinking(1)`."""

    iteration: int
    purpose: Purpose = "decide"
    forced_by: TerminationReason | None = None
    """Why an answer is extracted although the model did not finish."""
    attempt: int = 1
    not_before: float = 0.0
    asked: bool = False
    """Whether the request is out."""
    kind: Literal["thinking"] = "thinking"

    def ask(self) -> Thinking:
        """Send the request out."""
        return Thinking(self.iteration, self.purpose, self.forced_by, self.attempt, self.not_before, asked=True)

    def retry(self, not_before: float) -> Thinking:
        """Make the same request once more, later."""
        return replace(self, asked=False, attempt=self.attempt + 1, not_before=not_before)

    def act(self, calls: tuple[ToolCall, ...], thought: str, remark: str = "", ids: tuple[str, ...] = ()) -> Acting:
        """Act on a decision of one or several legal calls; the last observation ends with the remark."""
        named = (*ids, *("" for _ in calls[len(ids) :]))
        return Acting(self.iteration, thought, tuple(map(CallState, calls, named)), remark)

    def extract(self, forced_by: TerminationReason | None = None) -> Thinking:
        """Ask for the answer alone."""
        return Thinking(self.iteration, "extract", forced_by)

    def summarize(self) -> Thinking:
        """Ask for the running summary first."""
        return Thinking(self.iteration, "summarize")

    def think_again(self, *, committed: bool) -> Thinking:
        """Make the next decision, after one that was `committed` as a step or thrown away."""
        return Thinking(self.iteration + committed)

    def complete(self) -> Completed:
        """Complete the run: the answer is there."""
        return Completed()

    def interrupt(self, reason: str, cause: InterruptCause = "policy") -> Interrupted:
        """Stop here; the run goes on with the same request."""
        return Interrupted(reason, cause, replace(self, asked=False))


@dataclass(frozen=True)
class Acting(_Active):
    """Checked calls are out at their tools: `Thinking(1).act((call,), "look it up")`."""

    iteration: int
    thought: str
    calls: tuple[CallState, ...]
    remark: str = ""
    """About calls of the same reply that were not made, and arguments that were left out."""
    kind: Literal["acting"] = "acting"

    def update(self, index: int, call: CallState) -> Acting:
        """Return the state in which one call got further."""
        calls = (*self.calls[:index], call, *self.calls[index + 1 :])
        return Acting(self.iteration, self.thought, calls, self.remark)

    def observe(self) -> Observing:
        """Observe: every result is back."""
        return Observing(self.iteration, self.thought, self.calls, self.remark)

    def interrupt(
        self, reason: str, cause: InterruptCause = "policy", request: ApprovalRequest | None = None
    ) -> Interrupted:
        """Stop here; the run goes on with the calls that are left."""
        return Interrupted(reason, cause, self, request)


@dataclass(frozen=True)
class Observing(_Active):
    """All results of a decision are back: `Observing(1, "look it up", ()).think()`."""

    iteration: int
    thought: str
    calls: tuple[CallState, ...]
    remark: str = ""
    """About calls of the same reply that were not made, and arguments that were left out."""
    kind: Literal["observing"] = "observing"

    def think(self) -> Thinking:
        """Ask for the next decision."""
        return Thinking(self.iteration + 1)

    def interrupt(self, reason: str, cause: InterruptCause = "policy") -> Interrupted:
        """Stop here; the run goes on with the next decision."""
        return Interrupted(reason, cause, self.think())


@dataclass(frozen=True)
class Completed:
    """Over, with an answer: `Thinking(1).complete()`."""

    kind: Literal["completed"] = "completed"


@dataclass(frozen=True)
class Failed:
    """Over, because of an error: `Thinking(1).fail("model_transport", "no answer")`."""

    error: TerminationReason
    message: str
    operator_message: str = ""
    kind: Literal["failed"] = "failed"


InterruptCause = Literal["policy", "approval", "unknown_effect", "cancelled"]


@dataclass(frozen=True)
class Interrupted:
    """Stopped by policy, for approval, or by cancellation: `Thinking(1).interrupt("a person asked")`; it can go on."""

    reason: str
    cause: InterruptCause
    then: Thinking | Acting
    """The state to go on in."""
    request: ApprovalRequest | None = None
    """The decision that is needed first."""
    kind: Literal["interrupted"] = "interrupted"

    def resume(self) -> Thinking | Acting:
        """Go on."""
        return self.then


State = Idle | Thinking | Acting | Observing | Completed | Failed | Interrupted
"""Any state of a run."""


@dataclass(frozen=True)
class Approve:
    """Make a call that a run asked for; with `args`, with others than the model's: `Approve(args={"key": "b"})`."""

    args: dict[str, Any] | None = None
    answers: int = 1
    """How many answers it took to get it; see `RunSnapshot.decisions`."""


@dataclass(frozen=True)
class Deny:
    """Do not make a call: `Deny("not this month")`; the model reads the reason and goes on."""

    reason: str = ""
    answers: int = 1
    """As for `Approve`."""


CallDecision = Approve | Deny | Literal["approve", "deny"]
ResumeDecision = CallDecision | Mapping[str, CallDecision]
"""What `resume` takes as the answer to a request for approval: about all its calls, or by the id of each call."""


@dataclass(frozen=True)
class AskModel:
    """Ask the model: `AskModel("decide")`; the driver calls `AgentRun.model_replied` or `AgentRun.model_failed`."""

    purpose: Purpose
    note: str = ""
    """From an agent's hook: what to say to the model in this request."""
    turns: tuple[dict[str, Any], ...] = ()
    """What stands in the prompt so far, earlier messages included: entries, see `ace.agent.history`."""
    said: dict[str, Any] = field(default_factory=dict[str, Any])
    """What this request adds to it: the message's inputs and the playbook at first, later a note or nothing."""
    excluded: tuple[str, ...] = ()
    """Tools that are out of service now."""
    media: tuple[tuple[str, Any], ...] = ()
    """What tools gave that is no text, by the id of the call; only in the process where they ran."""
    conversation: bool = False
    """Whether there are earlier messages."""


@dataclass(frozen=True)
class CallTool:
    """Run these calls: `CallTool.of("look_up", key="a")`; the driver calls `AgentRun.tool_finished` for each."""

    calls: tuple[ToolCall, ...]

    @property
    def call(self) -> ToolCall:
        """The first of them."""
        return self.calls[0]

    @classmethod
    def of(cls, name: str, **args: Any) -> CallTool:
        """Make a call that an agent's hook asks for; the machine gives it its id."""
        return cls((ToolCall(id="", name=name, args=args),))


@dataclass(frozen=True)
class Wait:
    """Ask again after this many seconds: `Wait(0.5)`."""

    seconds: float


@dataclass(frozen=True)
class Done:
    """The run is over, `Done({"answer": "42"})`; `AgentRun.output` holds the result."""

    outputs: dict[str, Any] | None = None
    """From an agent's hook: the signature's outputs."""


Step = AskModel | CallTool | Wait | Done
