"""The state machine of one run. It does no I/O: it says what to do next and is told what came of it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any, cast

from ace.agent.calling import Calling
from ace.agent.policy import (
    AppendErrorAndContinue,
    Fail,
    ForceAnswer,
    Interrupt,
    OnceWithToolCatalog,
    PolicyDecision,
    Reprompt,
    Retry,
)
from ace.agent.spec import RunSpec
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
    Observing,
    RequestedTool,
    State,
    Step,
    Thinking,
    Wait,
)
from ace.core import AgentError, InternalInvariant, InvalidModelAction, RunUsage, clean_text, clean_value, json_value
from ace.tasks import ReasoningStep, RunSummary, StepError, TerminationReason
from ace.tools import ToolCall, ToolResult, check_call

FINISH = "finish"


class AgentRun(Calling):
    """One run, from `Idle` to `Completed`, `Failed` or `Interrupted`.

    A driver calls `next_step()`, does what it says, and reports back with `model_replied` or `model_failed` for a request
    and with one `tool_finished` per call; so sync, async and streaming drivers share every rule.
    """

    def __init__(self, spec: RunSpec, run_id: str = "") -> None:
        super().__init__(spec, run_id or uuid.uuid4().hex)
        self.state: State = Idle()

    # -- what to do next -------------------------------------------------------------------------------------------

    def next_step(self) -> Step:
        """Say what the driver is to do; asking twice changes nothing."""
        if isinstance(self.state, Idle):
            self._begin(self.state)
        if self.spec.cancellation.cancelled and isinstance(self.state, (Thinking, Acting)):
            self.cancel(self.spec.cancellation.reason)
        while True:
            match self.state:
                case Thinking() as state:
                    step = self._ask(state)
                case Acting() as state:
                    step = self._call(state)
                case _:
                    return Done()
            if step is not None:
                return step

    def _begin(self, state: Idle) -> None:
        self.scratch = self.spec.agent.initialize(self.spec.task)
        self._emit("run_started", tools=len(self.spec.registry), max_iters=self.spec.max_iters)
        self._think(state.start())

    def _ask(self, state: Thinking) -> Step | None:
        """The request that is due; None when the agent's own hook decided instead."""
        if not state.asked:
            if (left := state.not_before - self.spec.clock.now()) > 0:
                return Wait(left)
            if state.purpose == "decide" and self._hook_decides(state):
                return None
            self.state = state = state.ask()
            self._emit("model_request_started", purpose=state.purpose)
        own = self._prompt if state.purpose == "decide" else None
        return AskModel(state.purpose, self.trajectory() if own is None else own, self._excluded())

    def _hook_decides(self, state: Thinking) -> bool:
        """Let the agent say what a step is; True when it needs no model for it."""
        self._prompt = None
        if not self._overrides("execute_step"):
            return False
        match self.spec.agent.execute_step(self.view()):
            case AskModel(trajectory=text):
                self._prompt = text
                return False
            case CallTool(calls):
                self._commit("")
                self._act(state, "", [RequestedTool(call.name, call.args) for call in calls])
            case Done(outputs):
                self._commit("")
                self._finish(state, outputs or {})
        return True

    def _think(self, state: Thinking, force: TerminationReason | None = None) -> None:
        """Enter `Thinking`; when the budget is spent, for one last answer without tools, or not at all."""
        if problem := self._over():
            self._end(state.fail("budget_exceeded", problem))
            return
        if state.purpose == "decide":
            limits = self.spec.limits
            if force is None and self._spent >= self.spec.max_iters:
                force = "max_iterations"
            elif force is None and limits.last_answer_due(self.usage):
                force = "budget_exceeded"
            elif force is None and self._hook_stops():
                state = state.extract()
            elif force is None and self._summary_due():
                state = state.summarize()
        if force is not None:
            state = state.extract(forced_by=force)
            self._forced_by = force
        self.state = state

    def _hook_stops(self) -> bool:
        return self._overrides("should_stop") and bool(self.spec.agent.should_stop(self.view()))

    def _summary_due(self) -> bool:
        setting = self.spec.summary
        if setting is None or len(self.steps) < self._summary_tried + setting.every:
            return False
        limit = self.spec.limits.lm_calls
        return limit is None or self.usage.lm_calls < limit - 2  # a decision and the last answer come first

    # -- what came of a request ----------------------------------------------------------------------------------------

    def model_replied(self, reply: ModelReply) -> None:
        """The model answered; whether its answer is a legal action is found out here."""
        if self._fenced():
            return
        state = self._asked()
        self._spend_lm(reply.usage)
        self._emit("model_request_completed", purpose=state.purpose)
        try:
            if state.purpose == "summarize":
                self._summarised(state, reply.outputs)
            elif state.purpose == "extract":
                self._outputs = clean_value(reply.outputs)
                self._end(state.complete())
            else:
                self._decide(state, reply)
        except RecursionError:
            self._invalid(state, InvalidModelAction("invalid_args", "The arguments are nested too deeply."), "")

    def model_failed(self, error: AgentError) -> None:
        """No usable reply came: transport failed, or the text could not be parsed."""
        if self._fenced():
            return
        state = self._asked()
        self._spend_lm(getattr(error, "usage", None) or RunUsage(lm_calls=1))
        if state.purpose == "summarize":
            self._emit("model_request_error", purpose="summarize", error=error.kind)
            self._summary_tried = len(self.steps)  # the steps stay raw; the next summary is due later
            self._think(state.think_again(committed=False))
        else:
            self._invalid(state, error, "")

    def model_delta(self, text: str) -> None:
        """A piece of the reply, while it is still coming; nothing depends on it."""
        if isinstance(self.state, Thinking) and self.state.asked:
            self._emit("model_request_delta", text=clean_text(text))

    def _summarised(self, state: Thinking, fields: dict[str, Any]) -> None:
        self.summary = RunSummary(**{name: clean_text(str(fields.get(name) or "")) for name in RunSummary.model_fields})
        self.summarised = self._summary_tried = len(self.steps)
        self.usage += RunUsage(summaries=1)
        self._think(state.think_again(committed=False))

    def _decide(self, state: Thinking, reply: ModelReply) -> None:
        thought = clean_text(reply.thought)
        asked = [RequestedTool(reply.tool_name, reply.tool_args), *reply.more]
        wanted = [RequestedTool(json_value(tool.name), json_value(tool.args)) for tool in asked]
        ends = [tool for tool in wanted if tool.name == FINISH]
        calls = [tool for tool in wanted if tool.name != FINISH]
        if not calls:
            self._commit(thought)
            self._finish(state, ends[-1].args)
            return
        checked: list[ToolCall] = []
        problems: dict[int, InvalidModelAction] = {}
        for index, tool in enumerate(calls):
            try:
                call_id = f"{self._step_id()}-c{index + 1}"
                checked.append(check_call(self.spec.registry, tool.name, tool.args, call_id, self._excluded()))
            except InvalidModelAction as error:
                problems[index] = error
        if problems:
            first = next(iter(problems.values()))
            self._invalid(state, first, thought, calls, problems)
            return
        self._commit(thought)
        self._finish_after = _as_object(ends[-1].args) if ends else None
        self._enter(state.act(tuple(checked), thought))

    def _act(self, state: Thinking, thought: str, wanted: list[RequestedTool]) -> None:
        """Calls that the agent's own hook asked for; they have to be right."""
        try:
            calls = [
                check_call(self.spec.registry, tool.name, json_value(tool.args), f"{self._step_id()}-c{i + 1}")
                for i, tool in enumerate(wanted)
            ]
        except InvalidModelAction as error:
            self._end(state.fail("invalid_model_action", f"{type(self.spec.agent).__name__}.execute_step: {error}"))
        else:
            self._enter(state.act(tuple(calls), thought))

    def _finish(self, state: Thinking | Observing, args: Any) -> None:
        thinking = state.think() if isinstance(state, Observing) else state
        try:
            fields = self.spec.finish.args_model.model_validate(args or {})
        except Exception:  # missing or ill-typed, or a validator of the user's own raised: the answer must be asked for
            self._think(thinking.extract())
            return
        values = {name: getattr(fields, f"p{i}") for i, name in enumerate(self.spec.finish.parameters)}
        self._cited.extend(values.pop("cited_bullets", ()))
        self._outputs = values
        self._end(thinking.complete())

    # -- what is illegal -----------------------------------------------------------------------------------------------

    def _invalid(
        self,
        state: Thinking,
        error: AgentError,
        thought: str,
        calls: list[RequestedTool] | None = None,
        problems: dict[int, InvalidModelAction] | None = None,
    ) -> None:
        self._emit("model_request_error", purpose=state.purpose, error=error.kind)
        decision = self._judge(lambda: self.spec.policy.on_model_error(self.run_view(state.attempt), error))
        bad = isinstance(error, InvalidModelAction)
        match decision:
            case Retry() if state.attempt < decision.policy.max_attempts and self._affordable(decision.consume_budget):
                self.usage += RunUsage(retries=1)
                self._charged += decision.consume_budget
                self._think(state.retry(self._not_before(decision, state.attempt, self._step_id())))
            case Reprompt() if bad and self._reprompts_here < decision.strategy.n and state.purpose == "decide":
                self._reprompt(state, decision, error)
            case AppendErrorAndContinue() if bad and state.purpose == "decide":
                self._commit(thought)
                for index, (wanted, problem) in enumerate(_rejected(error, calls, problems)):
                    self._add_invalid_step(state, index, wanted, problem, thought)
                self._think(state.think_again(committed=True))
            case ForceAnswer() if state.purpose == "decide":
                self._think(state, force=error.kind)  # pyright: ignore[reportArgumentType] - kinds are reasons, by a test
            case Interrupt(reason):
                self._end(state.interrupt(clean_text(reason)))
            case Fail() | Retry() | Reprompt() | AppendErrorAndContinue() | ForceAnswer() if bad or not isinstance(
                decision, (Reprompt, AppendErrorAndContinue)
            ):
                self._give_up(state, error)
            case _:
                legal = "Fail, Retry, Interrupt, ForceAnswer; for an invalid action Reprompt and AppendErrorAndContinue"
                self._violation(decision, error.kind, legal)

    def _reprompt(self, state: Thinking, decision: Reprompt, error: AgentError) -> None:
        note = str(error)
        catalogue = isinstance(decision.strategy, OnceWithToolCatalog)
        if catalogue or (isinstance(error, InvalidModelAction) and error.reason == "unknown_tool"):
            names = [name for name in self.spec.registry.names if name not in self._excluded()]
            note += f" Tools: {', '.join((*names, FINISH))}."
        self._notes.append(clean_text(note))
        self._reprompts_here += 1
        self.usage += RunUsage(reprompts=1)
        self._charged += decision.consume_budget
        self._think(state.think_again(committed=False))

    def _give_up(self, state: Thinking, error: AgentError) -> None:
        self.error = error
        if state.forced_by:
            self._end(state.complete())  # the reason it was forced is what ended the run
        else:
            self._end(state.fail(_reason(error), str(error)))

    def _violation(self, decision: Any, what: str, legal: str) -> None:
        """The policy answered with something that makes no sense here: the run ends, nothing is guessed."""
        text = f"policy {self.spec.policy.name!r} answered {decision!r} to {what}; legal are {legal}"
        state = self.state
        if isinstance(state, (Thinking, Acting, Observing)):
            self._end(state.fail("policy_runtime_violation", text))

    def _add_invalid_step(
        self, state: Thinking, index: int, wanted: RequestedTool, error: InvalidModelAction | None, thought: str
    ) -> None:
        received = wanted.args
        message = clean_text(error.message) if error else "Not called, because another call of this reply was invalid."
        kind = error.reason if error else "cancelled"
        self._append(
            ReasoningStep(
                iteration=state.iteration,
                thought=thought,
                tool_call_id=f"s{state.iteration}-c{index + 1}",
                tool_name=clean_text(
                    wanted.name if isinstance(wanted.name, str) else (error and error.tool_name) or ""
                ),
                tool_args=_as_object(received) or {},
                outcome="failed",
                observation=message,
                error=StepError(kind=kind, message=message, received_args=received),
                timestamp=self.spec.clock.now(),
            )
        )

    # -- stopping from outside -----------------------------------------------------------------------------------------

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop now, whatever is out; the run can go on later, and late results are fenced off."""
        state = self.state
        reason = clean_text(reason)
        if isinstance(state, Idle):
            self._begin(state)
            state = self.state
        if isinstance(state, Thinking):
            if state.asked:
                self._spend_lm(RunUsage(lm_calls=1))  # it went out; what it cost is not known
                self._emit("model_request_error", purpose=state.purpose, error="cancelled")
            self._end(state.interrupt(reason, "cancelled"))
        elif isinstance(state, Acting):
            for index, call in enumerate(state.calls):
                if call.status == "out":
                    text = f"{call.call.name} was cancelled while it ran; its effect is unknown."
                    state = self._settle(
                        state,
                        index,
                        ToolResult(tool_call_id=call.id, outcome="interrupted", text=text, error_kind="cancelled"),
                    )
            self.state = state
            self._end(state.interrupt(reason, "cancelled"))

    # -- small things --------------------------------------------------------------------------------------------------

    def _enter(self, state: Acting) -> None:
        """Start acting, unless a call needs somebody's consent first."""
        self.state = state
        if request := self._approval(state):
            self._end(state.interrupt(request.reason, "approval", request))

    def _asked(self) -> Thinking:
        state = self.state
        if not isinstance(state, Thinking) or not state.asked:
            raise InternalInvariant(f"a reply came, but the run is {type(state).__name__} and asked for none")
        return state

    def _fenced(self) -> bool:
        """Whether the run is over for now: a reply that comes later changes nothing."""
        return isinstance(self.state, (Completed, Failed, Interrupted))

    def _affordable(self, consume_budget: bool) -> bool:
        return not consume_budget or self._spent < self.spec.max_iters

    def _not_before(self, decision: Retry, attempt: int, what: str) -> float:
        """When a retry is due; the jitter depends on nothing but the run, so that a replay waits as long."""
        draw = random.Random(f"{self.run_id}/{what}/{attempt}").random()
        return self.spec.clock.now() + decision.policy.delay(attempt, draw)

    def _judge(self, ask: Callable[[], PolicyDecision]) -> PolicyDecision | Exception:
        try:
            return ask()
        except Exception as error:  # a policy is the user's code; what it raised is in the violation
            return error


def _as_object(args: Any) -> dict[str, Any] | None:
    return cast(dict[str, Any], args) if isinstance(args, dict) else None


def _rejected(
    error: AgentError, calls: list[RequestedTool] | None, problems: dict[int, InvalidModelAction] | None
) -> list[tuple[RequestedTool, InvalidModelAction | None]]:
    """Every call of a rejected reply with its problem, if it has one."""
    if calls and problems:
        return [(call, problems.get(index)) for index, call in enumerate(calls)]
    invalid = error if isinstance(error, InvalidModelAction) else InvalidModelAction("unparsable", str(error))
    return [(RequestedTool(json_value(invalid.tool_name), json_value(invalid.received_args)), invalid)]


def _reason(error: AgentError) -> TerminationReason:
    return error.kind  # pyright: ignore[reportReturnType] - kinds are the reasons, by a test
