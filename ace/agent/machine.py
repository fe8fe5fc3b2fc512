"""The state machine of one run. It does no I/O: it says what to do next and is told what came of it."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from ace.agent.output import build_output
from ace.agent.policy import Continue, Decision, Fail, Interrupt, Observe, Policy, PolicyEngine, Reprompt
from ace.agent.states import (
    Acting,
    AskModel,
    CallTool,
    Completed,
    Done,
    Failed,
    Idle,
    Interrupted,
    ModelReply,
    State,
    Thinking,
)
from ace.agent.trajectory import render_trajectory
from ace.core import (
    AgentError,
    Event,
    EventKind,
    InternalInvariant,
    InvalidModelAction,
    Observer,
    PolicyRuntimeViolation,
    RunUsage,
    ToolDispatch,
    clean_text,
    clean_value,
)
from ace.tasks import ReasoningStep, StepError, TaskInput, TaskOutput, TerminationReason
from ace.tools import Tool, ToolCall, ToolRegistry, ToolResult, check_call

FINISH = "finish"
S = TypeVar("S", bound=State)
_CITED = re.compile(r"\[(b-\d+)\]")


@dataclass(frozen=True)
class RunSpec:
    """What a run is given; it does not change while it runs."""

    task: TaskInput
    registry: ToolRegistry
    finish: Tool
    """Its arguments are the signature's outputs; when they fit, no `extract` request is needed."""
    max_iters: int
    policy: PolicyEngine = field(default_factory=Policy)
    observers: tuple[Observer, ...] = ()
    injected_bullets: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    clock: Callable[[], float] = time.time


