"""Data models of tasks, steps and results, shared by all packages.

Frozen pydantic models without DSPy, so that they travel as JSON between processes, machines and frameworks.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from ace.core import RunUsage, value_to_text
from ace.core.text import counted

TerminationReason = Literal[
    "completed",
    "max_iterations",
    "no_progress",
    "budget_exceeded",
    "invalid_model_action",
    "model_transport",
    "tool_dispatch",
    "interrupted",
    "policy_runtime_violation",
    "internal_invariant",
]
"""Why a run ended. Only `completed` means that the model itself finished; `interrupted` that the run can go on."""

Outcome = Literal["success", "failed", "denied", "interrupted", "retried"]
"""The outcome of one tool call."""


GOOD_SCORE = 0.5
"""A metric's number from here on counts as success."""


class TaskInput(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What the agent is asked to do.

    Examples:
        >>> TaskInput(inputs={"task": "Refund order 17"}, domain="support").domain
        'support'
    """

    task_id: str = Field(default_factory=lambda: f"task-{uuid.uuid4().hex[:12]}")
    inputs: dict[str, Any]
    """The signature's input fields by name."""
    domain: str | None = None
    """Narrows which bullets of the playbook apply."""
    tenant: str | None = None
    """Bullets of another tenant are never shown."""
    user: str | None = None
    """Who asks: a public service may want lessons that several users have taught (`Playbook(promote_after=...)`)."""
    max_iters: int | None = Field(default=None, ge=0)
    """Overrides the agent's own limit."""
    instructions: str = ""
    """What holds for this task beside the agent's own instructions, as an application's system message."""
    history: tuple[dict[str, Any], ...] = ()
    """The earlier messages of the conversation as JSON, oldest first; see `ace.agent.conversation`."""

    @property
    def text(self) -> str:
        """The inputs as one text: what retrieval searches with."""
        return "\n".join(value_to_text(value) for value in self.inputs.values())


def answer_field(outputs: Iterable[str]) -> str:
    """Choose the output that is the answer: the one of that name, else the first; `answer_field(["why", "answer"])`."""
    names = list(outputs)
    return "answer" if "answer" in names or not names else names[0]


class StepError(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Why a step failed, in words fit for the model."""

    kind: str
    """One of `ace.core.ToolErrorKind`: `unknown_tool`, `invalid_args`, `timeout`, `refused` ..."""
    message: str
    received_args: Any = None
    """The arguments as they came, when they could not be used."""
    operator_message: str = ""
    """What the tool says to its operator beside that; never shown to a model."""
    raw_response: str = ""
    """The beginning of the reply that was rejected, where it is known; never shown to a model."""


class ReasoningStep(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """One tool call of `agent.run("x").structured_trace`, with the thought before it and what came back."""

    iteration: int
    """From 1; an iteration is one committed model decision."""
    thought: str = ""
    tool_call_id: str
    provider_id: str = ""
    """As the model's provider named the call; empty where it did not."""
    tool_name: str
    tool_args: dict[str, Any] = Field(default_factory=dict)
    """As the model gave them; empty when they were no object (see `error.received_args`)."""
    outcome: Outcome
    observation: str
    """What the model read."""
    remark: str = ""
    """The end of it that is the agent's own: about other calls of the reply, repetitions, and where to look."""
    changes_state: bool = False
    """Whether the tool may change something: it is not marked `read_only`."""
    executed: bool = False
    """Whether the tool really ran."""
    attempts: int = Field(default=1, ge=1)
    """How often it was called for this one decision; more than 1 after transparent retries."""
    plan: str = ""
    """The lesson whose plan made the call; empty where the model asked for it."""
    error: StepError | None = None
    seconds: float = 0.0
    timestamp: float = 0.0
    """Seconds since 1970 at the start of the call."""

    @property
    def result(self) -> str:
        """The observation without the remark: what the tool said."""
        return self.observation.removesuffix(self.remark).removesuffix(" ") if self.remark else self.observation

    def with_remark(self, remark: str) -> ReasoningStep:
        """Return the step with something more that its agent says about it; unchanged where that is empty."""
        if not remark:
            return self
        said = {"observation": f"{self.observation} {remark}", "remark": f"{self.remark} {remark}".lstrip()}
        return self.model_copy(update=said)


class ErrorRecord(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """One entry of a run's error history."""

    iteration: int
    tool: str
    kind: str
    message: str
    operator_message: str = ""
    """What the tool says to its operator beside that; never shown to a model."""
    retries: int = 0
    """How often the same call was made again without the model knowing."""
    recovered: bool = False
    """Whether a retry, or a later step of the same tool, succeeded."""
    timestamp: float = 0.0


class RunError(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What ended a run before the model finished."""

    kind: TerminationReason
    message: str
    operator_message: str = ""
    """What the tool whose failure ended the run says to its operator; never shown to a model."""


class RequestedCall(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A call that waits for a decision."""

    tool_call_id: str
    tool_name: str
    tool_args: dict[str, Any] = Field(default_factory=dict)


class ApprovalRequest(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What an interrupted run asks: may these calls be made?

    `approval`: a tool requires approval. `unknown_effect`: the process died inside a tool that is not idempotent; to
    approve is to make the call again. `paused`: a tool raised a `Pause`; to approve is to make the call again, now that
    there is an answer.
    """

    kind: Literal["approval", "unknown_effect", "paused"]
    reason: str
    calls: tuple[RequestedCall, ...]
    raised: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)
    """The `Pause`; only in the process where it was raised."""


class RunSummary(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """The running summary of a long run."""

    objective: str = ""
    actions: str = ""
    observations: str = ""
    state: str = ""

    @property
    def text(self) -> str:
        """Its text in the prompt."""
        return "\n".join(f"{name.capitalize()}: {getattr(self, name)}" for name in RunSummary.model_fields)


class MemoryUse(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What a run had of its playbook: `agent.run("x").memory`."""

    status: Literal["used", "empty", "unavailable"]
    """`empty`: nothing in it fits the task. `unavailable`: it could not be read in time, and the run went on without it."""
    reason: str = ""
    """Why it could not be read."""


class Trace(tuple[ReasoningStep, ...]):
    """The calls of a run in their order: `print(agent.run("x").trace)` shows them as a person would read them."""

    __slots__ = ()

    def __str__(self) -> str:
        lines: list[str] = []
        for step in self:
            if step.thought:
                lines.append(f"{step.iteration}. {step.thought}")
            lines.append(f"{step.iteration}. {step.tool_name}({value_to_text(step.tool_args, 400)})")
            lines.append(f"   {step.outcome}: {step.observation[:400]}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        failed = sum(step.outcome != "success" for step in self)
        return f"<Trace: {counted(len(self), 'call')}, {failed} failed>"

    def _repr_markdown_(self) -> str:
        return _as_block(str(self))


class TaskOutput(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What came out of a run: the answer, how it was found, what it cost, and why it ended. `agent.run("x")` returns it."""

    task_id: str
    run_id: str
    task: TaskInput
    answer: Any = None
    """Field `answer` of the signature, else its first output; None when there is none."""
    outputs: dict[str, Any] = Field(default_factory=dict)
    """All output fields of the signature by name."""
    partial: bool = False
    """Whether the answer was forced out of an unfinished run."""
    structured_trace: tuple[ReasoningStep, ...] = ()
    confidence: float | None = None
    """None unless a verifier gave it; never invented."""
    termination_reason: TerminationReason
    error: RunError | None = None
    usage: RunUsage = RunUsage()
    error_history: tuple[ErrorRecord, ...] = ()
    summary: RunSummary | None = None
    """The running summary, when the agent keeps one."""
    request: ApprovalRequest | None = None
    """What an interrupted run waits for; `agent.resume(run_id, decision=...)` answers."""
    injected_bullets: tuple[str, ...] = ()
    """Ids of the bullets in the prompt."""
    cited_bullets: tuple[str, ...] = ()
    """Ids of injected bullets that the model named as ``[b-ID]``."""
    memory: MemoryUse | None = None
    """What the run had of its playbook; None for an agent without one."""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Whether the model itself finished the task."""
        return self.termination_reason == "completed"

    @property
    def tool_usage(self) -> dict[str, int]:
        """How often each tool ran."""
        counts: dict[str, int] = {}
        for step in self.structured_trace:
            if step.executed:
                counts[step.tool_name] = counts.get(step.tool_name, 0) + step.attempts
        return counts

    @property
    def reasoning_trace(self) -> str:
        """The trace as a person would read it, and how the run ended."""
        end = f"{self.termination_reason}: {value_to_text(self.answer, 400)}"
        return "\n".join(filter(None, [str(self.trace), end]))

    @property
    def trace(self) -> Trace:
        """The calls, for people: see `Trace`."""
        return Trace(self.structured_trace)

    def __repr__(self) -> str:
        usage, answer = self.usage, value_to_text(self.answer, 80)
        spent = [
            counted(usage.iterations, "decision"),
            counted(len(self.structured_trace), "call"),
            counted(usage.input_tokens + usage.output_tokens, "token"),
        ]
        return f"<TaskOutput {self.termination_reason}: {answer!r} after {', '.join(spent)}>"

    __str__ = __repr__

    def _repr_markdown_(self) -> str:
        return f"**{self.termination_reason}**: {value_to_text(self.answer)}\n\n{_as_block(str(self.trace))}"


def _as_block(text: str) -> str:
    return f"```text\n{text}\n```"


class NoVerdict(ValueError):
    """A metric could not judge a run, `NoVerdict("the metric gave None")`: nothing is learned from it."""


class Feedback(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """Whether a run did what it should, from a metric, a verifier or a person; never from the model's own claim.

    Examples:
        >>> Feedback(success=False, text="order 17 was not refunded").score
        0.0
    """

    success: bool
    text: str = ""
    """What was wrong, in words a lesson can be made of."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """How sure a judge is; None for a metric, a verifier or a person, who know."""
    trusted: bool = False
    """Whether `text` is the program's or a known person's word; otherwise a lesson made of it waits for a person."""
    details: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, value: Feedback | bool | float) -> Feedback:
        """Make feedback from what a metric gives: True, False, or a number that counts as success from 0.5.

        Examples:
            >>> Feedback.of(0.7).success, Feedback.of(False).success
            (True, False)

        Raises:
            ValueError: It is neither, or a number that is not finite.
        """
        if isinstance(value, Feedback):
            return value
        if isinstance(value, bool):
            return cls(success=value)
        given = getattr(value, "score", value)
        wrong = f"not feedback: {value!r:.100}; expected True, False, a number or a Feedback"
        if isinstance(given, (str, bytes, bytearray)):
            raise ValueError(wrong)
        try:
            score = float(given)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(wrong) from error
        if not math.isfinite(score):
            raise ValueError(f"feedback is {score}, expected a finite number: success from {GOOD_SCORE} on")
        text = str(getattr(value, "feedback", "") or "")
        return cls(success=score >= GOOD_SCORE, text=text, details={"score": score})

    @classmethod
    def by(cls, metric: Callable[..., Any], *judged: Any, threshold: float = GOOD_SCORE) -> Feedback:
        """Make the verdict of a program's own metric, whose words are trusted.

        Args:
            metric: Gives True, False, a number, or something with `score` and `feedback`.
            judged: What it is called with.
            threshold: A number from here on is a success.

        Examples:
            >>> Feedback.by(lambda answer: answer == "42", "42").success
            True

        Raises:
            NoVerdict: It gave None, or a number that is none (NaN).
            ValueError: It is async, or gave something else.
        """
        verdict = metric(*judged)
        if isinstance(verdict, Coroutine):
            verdict.close()
            raise ValueError("the metric is async, and its verdict is needed at once; give a function that returns it")
        if isinstance(verdict, Feedback):
            return verdict
        given = getattr(verdict, "score", verdict)
        if given is None or (isinstance(given, float) and math.isnan(given)):
            raise NoVerdict(f"the metric gave {given} for this run, which is no verdict: nothing is learned from it")
        try:
            found, score = cls.of(verdict), float(given)
        except ValueError as error:
            raise ValueError(f"the metric's verdict is {error}") from error
        return found.model_copy(update={"success": score >= threshold, "trusted": True, "details": {"score": score}})

    @property
    def score(self) -> float:
        """1.0 or 0.0."""
        return float(self.success)


def run_of(called: Any) -> Any:
    """Return the run behind what a call gave, `run_of(agent.forward("x"))`: also where the signature has an `output` of
    its own."""
    told: dict[str, Any] = getattr(called, "_details", None) or {}  # a prediction keeps it beside its fields
    return told.get("output", called) if told else getattr(called, "output", called)
