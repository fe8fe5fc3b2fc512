"""What a run knows and has spent: steps, usage, errors, notes, events. It takes no decisions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from ace.agent.breaker import Breaker
from ace.agent.hooks import Agent, StepView
from ace.agent.output import build_output
from ace.agent.policy import RunView
from ace.agent.progress import Circles
from ace.agent.spec import RunSpec
from ace.agent.states import Acting, CallState, Completed, Failed, Idle, Interrupted, State
from ace.agent.trajectory import render_notes, render_step, render_summary
from ace.core import AgentError, Event, EventKind, RunUsage
from ace.tasks import ErrorRecord, ReasoningStep, RunSummary, TaskOutput, TerminationReason
from ace.tools import ToolResult

_CITED = re.compile(r"\[(b-\d+)\]")


class Ledger(ABC):
    """The books of one run."""

    def __init__(self, spec: RunSpec, run_id: str) -> None:
        self.spec = spec
        self.run_id = run_id
        self.state: State = Idle()
        self.scratch: dict[str, Any] = {}
        self.steps: list[ReasoningStep] = []
        self.usage: RunUsage = RunUsage()
        self.summary: RunSummary | None = None
        self.summarised: int = 0
        self.breakers: dict[str, Breaker] = {}
        self.error: AgentError | None = None
        """What ended the run, as it was raised; only in the process where it happened."""
        self._rendered: list[str] = []
        self.circles = Circles()
        self._summary_tried: int = 0
        self._decisions = 0
        self._charged: int = 0
        self._notes: list[str] = []
        self._reprompts_here: int = 0
        self._outputs: dict[str, Any] = {}
        self._cited: list[str] = []
        self._errors: list[ErrorRecord] = []
        self._forced_by: TerminationReason | None = None
        self._finish_after: dict[str, Any] | None = None
        self._prompt: str | None = None
        self._seq = 0
        self._call_started: dict[str, float] = {}
        self._started = spec.clock.now()
        self._limited = spec.limits.model_dump(exclude_none=True).keys() != set()

    # -- the state that every agent offers (`AgentState`) ------------------------------------------------------------

    @property
    def user_input(self) -> str:
        """The task's text."""
        return self.spec.task.text

    @property
    def step_count(self) -> int:
        """Committed decisions so far."""
        return self.usage.iterations

    @property
    def correlation_id(self) -> str:
        """The task's id."""
        return self.spec.task.task_id

    def append_scratchpad(self, entry: ReasoningStep) -> None:
        """Add a step that was made elsewhere."""
        self._append(entry)

    def set_final_output(self, outputs: dict[str, Any]) -> None:
        """Set the signature's outputs."""
        self._outputs = dict(outputs)

    # -- views -------------------------------------------------------------------------------------------------------

    def view(self) -> StepView:
        """What a hook may look at."""
        task, steps = self.spec.task, tuple(self.steps)
        return StepView(task, steps, self.usage, self.trajectory(), self.summary, self.scratch)

    def run_view(self, attempt: int) -> RunView:
        """What a policy may look at."""
        return RunView(
            user_input=self.user_input,
            correlation_id=self.correlation_id,
            step_count=self.usage.iterations,
            attempt=attempt,
            reprompts=self._reprompts_here,
            usage=self.usage,
        )

    def trajectory(self) -> str:
        """The steps as the model reads them: the summary, the steps that it does not stand for, and notes."""
        shown = self._rendered
        parts: list[str] = []
        if self.summary is not None:
            parts.append(render_summary(self.summary))
            keep = self.spec.summary.keep_last if self.spec.summary else None
            if keep is not None:
                shown = shown[max(0, self.summarised - keep) :]
        return "\n\n".join([*parts, *shown, *render_notes(self._notes)])

    def usage_now(self) -> RunUsage:
        """The ledger with the time that has passed."""
        seconds = self.usage.seconds + max(0.0, self.spec.clock.now() - self._started)
        return self.usage.model_copy(update={"seconds": seconds})

    @property
    def _spent(self) -> int:
        """Of `max_iters`: committed decisions, and the retries and reprompts that cost budget."""
        return self.usage.iterations + self._charged

    def _over(self) -> str:
        """The hard limit that is used up, in words."""
        return self.spec.limits.exceeded(self.usage_now()) if self._limited else ""

    # -- booking -----------------------------------------------------------------------------------------------------

    def _spend_lm(self, usage: RunUsage) -> None:
        if self.spec.prices is not None and not usage.cost:
            cost = self.spec.prices.cost(usage.input_tokens, usage.output_tokens)
            usage = usage.model_copy(update={"cost": cost})
        self.usage += usage
        if self.spec.tally is not None:
            self.spec.tally.add(usage)

    def _commit(self, thought: str) -> None:
        """A decision counts: the notes about rejected replies have done their work."""
        self.usage += RunUsage(iterations=1)
        self._cited.extend(_CITED.findall(thought))
        self._notes.clear()
        self._reprompts_here = 0

    def _append(self, step: ReasoningStep) -> None:
        self._rendered.append(render_step(len(self.steps), step))
        self.steps.append(step)
        if step.error is not None and not step.executed:
            self._errors.append(
                _record(step.tool_name, step.error.kind, step.error.message, step.iteration, step.timestamp)
            )
        if self._overrides("update_summary"):
            summary = self.spec.agent.update_summary(self.view(), step)
            if summary is not None:
                self.summary, self.summarised = summary, len(self.steps)

    def _overrides(self, hook: str) -> bool:
        """Whether the agent has a hook of its own; the defaults are not worth a view of the whole run."""
        return getattr(type(self.spec.agent), hook) is not getattr(Agent, hook)

    def _record_error(self, call: CallState, result: ToolResult) -> None:
        """A call failed: one record per decision, counting its retries."""
        kind, retries = result.error_kind or "exception", call.tried - 1
        iteration = getattr(self.state, "iteration", 0)
        record = _record(call.call.name, kind, result.text, iteration, self._call_started.get(call.id, 0.0))
        record = record.model_copy(update={"retries": retries})
        if (
            retries
            and self._errors
            and self._errors[-1].tool == record.tool
            and self._errors[-1].retries == retries - 1
        ):
            self._errors[-1] = record
        else:
            self._errors.append(record)

    # -- events ------------------------------------------------------------------------------------------------------

    def _step_id(self) -> str:
        return f"s{getattr(self.state, 'iteration', 0)}"

    def _emit(self, kind: EventKind, **data: Any) -> None:
        seq, self._seq = self._seq, self._seq + 1
        if not (self.spec.listeners or self.spec.relays):
            return
        event = Event(
            kind=kind,
            seq=seq,
            run_id=self.run_id,
            correlation_id=self.spec.task.task_id,
            step_id="" if kind.startswith("run_") else self._step_id(),
            timestamp=self.spec.clock.now(),
            data=data,
        )
        for listener in self.spec.listeners:
            listener(event)
        for relay in self.spec.relays:
            relay.send(event)

    def _end(self, state: Completed | Failed | Interrupted) -> None:
        before = self.state
        if isinstance(before, Acting) and not isinstance(state, Interrupted):
            for step in self.steps_so_far(before)[len(self.steps) :]:
                self._append(step)
        self.state = state
        match state:
            case Failed(error):
                self._emit("run_error", error=error)
            case Interrupted(cause="cancelled"):
                self._emit("run_cancelled", reason=state.reason)
            case Interrupted():
                self._emit("run_paused", reason=state.reason, cause=state.cause)
            case _:
                self._emit("run_completed", termination_reason=self._termination())

    # -- what came out -----------------------------------------------------------------------------------------------

    def steps_so_far(self, state: State) -> list[ReasoningStep]:
        """All steps, those of a decision that is not yet fully observed included."""
        acting = state.then if isinstance(state, Interrupted) else state
        if not isinstance(acting, Acting):
            return list(self.steps)
        return [*self.steps, *self.steps_of(acting.calls, acting.thought, acting.iteration)]

    @abstractmethod
    def steps_of(self, calls: tuple[CallState, ...], thought: str, iteration: int) -> list[ReasoningStep]:
        """The settled ones of some calls as steps."""

    def _termination(self) -> TerminationReason:
        if isinstance(self.state, Failed):
            return self.state.error
        if isinstance(self.state, Interrupted):
            return "interrupted"
        return self._forced_by or "completed"

    def output(self) -> TaskOutput:
        """What came out so far; call it when `next_step()` said `Done`."""
        state = self.state
        return build_output(
            self.spec.task,
            self.run_id,
            self._termination(),
            outputs=self._outputs,
            error=self._error_message(),
            forced=self._forced_by is not None,
            steps=self.steps_so_far(state),
            usage=self.usage_now(),
            errors=self._errors,
            summary=self.summary,
            request=state.request if isinstance(state, Interrupted) else None,
            injected=self.spec.injected_bullets,
            cited=self._cited,
            metadata=self.spec.metadata,
        )

    def _error_message(self) -> str:
        """What ended the run before the model finished; empty when it did."""
        match self.state:
            case Failed(message=message):
                return message
            case Interrupted(reason=reason):
                return reason
            case _ if self._forced_by == "max_iterations":
                return f"no answer after {self.spec.max_iters} iterations"
            case _ if self._forced_by == "no_progress":
                return "the same call gave the same result again and again; the answer was asked for"
            case _ if self._forced_by is not None:
                return f"the answer was forced: {self._forced_by.replace('_', ' ')}"
            case _:
                return ""


def _record(tool: str, kind: str, message: str, iteration: int, timestamp: float) -> ErrorRecord:
    return ErrorRecord(iteration=iteration, tool=tool, kind=kind, message=message, timestamp=timestamp)