class AgentRun:
    """One run, from `Idle` to `Completed`, `Failed` or `Interrupted`.

    A driver calls `next_step()`, does what it says, and reports back with exactly one of `model_replied`,
    `model_failed` and `tool_finished`; so sync, async and streaming drivers share every rule.
    """

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.run_id = uuid.uuid4().hex
        self.state: State = Idle()
        self.steps: list[ReasoningStep] = []
        self.usage = RunUsage()
        self._notes: list[str] = []
        self._reprompts_here = 0
        self._outputs: dict[str, Any] = {}
        self._cited: list[str] = []
        self._forced_by: TerminationReason | None = None
        self._seq = 0
        self._observers = list(spec.observers)
        self._started = spec.clock()
        self._call_started = 0.0

    # -- what to do next -------------------------------------------------------------------------------------------

    def next_step(self) -> AskModel | CallTool | Done:
        """Say what the driver is to do; asking twice changes nothing."""
        if isinstance(self.state, Idle):
            self._emit("run_started", tools=len(self.spec.registry), max_iters=self.spec.max_iters)
            self._think(self.state.start())
        match self.state:
            case Thinking(purpose=purpose):
                return AskModel(purpose, render_trajectory(self.steps, self._notes))
            case Acting(call=call):
                return CallTool(call)
            case _:
                return Done()

    def tool(self, call: ToolCall) -> Tool:
        """The tool that a call is meant for."""
        return self.spec.registry.get(call.name)

    def _think(self, state: Thinking) -> None:
        """Enter `Thinking`, unless the budget is spent: then one tool-free answer is asked for."""
        spent = self.usage.iterations + self.usage.reprompts
        if state.purpose == "decide" and spent >= self.spec.max_iters:
            state = state.extract(forced_by="max_iterations")
            self._forced_by = "max_iterations"
        self.state = state
        self._emit("model_request_started", purpose=state.purpose)

    # -- what came of it ---------------------------------------------------------------------------------------------

    def model_replied(self, reply: ModelReply) -> None:
        """The model answered; whether its answer is a legal action is found out here."""
        state = self._expect(Thinking)
        self._spend(reply.usage)
        self._emit("model_request_completed", purpose=state.purpose)
        try:
            reply = replace(
                reply,
                thought=clean_text(reply.thought),
                tool_name=clean_value(reply.tool_name),
                tool_args=clean_value(reply.tool_args),
                outputs=clean_value(reply.outputs),
            )
        except RecursionError:
            self._invalid(state, InvalidModelAction("invalid_args", "The arguments are nested too deeply."), "")
            return
        if state.purpose == "extract":
            self._outputs = reply.outputs
            self._end(state.complete())
        elif reply.tool_name == FINISH:
            self._finish(state, reply)
        else:
            try:
                call = check_call(self.spec.registry, reply.tool_name, reply.tool_args, f"{self._step_id()}-c1")
            except InvalidModelAction as error:
                self._invalid(state, error, reply.thought)
            else:
                self._commit(reply.thought)
                self.state = state.act(call, reply.thought)
                self._call_started = self.spec.clock()
                self._emit("tool_call_started", tool_call_id=call.id, tool=call.name)

    def model_failed(self, error: AgentError) -> None:
        """No usable reply came: transport failed, or the text could not be parsed."""
        state = self._expect(Thinking)
        self._spend(getattr(error, "usage", RunUsage(lm_calls=1)))
        if state.purpose == "extract":
            self._emit("model_request_error", purpose="extract", error=error.kind)
            self._end(state.complete() if state.forced_by else state.fail(error))
        else:
            self._invalid(state, error, "")

    def tool_finished(self, result: ToolResult) -> None:
        """A tool came back, well or not."""
        acting = self._expect(Acting)
        if result.tool_call_id != acting.call.id:
            raise InternalInvariant(f"result of {result.tool_call_id!r} while {acting.call.id!r} is out")
        state = acting.observe(result)
        self.state = state
        self.usage += RunUsage(tool_calls=1)
        failed = result.outcome != "success"
        error = StepError(kind=result.error_kind or "exception", message=result.text) if failed else None
        self._add_step(acting, result, error)
        kind: EventKind = "tool_call_error" if failed else "tool_call_completed"
        self._emit(kind, tool_call_id=result.tool_call_id, tool=acting.call.name, outcome=result.outcome)
        decision = self.spec.policy.on_tool_error(result) if failed else Continue()
        match decision:
            case Continue():
                self._think(state.think())
            case Fail():
                self._end(state.fail(ToolDispatch(f"{acting.call.name}: {result.text}")))
            case Interrupt(reason):
                self._end(Interrupted(reason))
            case _:
                raise self._violation(decision, "a failed tool", "Continue, Fail and Interrupt")

    # -- transitions -------------------------------------------------------------------------------------------------

    def _finish(self, state: Thinking, reply: ModelReply) -> None:
        self._commit(reply.thought)
        try:
            fields = self.spec.finish.args_model.model_validate(reply.tool_args or {})
        except Exception:  # missing or ill-typed, or a validator of the user's own raised: the answer must be asked for
            self._think(state.extract())
            return
        values = {name: getattr(fields, f"p{i}") for i, name in enumerate(self.spec.finish.parameters)}
        self._cited.extend(values.pop("cited_bullets", ()))
        self._outputs = values
        self._end(state.complete())

    def _invalid(self, state: Thinking, error: AgentError, thought: str) -> None:
        self._emit("model_request_error", purpose="decide", error=error.kind)
        match self.spec.policy.on_model_error(error, self._reprompts_here):
            case Fail():
                self._end(state.fail(error))
            case Reprompt(with_catalogue):
                note = str(error)
                if with_catalogue:
                    note += f" Tools: {', '.join((*self.spec.registry.names, FINISH))}."
                self._notes.append(clean_text(note))
                self._reprompts_here += 1
                self.usage += RunUsage(reprompts=1)
                self._think(state.think_again(committed=False))
            case Observe() if isinstance(error, InvalidModelAction):
                self._commit(thought)
                self._add_invalid_step(state, error, thought)
                self._think(state.think_again(committed=True))
            case Interrupt(reason):
                self._end(Interrupted(reason))
            case decision:
                raise self._violation(
                    decision, error.kind, "Fail, Reprompt, Interrupt, and Observe for an invalid action"
                )

    def _violation(self, decision: Decision, what: str, legal: str) -> PolicyRuntimeViolation:
        return PolicyRuntimeViolation(
            f"policy {self.spec.policy.name!r} answered {decision!r} to {what}; legal are {legal}"
        )

    def _commit(self, thought: str) -> None:
        """A decision counts: the notes about rejected replies have done their work."""
        self.usage += RunUsage(iterations=1)
        self._cited.extend(_CITED.findall(thought))
        self._notes.clear()
        self._reprompts_here = 0

    def _add_step(self, acting: Acting, result: ToolResult, error: StepError | None) -> None:
        self.steps.append(
            ReasoningStep(
                iteration=acting.iteration,
                thought=acting.thought,
                tool_call_id=acting.call.id,
                tool_name=acting.call.name,
                tool_args=acting.call.args,
                outcome=result.outcome,
                observation=result.text,
                changes_state=not self.tool(acting.call).read_only,
                executed=True,
                error=error,
                seconds=result.seconds,
                timestamp=self._call_started,
            )
        )

    def _add_invalid_step(self, state: Thinking, error: InvalidModelAction, thought: str) -> None:
        received: Any = clean_value(error.received_args)
        args = cast(dict[str, Any], received) if isinstance(received, dict) else {}
        self.steps.append(
            ReasoningStep(
                iteration=state.iteration,
                thought=thought,
                tool_call_id=f"{self._step_id()}-c1",
                tool_name=clean_text(error.tool_name or ""),
                tool_args=args,
                outcome="failed",
                observation=clean_text(error.message),
                error=StepError(kind=error.reason, message=clean_text(error.message), received_args=received),
                timestamp=self.spec.clock(),
            )
        )

    def _end(self, state: Completed | Failed | Interrupted) -> None:
        self.state = state
        if isinstance(state, Failed):
            self._emit("run_error", error=state.error.kind)
        else:
            self._emit("run_completed", termination_reason=self._termination())

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _expect(self, kind: type[S]) -> S:
        if not isinstance(self.state, kind):
            raise InternalInvariant(f"expected {kind.__name__}, the run is {type(self.state).__name__}")
        return self.state

    def _spend(self, usage: RunUsage) -> None:
        self.usage += usage

    def _step_id(self) -> str:
        return f"s{getattr(self.state, 'iteration', 0)}"

    def _emit(self, event: EventKind, **data: Any) -> None:
        told = Event(
            kind=event,
            seq=self._seq,
            run_id=self.run_id,
            correlation_id=self.spec.task.task_id,
            step_id="" if event.startswith("run_") else self._step_id(),
            data=data,
        )
        self._seq += 1
        for observer in list(self._observers):
            try:
                observer(told)
            except (Exception, SystemExit):  # an observer cannot hurt the run; it is not asked again
                self._observers.remove(observer)

    def _termination(self) -> TerminationReason:
        if isinstance(self.state, Failed):
            return self.state.error.kind  # pyright: ignore[reportReturnType] - kinds are the reasons, by a test
        if isinstance(self.state, Interrupted):
            return "interrupted"
        return self._forced_by or "completed"

    def output(self) -> TaskOutput:
        """What came out so far; call it when `next_step()` said `Done`."""
        return build_output(
            self.spec.task,
            self.run_id,
            self._termination(),
            outputs=self._outputs,
            error=self._error_message(),
            forced=self._forced_by is not None,
            steps=self.steps,
            usage=self.usage.model_copy(update={"seconds": self.spec.clock() - self._started}),
            injected=self.spec.injected_bullets,
            cited=self._cited,
            metadata=self.spec.metadata,
        )

    def _error_message(self) -> str:
        """What ended the run before the model finished; empty when it did."""
        match self.state:
            case Failed(error):
                return str(error)
            case Interrupted(reason):
                return reason
            case _:
                return f"no answer after {self.spec.max_iters} iterations" if self._forced_by else ""
