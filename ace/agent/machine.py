"""The state machine of one run. It does no I/O: it returns the next step and takes in its result."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ace.agent.breaker import Breakers
from ace.agent.conversation import Conversation, SoFar
from ace.agent.hooks import Agent, StepView
from ace.agent.output import build_output
from ace.agent.policy import (
    AppendErrorAndContinue,
    Fail,
    FailedCall,
    ForceAnswer,
    Interrupt,
    OnceWithToolCatalog,
    PolicyDecision,
    Reprompt,
    Retry,
)
from ace.agent.record import RunRecord, RunSnapshot, RunSpec
from ace.agent.states import (
    Acting,
    Approve,
    AskModel,
    CallState,
    CallTool,
    Completed,
    Deny,
    Done,
    Failed,
    Idle,
    Interrupted,
    ModelReply,
    Observing,
    RequestedTool,
    ResumeDecision,
    State,
    Step,
    Thinking,
    Wait,
)
from ace.agent.trajectory import LEFT_OUT, as_fields
from ace.core import (
    AgentError,
    CancellationToken,
    ContextOverflow,
    Event,
    EventKind,
    InternalInvariant,
    InvalidModelAction,
    ResumeError,
    RunUsage,
    ToolContext,
    ToolErrorKind,
    UsageLimits,
    clean_text,
    clean_value,
    json_value,
)
from ace.tasks import (
    ApprovalRequest,
    ErrorRecord,
    ReasoningStep,
    RequestedCall,
    RunSummary,
    StepError,
    TaskOutput,
    TerminationReason,
)
from ace.tools import Tool, ToolCall, ToolResult, check_call
from ace.tools.media import media_in

FINISH = "finish"
_ONE_REQUEST = RunUsage(lm_calls=1)
"""What a request has cost at least."""
_CITED = re.compile(r"\[(b-\d+)\]")


class AgentRun:
    """One run, `AgentRun(spec)`, from `Idle` to `Completed`, `Failed` or `Interrupted`.

    A driver calls `next_step()`, executes the step, and reports back with `model_replied` or `model_failed` for a request
    and with one `tool_finished` per call; so sync, async and streaming drivers share every rule. What the run is given is
    its `spec`, what it has done its `record`; `snapshot`, `restore` and `resume` carry it over to another process.

    Args:
        spec: What the run is given.
        run_id: A new one by default.
        record: What an earlier process did of it; nothing by default.
    """

    def __init__(self, spec: RunSpec, run_id: str = "", record: RunRecord | None = None) -> None:
        self.spec = spec
        self.run_id = run_id or uuid.uuid4().hex
        self.record = RunRecord(spec.task) if record is None else record
        self.cancellation = spec.cancellation or CancellationToken()
        if spec.task.history and self.record.conversation is None:
            self.record.conversation = Conversation(spec.task.history)
        self.error: AgentError | None = None
        """What ended the run, as it was raised; only in the process where it happened."""
        self.reasoning = ""
        """What the model wrote right before its outputs; only in the process where it did."""
        self._values: dict[str, Any] = {}
        self._shown: dict[str, list[Any]] = {}
        self._breakers = Breakers(spec.policy.breaker, self.record.breakers)
        self._prompt: str | None = None
        self._call_started: dict[str, float] = {}
        self._started = spec.clock.now()
        self._limited = spec.limits.model_dump(exclude_none=True).keys() != set()

    @classmethod
    def restore(cls, stored: RunSnapshot, spec: RunSpec) -> AgentRun:
        """A run as it was stored, without going on yet; `spec` brings what is no data: tools, policy, observers.

        Raises:
            RunStoreError: The run began with other tools.
        """
        return cls(spec.with_stored(stored), stored.run_id, stored.record(spec.finish))

    # -- views -------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where the run is."""
        return self.record.state

    def view(self) -> StepView:
        """What a hook may look at."""
        record = self.record
        return StepView(
            self.spec.task, tuple(record.steps), record.usage, self.trajectory(), record.summary, record.scratch
        )

    def trajectory(self) -> str:
        """The run so far as the model reads it."""
        return self.record.trajectory(self.spec.summary)

    def fields(self) -> dict[str, Any]:
        """The run so far as `dspy.ReAct` shows it in ``prediction.trajectory``; values as the tools returned them."""
        return as_fields(self.record.steps, self.record.cuts, self._values, self.record.closing)

    def so_far(self) -> SoFar:
        """The conversation with this run as its last turn: what the next run is given as `TaskInput.history`."""
        return self.record.so_far(self.run_id, self.spec.context.get("playbook", ""), self.steps_so_far(self.state))

    def usage_now(self) -> RunUsage:
        """What was spent, with the time that has passed."""
        seconds = self.record.usage.seconds + max(0.0, self.spec.clock.now() - self._started)
        return self.record.usage.changed(seconds=seconds)

    def seconds_left(self) -> float | None:
        """What is left of the wall-time budget; None without one."""
        limit = self.spec.limits.seconds
        return None if limit is None else max(0.0, limit - self.usage_now().seconds)

    def snapshot(self) -> RunSnapshot:
        """The run as JSON data, as it is now."""
        return RunSnapshot.of(self.run_id, self.spec, self.record, self.usage_now())

    def _over(self) -> str:
        """The hard limit that is used up, in words."""
        return self.spec.limits.exceeded(self.usage_now()) if self._limited else ""

    # -- what to do next -------------------------------------------------------------------------------------------

    def next_step(self) -> Step:
        """The next step for the driver; asking twice changes nothing."""
        if isinstance(self.state, Idle):
            self._begin(self.state)
        if self.cancellation.cancelled and isinstance(self.state, (Thinking, Acting)):
            self.cancel(self.cancellation.reason)
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
        self.record.scratch = self.spec.agent.initialize(self.spec.task)
        self._emit("run_started", tools=len(self.spec.registry), max_iters=self.spec.max_iters)
        if (memory := self.spec.memory) is not None and memory.status == "unavailable":
            self._emit("memory_unavailable", reason=memory.reason)
        self._think(state.start())

    def _ask(self, state: Thinking) -> Step | None:
        """The request that is due; None when the agent's own hook decided instead."""
        if not state.asked:
            if (left := state.not_before - self.spec.clock.now()) > 0:
                return Wait(left)
            if state.purpose == "decide" and self._hook_decides(state):
                return None
            self.record.state = state = state.ask()
            self._emit("model_request_started", purpose=state.purpose)
        own = self._prompt if state.purpose == "decide" else None
        text = self.trajectory() if own is None else own
        return AskModel(
            state.purpose, text, self._excluded(), not self.record.without_playbook, self._media(), self.record.turns()
        )

    def _media(self) -> tuple[tuple[str, Any], ...]:
        """Media of the steps that the model sees in full."""
        if not self._shown:
            return ()
        steps, cuts = self.record.steps, self.record.cuts
        return tuple(
            (f"observation_{index}", item)
            for index, step in enumerate(steps)
            if index not in cuts
            for item in self._shown.get(step.tool_call_id, ())
        )

    def _hook_decides(self, state: Thinking) -> bool:
        """Let the agent define the step; True when it needs no model for it."""
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
                self._finish(state, outputs or {}, "")
        return True

    def _think(self, state: Thinking, force: TerminationReason | None = None) -> None:
        """Enter `Thinking`; when the budget is spent, for one last answer without tools, or not at all."""
        if problem := self._over():
            self._end(state.fail("budget_exceeded", problem))
            return
        if state.purpose == "decide":
            limits = self.spec.limits
            if force is None and self.record.spent >= self.spec.max_iters:
                force = "max_iterations"
            elif force is None and limits.last_answer_due(self.record.usage):
                force = "budget_exceeded"
            elif force is None and self._overrides("should_stop") and self.spec.agent.should_stop(self.view()):
                state = state.extract()
            elif force is None and self._summary_due():
                state = state.summarize()
        if force is not None:
            state = state.extract(forced_by=force)
            self.record.forced_by = force
        self.record.state = state

    def _summary_due(self) -> bool:
        setting = self.spec.summary
        if setting is None or len(self.record.steps) < self.record.summary_tried + setting.every:
            return False
        limit = self.spec.limits.lm_calls
        return limit is None or self.record.usage.lm_calls < limit - 2  # a decision and the last answer come first

    # -- the reply to a request ----------------------------------------------------------------------------------------

    def model_replied(self, reply: ModelReply) -> None:
        """The model answered; whether its answer is a legal action is found out here."""
        if self._too_late(reply.usage):
            return
        state = self._asked()
        self._spend_lm(reply.usage)
        self._emit("model_request_completed", purpose=state.purpose)
        try:
            if state.purpose == "summarize":
                self._summarised(state, reply.outputs)
            elif state.purpose == "extract":
                self.record.outputs = clean_value(reply.outputs)
                self.reasoning = clean_text(reply.thought)
                self._end(state.complete())
            else:
                self._decide(state, reply)
        except RecursionError:
            self._invalid(state, InvalidModelAction("invalid_args", "The arguments are nested too deeply."), "")

    def model_failed(self, error: AgentError) -> None:
        """No usable reply came: transport failed, or the text could not be parsed."""
        usage = getattr(error, "usage", None) or RunUsage(lm_calls=1)
        if self._too_late(usage):
            return
        state = self._asked()
        self._spend_lm(usage)
        if isinstance(error, ContextOverflow) and state.purpose != "summarize":
            self._overflown(state, error)
        elif state.purpose == "summarize":
            self._emit("model_request_error", purpose="summarize", error=error.kind)
            self.record.summary_tried = len(self.record.steps)  # the steps stay raw; the next summary is due later
            self._think(state.think_again(committed=False))
        else:
            self._invalid(state, error, "")

    def _overflown(self, state: Thinking, error: ContextOverflow) -> None:
        """The prompt was too long: ask again with a shorter one, and for the answer alone when nothing is left to go."""
        if self.record.shorten(self.spec.summary, error.keep):
            left = {"shortened": self.record.shortened, "playbook": not self.record.without_playbook}
            self._emit("model_request_error", purpose=state.purpose, error="context_overflow", **left)
            self._think(replace(state, asked=False))
        elif state.purpose == "decide":
            self._emit("model_request_error", purpose=state.purpose, error="context_overflow")
            self._think(state, force="model_transport")
        else:
            self._invalid(state, error, "")

    def model_delta(self, text: str, answer: str = "") -> None:
        """A piece of the reply, while it is still coming, and what it adds to the answer; nothing depends on it."""
        if isinstance(self.state, Thinking) and self.state.asked:
            added = {"answer": clean_text(answer)} if answer else {}
            self._emit("model_request_delta", text=clean_text(text), **added)

    def _summarised(self, state: Thinking, fields: dict[str, Any]) -> None:
        self.record.summary = RunSummary(
            **{name: clean_text(str(fields.get(name) or "")) for name in RunSummary.model_fields}
        )
        self.record.summarised = self.record.summary_tried = len(self.record.steps)
        self.record.usage += RunUsage(summaries=1)
        self._think(state.think_again(committed=False))

    def _decide(self, state: Thinking, reply: ModelReply) -> None:
        thought = clean_text(reply.thought)
        asked = [RequestedTool(reply.tool_name, reply.tool_args), *reply.more]
        wanted = [RequestedTool(json_value(tool.name), json_value(tool.args)) for tool in asked]
        ends = [tool for tool in wanted if tool.name == FINISH]
        calls = [tool for tool in wanted if tool.name != FINISH]
        if not calls:
            self._commit(thought)
            self._finish(state, ends[-1].args, thought)
            return
        checked: list[ToolCall] = []
        problems: dict[int, InvalidModelAction] = {}
        for index, tool in enumerate(calls):
            try:
                call_id = f"{self.record.step_id}-c{index + 1}"
                checked.append(check_call(self.spec.registry, tool.name, tool.args, call_id, self._excluded()))
            except InvalidModelAction as error:
                problems[index] = error
        if problems:
            first = next(iter(problems.values()))
            self._invalid(state, first, thought, calls, problems)
            return
        self._commit(thought)
        self._enter(state.act(tuple(checked), thought, _remark([*reply.unmade, *([FINISH] if ends else [])])))

    def _act(self, state: Thinking, thought: str, wanted: list[RequestedTool]) -> None:
        """Calls that the agent's own hook asked for; they have to be right."""
        try:
            calls = [
                check_call(self.spec.registry, tool.name, json_value(tool.args), f"{self.record.step_id}-c{i + 1}")
                for i, tool in enumerate(wanted)
            ]
        except InvalidModelAction as error:
            self._end(state.fail("invalid_model_action", f"{type(self.spec.agent).__name__}.execute_step: {error}"))
        else:
            self._enter(state.act(tuple(calls), thought))

    def _finish(self, state: Thinking, args: Any, thought: str) -> None:
        self.record.closing, self.reasoning = (thought, json_value(args)), thought
        try:
            values = self.spec.finish.checked(args or {})
        except (
            InvalidModelAction
        ):  # missing or ill-typed, or a validator of the user's own raised: the answer must be asked for
            self._think(state.extract())
            return
        self.record.cited.extend(values.pop("cited_bullets", ()))
        self.record.outputs = values
        self._end(state.complete())

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
        decision = self._ask_policy(state.attempt, lambda record: self.spec.policy.on_model_error(record, error))
        bad = isinstance(error, InvalidModelAction)
        match decision:
            case Retry() if state.attempt < decision.policy.max_attempts and self._affordable(decision.consume_budget):
                self.record.usage += RunUsage(retries=1)
                self.record.charged += decision.consume_budget
                self._think(state.retry(self._not_before(decision, state.attempt, self.record.step_id)))
            case Reprompt() if bad and self.record.reprompts_here < decision.strategy.n and state.purpose == "decide":
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
        catalog = isinstance(decision.strategy, OnceWithToolCatalog)
        if catalog or (isinstance(error, InvalidModelAction) and error.reason == "unknown_tool"):
            names = [name for name in self.spec.registry.names if name not in self._excluded()]
            note += f" Tools: {', '.join((*names, FINISH))}."
        self.record.notes.append(clean_text(note))
        self.record.reprompts_here += 1
        self.record.usage += RunUsage(reprompts=1)
        self.record.charged += decision.consume_budget
        self._think(state.think_again(committed=False))

    def _give_up(self, state: Thinking, error: AgentError) -> None:
        self.error = error
        if state.forced_by:
            self._end(state.complete())  # the reason it was forced is what ended the run
        else:
            hint = ""
            if isinstance(error, InvalidModelAction) and getattr(self.spec.policy, "on_invalid_action", "") == "fail":
                hint = "The run ends at the first bad reply; policy='lenient' asks the model again."
                error.add_note(hint)
            self._end(state.fail(_reason(error), f"{error} {hint}".strip()))

    def _violation(self, decision: Any, what: str, legal: str) -> None:
        """The policy returned a decision that is illegal here: the run ends, nothing is guessed."""
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

    # -- going out ---------------------------------------------------------------------------------------------------

    def tool(self, call: ToolCall) -> Tool:
        """The tool that a call is meant for."""
        return self.spec.registry.get(call.name)

    def tool_context(self, call: ToolCall) -> ToolContext:
        """What the tool may know about the call."""
        limits, iterations = self.spec.limits, max(0, self.spec.max_iters - self.record.spent)
        deadline, left = None, UsageLimits(iterations=iterations)
        if self._limited:
            spent = self.usage_now()
            left = limits.left(spent).model_copy(update={"iterations": iterations})
            if limits.seconds is not None:
                deadline = self.spec.clock.now() + max(0.0, limits.seconds - spent.seconds)
        return ToolContext(
            run_id=self.run_id,
            correlation_id=self.record.correlation_id,
            step_id=self.record.step_id,
            tool_call_id=call.id,
            cancellation=self.cancellation,
            deadline=deadline,
            remaining=left,
        )

    def _approval(self, state: Acting) -> ApprovalRequest | None:
        """The decision that is needed before these calls may go out."""
        waiting = [c for c in state.calls if c.status == "waiting" and not c.consent]
        needed = [c for c in waiting if self.tool(c.call).requires_approval]
        if not needed:
            return None
        names = ", ".join(dict.fromkeys(repr(c.call.name) for c in needed))
        return ApprovalRequest(kind="approval", reason=f"{names} needs approval", calls=_requested(needed))

    def _call(self, state: Acting) -> Step | None:
        """The calls that are due; None when all of them were settled without going out."""
        now = self.spec.clock.now()
        group = self._group(state)
        for index in group:
            call = state.calls[index]
            if call.status == "waiting" and call.not_before <= now:
                state = self._dispatch(state, index, now)
        self.record.state = state
        out = [state.calls[i] for i in group if state.calls[i].status == "out"]
        if out:
            return CallTool(
                tuple(call.call if call.attempt == 1 else call.call.model_copy(update={"id": call.id}) for call in out)
            )
        if later := [state.calls[i].not_before for i in group if state.calls[i].status == "waiting"]:
            return Wait(max(0.0, min(later) - now))
        self._advance(state)
        return None

    def _group(self, state: Acting) -> list[int]:
        """The next calls: one, or as many consecutive read-only ones as there are."""
        left = [i for i, call in enumerate(state.calls) if call.status != "done"]
        group: list[int] = []
        for position, index in enumerate(left):
            read_only = self.tool(state.calls[index].call).read_only
            if position and not read_only:
                break
            group.append(index)
            if not read_only:
                break
        return group

    def _dispatch(self, state: Acting, index: int, now: float) -> Acting:
        """Send one call out, unless the budget or the tool's breaker forbids it."""
        call = state.calls[index]
        name = call.call.name
        limit = self.spec.limits.tool_calls
        out = sum(other.status == "out" for other in state.calls)
        if limit is not None and self.record.usage.tool_calls + out >= limit:
            return self._refuse(state, index, "budget", f"Not called: all {limit} tool calls of this run are spent.")
        if problem := self._over():
            return self._refuse(state, index, "budget", f"Not called: {problem}.")
        if refusal := self._breakers.call(name, now):
            return self._refuse(state, index, "unavailable", refusal)
        self._call_started[call.id] = now
        self._emit("tool_call_started", tool_call_id=call.id, tool=name, attempt=call.attempt)
        return state.update(index, call.changed(status="out"))

    def _refuse(self, state: Acting, index: int, kind: ToolErrorKind, text: str) -> Acting:
        call = state.calls[index]
        result = ToolResult(tool_call_id=call.id, outcome="denied", text=text, error_kind=kind)
        return state.update(index, replace(call, status="done", result=result))

    # -- coming back -------------------------------------------------------------------------------------------------

    def tool_finished(self, result: ToolResult) -> None:
        """A tool returned or failed."""
        state = self.state
        if isinstance(state, Acting):
            found = [i for i, c in enumerate(state.calls) if c.status == "out" and c.id == result.tool_call_id]
            if found:
                settled = self._settle(state, found[0], result)
                if isinstance(self.state, Acting):
                    self.record.state = settled
                    self._advance(settled)
                return
        if result.tool_call_id not in self._call_started:
            raise InternalInvariant(f"result of {result.tool_call_id!r}, which was never sent out")
        # its attempt was given up, by time-out, cancellation or resume: a late result is ignored

    def _settle(self, state: Acting, index: int, result: ToolResult) -> Acting:
        """Record one result, tell the observers, and ask the policy what a failure means."""
        call = state.calls[index]
        self._spend_call(result)
        failed = result.outcome != "success"
        now = self.spec.clock.now()
        self._breakers.settle(call.call.name, result.outcome, result.error_kind or "exception", now)
        decision: Any = AppendErrorAndContinue()
        if result.outcome == "failed":
            failure = FailedCall(self.tool(call.call), call.call, result)
            decision = self._ask_policy(call.tried, lambda record: self.spec.policy.on_tool_error(record, failure))
        retried = isinstance(decision, Retry) and self._may_retry(state, call, decision)
        self._emit(
            "tool_call_error" if failed else "tool_call_completed",
            tool_call_id=call.id,
            tool=call.call.name,
            outcome="retried" if retried else result.outcome,
            **({"error": result.error_kind or "exception"} if failed else {}),
        )
        # the run keeps what the model reads
        stored = result if result.content is None else result.model_copy(update={"content": None})
        self._keep(call.id, result.content)
        done = call.changed(status="done", result=stored)
        if failed:
            self._record_error(call, result)
        match decision:
            case Retry():
                if not self.tool(call.call).repeatable and not decision.approve_unsafe_replay:
                    self._stop(state.update(index, done), decision, "a failed tool that is not safe to call twice")
                elif retried:
                    self.record.usage += RunUsage(retries=1)
                    self.record.charged += decision.consume_budget
                    due = self._not_before(decision, call.tried, call.call.id)
                    return state.update(
                        index, replace(call, status="waiting", attempt=call.attempt + 1, not_before=due)
                    )
            case AppendErrorAndContinue(note) if note:
                done = replace(done, result=stored.model_copy(update={"text": f"{stored.text} {note}"}))
            case Fail():
                done = replace(done, stop="fail", stop_reason=f"{call.call.name}: {result.text}")
            case Interrupt(reason):
                done = replace(done, stop="interrupt", stop_reason=reason)
            case AppendErrorAndContinue():
                pass
            case _:
                self._stop(state.update(index, done), decision, "a failed tool")
        return state.update(index, done)

    def _keep(self, call_id: str, content: Any) -> None:
        """The value itself, for `fields` and for models that take more than text."""
        self._values[call_id] = content
        if media := media_in(content):
            self._shown[call_id] = media

    def _may_retry(self, state: Acting, call: CallState, decision: Retry) -> bool:
        tool = self.tool(call.call)
        return (
            (tool.repeatable or decision.approve_unsafe_replay)
            and call.tried < decision.policy.max_attempts
            and self._affordable(decision.consume_budget)
            and not self._over()
            and self._tool_calls_left(state)
            and not self._breakers.is_open(call.call.name)
        )

    def _tool_calls_left(self, state: Acting) -> bool:
        limit = self.spec.limits.tool_calls
        out = sum(call.status == "out" for call in state.calls) - 1  # the one that just failed is counted already
        return limit is None or self.record.usage.tool_calls + out < limit

    def _stop(self, state: Acting, decision: Any, what: str) -> None:
        self.record.state = state
        for call in state.calls:
            if call.status == "out":  # a late result will be ignored; the tool has to be signalled now
                self._emit("tool_call_error", tool_call_id=call.id, tool=call.call.name, outcome="interrupted")
        self._violation(
            decision, what, "Fail, Interrupt, AppendErrorAndContinue, and Retry where replay is safe or approved"
        )

    def _excluded(self) -> tuple[str, ...]:
        """Tools that are out of service now."""
        return self._breakers.out_of_service(self.spec.clock.now()) if self.record.breakers else ()

    # -- all results are back ----------------------------------------------------------------------------------------

    def _advance(self, state: Acting) -> None:
        """Stop if a result demands it and no call is out any more; observe when every call is settled."""
        if any(call.status == "out" for call in state.calls):
            return
        stopped = next((call for call in state.calls if call.stop), None)
        if stopped is not None and stopped.stop == "fail":
            self._end(state.fail("tool_dispatch", stopped.stop_reason))
        elif stopped is not None:
            calmed = replace(state, calls=tuple(replace(c, stop="", stop_reason="") for c in state.calls))
            self._end(calmed.interrupt(stopped.stop_reason))
        elif all(call.status == "done" for call in state.calls):
            self._observe(state.observe())

    def _observe(self, state: Observing) -> None:
        self.record.state = state
        force: TerminationReason | None = None
        verdict: PolicyDecision | None = None
        steps = self.steps_of(state.calls, state.thought, state.iteration)
        for step in steps:
            shown, decision = self._watch(step)
            if step is steps[-1] and state.remark:
                shown = shown.model_copy(update={"observation": f"{shown.observation} {state.remark}"})
            self._append(shown)
            if isinstance(decision, (Fail, Interrupt)):
                verdict = verdict or decision
            elif isinstance(decision, ForceAnswer):
                force = "no_progress"
            elif decision is not None and not isinstance(decision, AppendErrorAndContinue):
                self._violation(decision, "a run that loops", "Fail, Interrupt, ForceAnswer and AppendErrorAndContinue")
                return
        if isinstance(verdict, Fail):
            self._end(state.fail("no_progress", "the same call gave the same result again and again"))
        elif isinstance(verdict, Interrupt):
            self._end(state.interrupt(verdict.reason))
        else:
            self._think(state.think(), force=force)

    def _watch(self, step: ReasoningStep) -> tuple[ReasoningStep, Any]:
        """Detect a loop: the step, with the policy's note where the call is a repetition, and the policy's decision."""
        setting = self.spec.policy.no_progress
        if setting is None or not step.executed:
            return step, None
        times = self.record.repeats.add(step)
        if times < setting.note_after:
            return step, None
        call = ToolCall(id=step.tool_call_id, name=step.tool_name, args=step.tool_args)
        decision = self._ask_policy(1, lambda record: self.spec.policy.on_no_progress(record, call, times))
        if isinstance(decision, AppendErrorAndContinue) and decision.note:
            step = step.model_copy(update={"observation": f"{step.observation} {decision.note}"})
        return step, decision

    def steps_of(self, calls: tuple[CallState, ...], thought: str, iteration: int) -> list[ReasoningStep]:
        """The settled ones of some calls as steps, in the order in which the model asked for them."""
        return [
            self._as_step(call, call.result, thought, iteration)
            for call in calls
            if call.status == "done" and call.result is not None
        ]

    def _as_step(self, call: CallState, result: ToolResult, thought: str, iteration: int) -> ReasoningStep:
        failed = result.outcome != "success"
        return ReasoningStep(
            iteration=iteration,
            thought=thought,
            tool_call_id=call.id,
            tool_name=call.call.name,
            tool_args=call.call.args,
            outcome=result.outcome,
            observation=result.text,
            changes_state=not self.tool(call.call).read_only,
            executed=result.outcome != "denied",
            attempts=call.attempt,
            error=StepError(kind=result.error_kind or "exception", message=result.text) if failed else None,
            seconds=result.seconds,
            timestamp=self._call_started.get(call.id, 0.0),
        )

    # -- stopping from outside -----------------------------------------------------------------------------------------

    def cancel(self, reason: str = "cancelled", spent: RunUsage = _ONE_REQUEST) -> None:
        """Stop now, whatever is out; the run can go on later, and late results are ignored.

        Args:
            reason: Shown as the run's error.
            spent: What a request that was out has cost, where that is known.
        """
        state = self.state
        reason = clean_text(reason)
        if isinstance(state, Idle):
            self._begin(state)
            state = self.state
        if isinstance(state, Thinking):
            if state.asked:
                self._spend_lm(spent)
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
            self.record.state = state
            self._end(state.interrupt(reason, "cancelled"))

    # -- going on after a stop ---------------------------------------------------------------------------------------

    def resume(self, decision: ResumeDecision | None = None) -> None:
        """Make a restored run ready for its driver.

        What was out when the process died is settled first: a request counts as spent and is made again, an idempotent or
        read-only tool is called again, and any other call ends as ``interrupted``; then the run waits for a decision.

        Raises:
            ResumeError: A decision is needed and missing, or given and not needed; the run is unchanged.
        """
        wanted = (
            {"approve": Approve(), "deny": Deny()}.get(decision, decision) if isinstance(decision, str) else decision
        )
        if not (wanted is None or isinstance(wanted, (Approve, Deny))):
            raise ResumeError(f"decision must be 'approve', 'deny', Approve(...) or Deny(...), got {decision!r}")
        state = self.state
        if isinstance(state, Interrupted):
            self._answer(state, wanted)
            return
        if wanted is not None:
            raise ResumeError(f"run {self.run_id!r} is {state.kind} and waits for no decision; resume it without one")
        if isinstance(state, Idle):
            return
        if isinstance(state, (Thinking, Acting)):
            self._emit("run_continued", after="crash")
            if isinstance(state, Thinking):
                self._ask_again(state)
            else:
                self._settle_crashed(state)

    def _ask_again(self, state: Thinking) -> None:
        if state.asked:
            self.record.usage += RunUsage(lm_calls=1)
            self._emit("model_request_error", purpose=state.purpose, error="interrupted")
            # the lost request is spent: there may be no budget left for another
            self._think(replace(state, asked=False))

    def _settle_crashed(self, state: Acting) -> None:
        unknown: list[CallState] = []
        for index, call in enumerate(state.calls):
            if call.status != "out":
                continue
            self.record.usage += RunUsage(tool_calls=1)
            self._emit(
                "tool_call_error", tool_call_id=call.id, tool=call.call.name, outcome="interrupted", error="cancelled"
            )
            self._breakers.settle(call.call.name, "interrupted", "cancelled", self.spec.clock.now())
            if self.tool(call.call).repeatable:
                again = replace(call, status="waiting", attempt=call.attempt + 1, repeats=call.repeats + 1)
            else:
                text = f"The process died while {call.call.name} ran; its effect is unknown and it was not repeated."
                cut = ToolResult(tool_call_id=call.id, outcome="interrupted", text=text, error_kind="cancelled")
                again = replace(call, status="done", result=cut)
                unknown.append(call)
            state = state.update(index, again)
        self.record.state = state
        if unknown:
            names = ", ".join(dict.fromkeys(repr(call.call.name) for call in unknown))
            request = ApprovalRequest(
                kind="unknown_effect",
                reason=f"the process died while {names} ran; may it be called again?",
                calls=_requested(unknown),
            )
            self._end(state.interrupt(request.reason, "unknown_effect", request))
        else:
            self._advance(state)

    def _answer(self, state: Interrupted, decision: Approve | Deny | None) -> None:
        request, then = state.request, state.resume()
        if request is None and decision is not None:
            raise ResumeError(f"run {self.run_id!r} was {state.cause} and waits for no decision; resume it without one")
        if request is not None and decision is None:
            raise ResumeError(
                f"run {self.run_id!r} waits: {request.reason}; pass decision='approve' or decision='deny'"
            )
        if request is not None and isinstance(then, Acting):
            asked = {call.tool_call_id for call in request.calls}
            for index, call in enumerate(then.calls):
                if call.id in asked:
                    then = then.update(index, self._decided(call, request, decision))
        self.record.state = then
        self.record.decisions += decision.answers if decision is not None else 0
        self._emit("run_continued", after=state.cause)
        if isinstance(then, Acting):
            self._advance(then)
        else:
            self._think(then)  # what was spent when it stopped counts

    def _decided(self, call: CallState, request: ApprovalRequest, decision: Approve | Deny | None) -> CallState:
        if isinstance(decision, Approve):
            checked = call.call
            if decision.args is not None:
                if len(request.calls) != 1:
                    raise ResumeError(
                        f"Approve(args=...) fits one call, and {len(request.calls)} wait; approve them as they are"
                    )
                try:
                    checked = check_call(self.spec.registry, call.call.name, json_value(decision.args), call.call.id)
                except InvalidModelAction as error:
                    raise ResumeError(f"the new arguments do not fit: {error}") from error
            again = request.kind == "unknown_effect"
            return replace(
                call,
                call=checked,
                attempt=call.attempt + again,
                repeats=call.repeats + again,
                status="waiting",
                result=None,
                consent=True,
            )
        if request.kind == "unknown_effect":
            return call  # it stays interrupted, and the model reads that
        reason = (
            decision.reason
            if isinstance(decision, Deny) and decision.reason
            else "The operator did not approve this call."
        )
        result = ToolResult(
            tool_call_id=call.id, outcome="denied", text=clean_text(reason), error_kind="permission_denied"
        )
        return replace(call, status="done", result=result)

    # -- recording ---------------------------------------------------------------------------------------------------

    def _spend_lm(self, usage: RunUsage) -> None:
        if self.spec.prices is not None and not usage.cost:
            cost = self.spec.prices.cost(usage.input_tokens, usage.output_tokens)
            usage = usage.model_copy(update={"cost": cost})
        self.record.usage += usage
        if self.spec.tally is not None:
            self.spec.tally.add(usage)

    def _spend_call(self, result: ToolResult) -> None:
        self.record.usage = self.record.usage.changed(tool_calls=self.record.usage.tool_calls + 1)
        if any(result.usage.__dict__.values()):  # most tools cost nothing
            self.record.usage += result.usage

    def _commit(self, thought: str) -> None:
        """Commit a decision: the notes about rejected replies are no longer needed."""
        self.record.usage = self.record.usage.changed(iterations=self.record.usage.iterations + 1)
        self.record.cited.extend(_CITED.findall(thought))
        self.record.notes.clear()
        self.record.reprompts_here = 0

    def _append(self, step: ReasoningStep) -> None:
        self.record.append_scratchpad(step)
        if step.error is not None and not step.executed:
            self.record.errors.append(
                _record(step.tool_name, step.error.kind, step.error.message, step.iteration, step.timestamp)
            )
        if self._overrides("update_summary"):
            summary = self.spec.agent.update_summary(self.view(), step)
            if summary is not None:
                self.record.summary, self.record.summarised = summary, len(self.record.steps)

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
            and self.record.errors
            and self.record.errors[-1].tool == record.tool
            and self.record.errors[-1].retries == retries - 1
        ):
            self.record.errors[-1] = record
        else:
            self.record.errors.append(record)

    # -- events ------------------------------------------------------------------------------------------------------

    def _emit(self, kind: EventKind, **data: Any) -> None:
        seq, self.record.seq = self.record.seq, self.record.seq + 1
        if not (self.spec.listeners or self.spec.observers):
            return
        event = Event(
            kind=kind,
            seq=seq,
            run_id=self.run_id,
            correlation_id=self.spec.task.task_id,
            step_id="" if kind.startswith("run_") else self.record.step_id,
            timestamp=self.spec.clock.now(),
            data=data,
        )
        for listener in self.spec.listeners:
            listener(event)
        for observer in self.spec.observers:
            observer.send(event)

    def _end(self, state: Completed | Failed | Interrupted) -> None:
        before = self.state
        if isinstance(before, Acting) and not isinstance(state, Interrupted):
            for step in self.steps_so_far(before)[len(self.record.steps) :]:
                self._append(step)
        self.record.state = state
        match state:
            case Failed(error):
                self._emit("run_error", error=error)
            case Interrupted(cause="cancelled"):
                self._emit("run_cancelled", reason=state.reason)
            case Interrupted():
                self._emit("run_paused", reason=state.reason, cause=state.cause)
            case _:
                self._emit("run_completed", termination_reason=self._termination())

    # -- the output -------------------------------------------------------------------------------------------------

    def steps_so_far(self, state: State) -> list[ReasoningStep]:
        """All steps, those of a decision that is not yet fully observed included."""
        acting = state.then if isinstance(state, Interrupted) else state
        if not isinstance(acting, Acting):
            return list(self.record.steps)
        return [*self.record.steps, *self.steps_of(acting.calls, acting.thought, acting.iteration)]

    def _termination(self) -> TerminationReason:
        if isinstance(self.state, Failed):
            return self.state.error
        if isinstance(self.state, Interrupted):
            return "interrupted"
        return self.record.forced_by or "completed"

    def output(self) -> TaskOutput:
        """The output so far; call it when `next_step()` returned `Done`."""
        state = self.state
        return build_output(
            self.spec.task,
            self.run_id,
            self._termination(),
            outputs=self.record.outputs,
            error=self._error_message(),
            forced=self.record.forced_by is not None,
            steps=self.steps_so_far(state),
            usage=self.usage_now(),
            errors=self.record.errors,
            summary=self.record.summary,
            request=state.request if isinstance(state, Interrupted) else None,
            injected=self.spec.injected_bullets,
            cited=self.record.cited,
            metadata=self._metadata(),
            memory=self.spec.memory,
        )

    def _metadata(self) -> Mapping[str, Any]:
        """The spec's, and what of the run the model was not shown in full."""
        cuts, playbook = self.record.cuts, self.record.without_playbook
        if not (cuts or playbook or self.record.turns_cut):
            return self.spec.metadata
        whole = sorted(index for index, cut in cuts.items() if cut == LEFT_OUT)
        part = sorted(cuts.keys() - whole)
        return {
            **self.spec.metadata,
            "context_overflow": {
                "shortened": part,
                "left_out": whole,
                "playbook": not playbook,
                **({"turns": self.record.turns_cut} if self.record.turns_cut else {}),
            },
        }

    def _error_message(self) -> str:
        """What ended the run before the model finished; empty when it did."""
        match self.state:
            case Failed(message=message):
                return message
            case Interrupted(reason=reason):
                return reason
            case _ if self.record.forced_by == "max_iterations":
                return f"no answer after {self.spec.max_iters} iterations"
            case _ if self.record.forced_by == "no_progress":
                return "the same call gave the same result again and again; the answer was asked for"
            case _ if self.record.forced_by is not None:
                return f"the answer was forced: {self.record.forced_by.replace('_', ' ')}"
            case _:
                return ""

    # -- small things --------------------------------------------------------------------------------------------------

    def _enter(self, state: Acting) -> None:
        """Start acting, unless a call needs approval first."""
        self.record.state = state
        if request := self._approval(state):
            self._end(state.interrupt(request.reason, "approval", request))

    def _asked(self) -> Thinking:
        state = self.state
        if not isinstance(state, Thinking) or not state.asked:
            raise InternalInvariant(f"a reply came, but the run is {type(state).__name__} and asked for none")
        return state

    def _ended(self) -> bool:
        """Whether the run is over for now: a reply that comes later changes nothing."""
        return isinstance(self.state, (Completed, Failed, Interrupted))

    def _too_late(self, usage: RunUsage) -> bool:
        """Whether a reply came after the end, or after the run was cancelled: then it is paid for and not read."""
        if not self._ended() and self.cancellation.cancelled:
            self.cancel(self.cancellation.reason, usage)
        return self._ended()

    def _affordable(self, consume_budget: bool) -> bool:
        return not consume_budget or self.record.spent < self.spec.max_iters

    def _not_before(self, decision: Retry, attempt: int, what: str) -> float:
        """When a retry is due; the jitter depends on nothing but the run, so that a replay waits as long."""
        draw = random.Random(f"{self.run_id}/{what}/{attempt}").random()
        return self.spec.clock.now() + decision.policy.delay(attempt, draw)

    def _ask_policy(self, attempt: int, ask: Callable[[RunRecord], PolicyDecision]) -> PolicyDecision | Exception:
        self.record.attempt = attempt
        try:
            return ask(self.record)
        except Exception as error:  # a policy is the user's code; what it raised is in the violation
            return error


def _remark(unmade: Sequence[str]) -> str:
    """What the model is told about calls of its reply that were not made."""
    if not unmade:
        return ""
    names = ", ".join(repr(name) for name in unmade)
    return f"(Not made, because other calls of the same reply came first: {names}. Ask again if it is still needed.)"


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


def _requested(calls: list[CallState]) -> tuple[RequestedCall, ...]:
    return tuple(RequestedCall(tool_call_id=c.id, tool_name=c.call.name, tool_args=c.call.args) for c in calls)


def _record(tool: str, kind: str, message: str, iteration: int, timestamp: float) -> ErrorRecord:
    return ErrorRecord(iteration=iteration, tool=tool, kind=kind, message=message, timestamp=timestamp)
