"""The state machine of one run. It does no I/O: it returns the next step and takes in its result."""

from __future__ import annotations

import json
import logging
import random
import re
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

from ace.agent.breaker import Breakers
from ace.agent.hints import where_to_find
from ace.agent.history import SUBMIT, Aside, SoFar, as_fields, call_ids, ends_run
from ace.agent.hooks import Agent, AgentState, StepView
from ace.agent.output import build_output
from ace.agent.planned import PlanEnd, TakenPlan
from ace.agent.policy import (
    LEGAL,
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
from ace.agent.progress import RepeatDetector
from ace.agent.record import RunSnapshot, RunSpec
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
    Stop,
    Thinking,
    Wait,
)
from ace.core import (
    AgentError,
    CancellationToken,
    ContextOverflow,
    Event,
    EventKind,
    InternalInvariant,
    InvalidModelAction,
    Pause,
    PolicyRuntimeViolation,
    ResumeError,
    RunUsage,
    ToolContext,
    ToolDispatch,
    ToolErrorKind,
    UsageLimits,
    clean_text,
    describe_error,
    json_value,
    truncate,
    value_to_text,
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
    answer_field,
)
from ace.tools import Tool, ToolCall, ToolResult, check_call
from ace.tools.media import media_in

RAW_KEPT = 2_000
"""Characters of a rejected reply that the trace keeps."""
_Checked = tuple[RequestedTool, ToolCall | InvalidModelAction]
"""A call as the model wrote it, and what checking it found."""
_BESIDE_AN_INVALID_CALL = InvalidModelAction("cancelled", "Not called, because another call of this reply was invalid.")
_log = logging.getLogger(__name__)
_UNLIMITED = UsageLimits()
REPEATED = 200
"""Characters of a known result that are repeated instead of a call."""
_KNOWN = "(Known: not called again.)"
"""The agent's own words after such a result."""
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

    def __init__(self, spec: RunSpec, run_id: str = "", record: RunSnapshot | None = None) -> None:
        self.spec = spec
        self.run_id = run_id or uuid.uuid4().hex
        self.record = record or RunSnapshot.begun(self.run_id, spec)
        self._repeats = RepeatDetector(self.record.repeats)
        self.cancellation = spec.cancellation or CancellationToken()
        self.error: AgentError | None = None
        """What ended the run, as it was raised; only in the process where it happened."""
        self.reasoning = ""
        """What the model wrote right before its outputs; only in the process where it did."""
        self._values: dict[str, Any] = {}
        """By the id of the call, what the tool gave, for `fields`."""
        self._shown: dict[str, list[Any]] = {}
        """The media in it, for models that take more than text."""
        self._breakers = Breakers(spec.policy.breaker, self.record.breakers)
        self._raised: BaseException | None = None
        self._call_started: dict[str, float] = {}
        self._started = spec.clock.now()
        self._limited = spec.limits.model_dump(exclude_none=True).keys() != set()

    @classmethod
    def restore(cls, stored: RunSnapshot, spec: RunSpec) -> AgentRun:
        """Restore a run as it was stored, without going on yet; `spec` brings what is no data: tools, policy, observers.

        Raises:
            RunStoreError: The run began with other tools.
        """
        return cls(spec.with_stored(stored), stored.run_id, stored.reopened(spec.finish))

    # -- views -------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where the run is."""
        return self.record.state

    def view(self) -> StepView:
        """Return what a hook may look at."""
        record = self.record
        return StepView(self.spec.task, tuple(record.steps), record.usage, record.summary, record.scratch)

    def fields(self) -> dict[str, Any]:
        """Return the run so far as the old `dspy.ReAct` showed it; values as the tools returned them."""
        return as_fields(self.record.steps, self._values, self.record.closing)

    def so_far(self) -> SoFar:
        """Return the conversation with this run as its last turn: what the next run is given as `TaskInput.history`."""
        return self.record.so_far(self.steps_so_far(self.state))

    def usage_now(self) -> RunUsage:
        """Return what was spent, with the time that has passed."""
        seconds = self.record.usage.seconds + max(0.0, self.spec.clock.now() - self._started)
        return self.record.usage.changed(seconds=seconds)

    def seconds_left(self) -> float | None:
        """Return what is left of the wall-time budget; None without one."""
        limit = self.spec.limits.seconds
        return None if limit is None else max(0.0, limit - self.usage_now().seconds)

    def snapshot(self) -> RunSnapshot:
        """Return the run as JSON data, as it is now."""
        return self.record.copied(usage=self.usage_now())

    def _over(self) -> str:
        """Name the hard limit that is used up, in words."""
        return self.spec.limits.exceeded(self.usage_now()) if self._limited else ""

    # -- what to do next -------------------------------------------------------------------------------------------

    def next_step(self) -> Step:
        """Return the next step for the driver; asking twice changes nothing. A hook that raises ends the run."""
        with self._guarded():
            if isinstance(self.state, Idle):
                self._begin(self.state)
            if self.cancellation.cancelled and isinstance(self.state, (Thinking, Acting)):
                self.cancel(self.cancellation.reason)
            while isinstance(state := self.state, (Thinking, Acting)):
                step = self._ask(state) if isinstance(state, Thinking) else self._call(state)
                if step is not None:
                    return step
        return Done()

    def _begin(self, state: Idle) -> None:
        self._emit("run_started", tools=len(self.spec.registry), max_iters=self.spec.max_iters)
        if (memory := self.spec.memory) is not None and memory.status == "unavailable":
            self._emit("memory_unavailable", reason=memory.reason)
        self.record.scratch = self._hook("initialize", self.spec.task)
        self._think(state.start())

    def _ask(self, state: Thinking) -> Step | None:
        """Return the request that is due; None when the agent's own hook decided instead."""
        if not state.asked:
            if (left := state.not_before - self.spec.clock.now()) > 0:
                return Wait(left)
            if state.purpose == "decide" and (self._follow(state) or self._hook_decides(state)):
                return None
            self.record.state = state = state.ask()
            self._emit("model_request_started", purpose=state.purpose)
        turns, said = self.record.turns(self.spec.opening, self.spec.summary)
        talks = bool(self.record.conversation.messages)
        return AskModel(state.purpose, "", tuple(turns), said, self._excluded(), self._media(), talks)

    def _tell(self, note: str, reply: str = "") -> None:
        """Tell the model something with the next request; it stays in the prompt, so that a request only adds to it."""
        kept = clean_text(truncate(reply, RAW_KEPT))
        self.record.asides.append(Aside(len(self.record.steps), kept, clean_text(note)))

    def _extract(self, state: Thinking, forced_by: TerminationReason | None = None) -> Thinking:
        """Ask for the answer alone."""
        names = ", ".join(name for name in self.spec.finish.parameters if name != "cited_bullets")
        self._tell(f"Now end with what is there: call {SUBMIT} with {names}, and no other tool.")
        return state.extract(forced_by)

    def _media(self) -> tuple[tuple[str, Any], ...]:
        """Return the media of the steps that the model sees in full."""
        if not self._shown:
            return ()
        steps, cuts = self.record.steps, self.record.cuts
        names = call_ids(steps, len(self.record.conversation.messages))
        return tuple(
            (names[index], item)
            for index, step in enumerate(steps)
            if index not in cuts
            for item in self._shown.get(step.tool_call_id, ())
        )

    def _hook_decides(self, state: Thinking) -> bool:
        """Let the agent define the step; True when it needs no model for it."""
        if not self._overrides("execute_step"):
            return False
        match self._hook("execute_step", self.view()):
            case AskModel(note=text):
                if text:
                    self._tell(text)
                return False
            case CallTool(calls):
                self._commit("")
                self._act(state, "", [RequestedTool(call.name, call.args) for call in calls])
            case Done(outputs):
                self._commit("")
                self._finish(state, outputs or {})
            case other:
                raise self._broken("execute_step", f"returned {other!r}, expected AskModel, CallTool or Done")
        return True

    def _think(self, state: Thinking, force: TerminationReason | None = None) -> None:
        """Enter `Thinking`; when the budget is spent, for one last answer without tools, or not at all."""
        if problem := self._over():
            self._end(state.fail("budget_exceeded", problem))
            return
        if state.purpose == "decide" and not self._following:
            limits = self.spec.limits
            if force is None and self.record.spent >= self.spec.max_iters:
                force = "max_iterations"
            elif force is None and limits.last_answer_due(self.record.usage):
                force = "budget_exceeded"
            elif force is None and self._overrides("should_stop") and self._hook("should_stop", self.view()):
                state = self._extract(state)
            elif force is None and self._summary_due():
                state = state.summarize()
        if force is not None:
            state = self._extract(state, force)
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
        """Take in the model's answer, and find out whether it is a legal action."""
        with self._guarded():
            if self._too_late(reply.usage):
                return
            state = self._arrived(reply.usage)
            self._emit("model_request_completed", purpose=state.purpose)
            try:
                if state.purpose == "summarize":
                    self._summarised(state, reply.outputs)
                elif state.purpose == "extract":
                    self._last_answer(state, reply)
                else:
                    self._decide(state, reply)
            except RecursionError:
                self._invalid(state, InvalidModelAction("invalid_args", "The arguments are nested too deeply."))

    def model_failed(self, error: AgentError) -> None:
        """Take in that no usable reply came: transport failed, or the text could not be parsed."""
        usage = error.usage or _ONE_REQUEST
        with self._guarded():
            if self._too_late(usage):
                return
            state = self._arrived(usage)
            if isinstance(error, ContextOverflow) and state.purpose != "summarize":
                self._overflown(state, error)
            elif state.purpose == "summarize":
                self._emit("model_request_error", purpose="summarize", error=error.kind)
                self.record.summary_tried = len(self.record.steps)  # the steps stay raw; the next summary is due later
                self._think(state.think_again(committed=False))
            else:
                self._invalid(state, error)

    def _overflown(self, state: Thinking, error: ContextOverflow) -> None:
        """Ask again with a shorter prompt, as it was too long; and for the answer alone when nothing is left to go."""
        if self.record.shorten(self.spec.summary, error.keep):
            left = {"shortened": self.record.shortened, "playbook": not self.record.without_playbook}
            self._emit("model_request_error", purpose=state.purpose, error="context_overflow", **left)
            self._think(state)
        elif state.purpose == "decide":
            self._emit("model_request_error", purpose=state.purpose, error="context_overflow")
            self._think(state, force="model_transport")
        else:
            self._invalid(state, error)

    def model_delta(self, text: str, answer: str = "") -> None:
        """Report a piece of the reply, while it is still coming, and what it adds to the answer; nothing depends on it."""
        if isinstance(self.state, Thinking) and self.state.asked:
            added = {"answer": clean_text(answer)} if answer else {}
            self._emit("model_request_delta", text=clean_text(text), **added)

    def _summarised(self, state: Thinking, fields: dict[str, Any]) -> None:
        told = {name: clean_text(str(fields.get(name) or "")) for name in RunSummary.model_fields}
        self.record.summary = RunSummary(**told)
        self.record.summarised = self.record.summary_tried = len(self.record.steps)
        self.record.usage += RunUsage(summaries=1)
        self._think(state.think_again(committed=False))

    def _last_answer(self, state: Thinking, reply: ModelReply) -> None:
        """Take in the reply to a request for the answer alone: only what submits counts."""
        calls = [RequestedTool(reply.tool_name, reply.tool_args), *reply.more]
        args = next((call.args for call in reversed(calls) if ends_run(call.name)), None)
        try:
            self._submitted(json_value(args), clean_text(reply.thought))
        except InvalidModelAction as error:
            self._invalid(state, error)
        else:
            self._end(state.complete())

    def _decide(self, state: Thinking, reply: ModelReply) -> None:
        thought = clean_text(reply.thought)
        asked = [RequestedTool(reply.tool_name, reply.tool_args, reply.call_id), *reply.more]
        used = {"", *(step.provider_id for step in self.record.steps)}
        ids = [tool.id if tool.id not in used and not used.add(tool.id) else "" for tool in asked]
        wanted = [RequestedTool(json_value(t.name), json_value(t.args), i) for t, i in zip(asked, ids, strict=True)]
        ends = [tool for tool in wanted if ends_run(tool.name)]
        calls = [tool for tool in wanted if not ends_run(tool.name)]
        planned = [tool for tool in calls if self.spec.plan is not None and tool.name == self.spec.plan.tool.name][:1]
        left, calls = ([tool.name for tool in calls if tool not in planned], planned) if planned else ([], calls)
        if not calls:
            self._commit(thought)
            self._finish(state, ends[-1].args, thought, reply.raw or json.dumps(ends[-1].args, ensure_ascii=False))
            return
        checked = [(tool, self._check(tool, number, reply.raw)) for number, tool in enumerate(calls, 1)]
        wrong, right = _sorted_out(checked)
        if wrong is not None:
            self._invalid(state, wrong, thought, checked)
            return
        self._commit(thought)
        remarks = [*map(_left_out, calls, right), _remark([*reply.ignored, *left, *([SUBMIT] if ends else [])])]
        remark, ids = " ".join(filter(None, remarks)), tuple(tool.id for tool in calls)
        if not planned:
            self._enter(state.act(right, thought, remark, ids))
            return
        self.record.plan = TakenPlan(args=right[0].args, first=len(self.record.steps))
        if remark:
            self._tell(remark)
        if not self._follow(state, thought):
            self._think(state.think_again(committed=False))

    @property
    def _following(self) -> bool:
        """Whether the run follows a plan."""
        return self.record.plan is not None and self.record.plan.end is None

    def _follow(self, state: Thinking, thought: str = "") -> bool:
        """Make the next call of the plan that was taken; False where there is none, and the model goes on."""
        plan, taken = self.spec.plan, self.record.plan
        if plan is None or taken is None or taken.end is not None:
            return False
        found = plan.after(taken.args, self.record.steps[taken.first :])
        if isinstance(found, RequestedTool):
            checked = self._check(found, 1)
            if isinstance(checked, ToolCall):
                self._enter(state.act((checked,), thought))
                return True
            found = PlanEnd(why=checked.message.rstrip("."))
        self._end_plan(found)
        self._think(state)  # what the plan has used up may end the run
        return self.state != state

    def _end_plan(self, end: PlanEnd) -> None:
        """Give the run back to the model."""
        plan, taken = self.spec.plan, self.record.plan
        if plan is None or taken is None or taken.end is not None:
            return
        self.record.plan = taken.model_copy(update={"end": end})
        told = f"stopped: {end.why}. What it called stands above; do not call it again. Go on."
        if end.finished:
            told = f"is done: all its calls stand above. Call {SUBMIT}, or do what is left."
        self._tell(f"{plan.tool.name} {told}")

    def _check(self, wanted: RequestedTool, number: int, raw: str = "") -> ToolCall | InvalidModelAction:
        """Return the call that is meant, or what is wrong with it."""
        call_id, plan = f"{self.record.step_id}-c{number}", self.spec.plan
        try:
            if plan is not None and wanted.name == plan.tool.name:
                if self.record.plan is not None:
                    text = f"{wanted.name} was called already, and its calls stand above. Go on with the other tools."
                    raise InvalidModelAction("unknown_tool", text, tool_name=wanted.name)
                wanted = replace(wanted, args=plan.slots_of(wanted.args))
            return check_call(self.spec.registry, wanted.name, wanted.args, call_id, self._excluded())
        except InvalidModelAction as error:
            if self._on_invalid == "forgive" and (found := self._without_surplus(wanted, call_id)):
                return found
            error.step_id, error.raw_response = self.record.step_id, raw or None
            return error

    def _without_surplus(self, wanted: RequestedTool, call_id: str) -> ToolCall | None:
        """Return the call without arguments that its tool does not have, where everything else fits and the tool only
        reads."""
        args = _as_object(wanted.args)
        if not args or not self.spec.registry.has(wanted.name):
            return None
        tool = self.spec.registry.get(wanted.name)
        kept = {name: value for name, value in args.items() if name in tool.schema.get("properties", {})}
        if not tool.read_only or kept == args:
            return None
        with suppress(InvalidModelAction):
            return check_call(self.spec.registry, wanted.name, kept, call_id)
        return None

    def _act(self, state: Thinking, thought: str, wanted: list[RequestedTool]) -> None:
        """Make the calls that the agent's own hook asked for; they have to be right."""
        asked = [RequestedTool(tool.name, json_value(tool.args)) for tool in wanted]
        checked = [(tool, self._check(tool, number)) for number, tool in enumerate(asked, 1)]
        wrong, right = _sorted_out(checked)
        if wrong is not None:
            self._add_invalid_steps(state, checked, thought)
            self._fail(wrong, f"{type(self.spec.agent).__name__}.execute_step: {wrong}")
        else:
            self._enter(state.act(right, thought))

    def _finish(self, state: Thinking, args: Any, thought: str = "", reply: str = "") -> None:
        try:
            self._submitted(args, thought)
        except InvalidModelAction as error:  # the answer must be asked for
            self._tell(error.message, reply)
            self._think(self._extract(state))
        else:
            self._end(state.complete())

    def _submitted(self, args: Any, thought: str) -> None:
        """Take the outputs that the model gives.

        Raises:
            InvalidModelAction: They do not fit the signature.
        """
        self.record.closing, self.reasoning = (thought, json_value(args)), thought
        values = self.spec.finish.checked(args or {})
        self.record.cited.extend(values.pop("cited_bullets", ()))
        self.record.outputs = values

    # -- what is illegal -----------------------------------------------------------------------------------------------

    def _invalid(self, state: Thinking, error: AgentError, thought: str = "", calls: Sequence[_Checked] = ()) -> None:
        """Let the policy decide about a reply that is no legal action, or that did not come.

        Args:
            state: The request.
            error: What is wrong with its reply.
            thought: What could be read of it.
            calls: The calls that could be read, each as it was checked.
        """
        self._emit("model_request_error", purpose=state.purpose, error=error.kind)
        bad = isinstance(error, InvalidModelAction)
        if bad:
            error.step_id = error.step_id or self.record.step_id
            calls = calls or [(RequestedTool(json_value(error.tool_name), json_value(error.received_args)), error)]
        deciding = state.purpose == "decide"
        situation = "an invalid action" if bad else "a model that cannot be asked"
        decision = self._ask_policy(situation, state.attempt, lambda view: self.spec.policy.on_model_error(view, error))
        match self._possible(state, decision):
            case Retry() as retry:
                self._charge(retry, RunUsage(retries=1))
                self._think(state.retry(self._not_before(retry, state.attempt, self.record.step_id)))
            case Reprompt() as reprompt:
                self._reprompt(state, reprompt, error)
            case AppendErrorAndContinue():
                rejected = self.record.reprompts_here
                self._commit(thought)
                self.record.reprompts_here = rejected + 1
                self._summarise(self._add_invalid_steps(state, calls, thought))
                self._think(state.think_again(committed=True))
            case ForceAnswer():
                self._add_invalid_steps(state, calls, thought)
                self._think(state, force=cast(TerminationReason, error.kind))
            case Interrupt(reason):
                self._end(state.interrupt(clean_text(reason)))
            case Fail() | PolicyRuntimeViolation() as end:
                if deciding:
                    self._add_invalid_steps(state, calls, thought)
                self._give_up(state, error) if isinstance(end, Fail) else self._fail(end)

    def _possible(
        self, state: Thinking, decision: PolicyDecision | PolicyRuntimeViolation
    ) -> PolicyDecision | PolicyRuntimeViolation:
        """Return the policy's decision about a bad reply; `Fail` where it is used up, or is none about a last answer."""
        deciding = state.purpose == "decide"
        match decision:
            case Retry(policy, consume):
                possible = state.attempt < policy.max_attempts and self._affordable(consume)
            case Reprompt(strategy):
                possible = deciding and self.record.reprompts_here < strategy.n
            case AppendErrorAndContinue() | ForceAnswer():
                possible = deciding
            case Fail() | Interrupt() | PolicyRuntimeViolation():
                possible = True
        return decision if possible else Fail()

    def _reprompt(self, state: Thinking, decision: Reprompt, error: AgentError) -> None:
        note = str(error)
        catalog = isinstance(decision.strategy, OnceWithToolCatalog)
        if catalog or (isinstance(error, InvalidModelAction) and error.reason == "unknown_tool"):
            names = [name for name in self.spec.registry.names if name not in self._excluded()]
            note += f" Tools: {', '.join((*names, SUBMIT))}."
        self._tell(note, getattr(error, "raw_response", None) or "(empty reply)")
        self.record.reprompts_here += 1
        self._charge(decision, RunUsage(reprompts=1))
        self._think(state.think_again(committed=False))

    def _give_up(self, state: Thinking, error: AgentError) -> None:
        if state.forced_by:
            self.error = error
            self._end(state.complete())  # the reason it was forced is what ended the run
        elif isinstance(error, InvalidModelAction) and self._on_invalid == "fail":
            hint = "The run ends at the first bad reply; policy='forgiving' tells the model what fits and goes on."
            error.add_note(hint)
            self._fail(error, f"{error} {hint}")
        else:
            self._fail(error)

    def _fail(self, error: AgentError, message: str = "") -> None:
        """End the run with an error."""
        self.error = error
        operator = error.operator_message if isinstance(error, ToolDispatch) else ""
        self._end(Failed(cast(TerminationReason, error.kind), message or str(error), operator))

    def _add_invalid_steps(self, state: Thinking, calls: Sequence[_Checked], thought: str) -> list[ReasoningStep]:
        """Add the calls of a reply that was rejected to the trace; none of them was made."""
        before = len(self.record.steps)
        for number, (wanted, found) in enumerate(calls, 1):
            error = found if isinstance(found, InvalidModelAction) else _BESIDE_AN_INVALID_CALL
            message, raw = clean_text(error.message), clean_text(truncate(error.raw_response or "", RAW_KEPT))
            step = ReasoningStep(
                iteration=state.iteration,
                thought=thought,
                tool_call_id=f"s{state.iteration}-c{number}",
                provider_id=wanted.id,
                tool_name=clean_text(wanted.name if isinstance(wanted.name, str) else error.tool_name or ""),
                tool_args=_as_object(wanted.args) or {},
                outcome="failed",
                observation=message,
                error=StepError(kind=error.reason, message=message, received_args=wanted.args, raw_response=raw),
                timestamp=self.spec.clock.now(),
            )
            self._append(step)
        return self.record.steps[before:]

    # -- going out ---------------------------------------------------------------------------------------------------

    def tool(self, call: ToolCall) -> Tool:
        """Return the tool that a call is meant for."""
        return self.spec.registry.get(call.name)

    def tool_context(self, call: ToolCall) -> ToolContext:
        """Return what the tool may know about the call."""
        left = self.spec.limits.left(self.usage_now()) if self._limited else _UNLIMITED
        return ToolContext(
            run_id=self.run_id,
            correlation_id=self.spec.task.task_id,
            step_id=self.record.step_id,
            tool_call_id=call.id,
            cancellation=self.cancellation,
            deadline=None if left.seconds is None else self.spec.clock.now() + left.seconds,
            remaining=left.model_copy(update={"iterations": max(0, self.spec.max_iters - self.record.spent)}),
        )

    def _call(self, state: Acting) -> Step | None:
        """Return the calls that are due; None when all of them were settled without going out."""
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
        """Choose the next calls: one, or as many consecutive read-only ones as there are."""
        left = [i for i, call in enumerate(state.calls) if call.status != "done"]
        left.sort(key=lambda index: state.calls[index].asked is None)  # alone, so that no other one takes its answers
        group: list[int] = []
        for position, index in enumerate(left):
            alone = state.calls[index].asked is not None or not self.tool(state.calls[index].call).read_only
            if position and alone:
                break
            group.append(index)
            if alone:
                break
        return group

    def _dispatch(self, state: Acting, index: int, now: float) -> Acting:
        """Send one call out, unless the budget or the tool's breaker forbids it."""
        call = state.calls[index]
        name = call.call.name
        if known := self._known(call):
            return state.update(index, call.changed(status="done", result=known, known=True, remark=_KNOWN))
        if not self._tool_calls_left(state):
            limit = self.spec.limits.tool_calls
            return self._refuse(state, index, "budget", f"Not called: all {limit} tool calls of this run are spent.")
        if problem := self._over():
            return self._refuse(state, index, "budget", f"Not called: {problem}.")
        if refusal := self._breakers.call(name, now):
            return self._refuse(state, index, "unavailable", refusal)
        self._call_started[call.id] = now
        started = {"tool_call_id": call.id, "tool": name, "attempt": call.attempt}
        self._emit("tool_call_started", {"args": call.call.args}, **started)
        return state.update(index, call.changed(status="out"))

    def _known(self, call: CallState) -> ToolResult | None:
        """Return the result of a call that was made with it again and again, in short; nobody asked for this one in
        person."""
        setting, (name, args) = self.spec.policy.no_progress, (call.call.name, call.call.args)
        if setting is None or call.consent or call.attempt > 1 or name in self.record.breakers:
            return None  # a tool that fails is the breaker's business
        if self._repeats.times(name, args) < setting.note_after - 1:
            return None
        for step in reversed(self.record.steps):
            if step.executed and (step.tool_name, step.tool_args) == (name, args):
                text = f"{truncate(step.observation, REPEATED)} {_KNOWN}"
                kind = cast(ToolErrorKind, step.error.kind) if step.error else None
                return ToolResult(tool_call_id=call.id, outcome=step.outcome, text=text, error_kind=kind)
        return None

    def _refuse(self, state: Acting, index: int, kind: ToolErrorKind, text: str) -> Acting:
        call = state.calls[index]
        result = ToolResult(tool_call_id=call.id, outcome="denied", text=text, error_kind=kind)
        return state.update(index, replace(call, status="done", result=result))

    # -- coming back -------------------------------------------------------------------------------------------------

    def tool_finished(self, result: ToolResult) -> None:
        """Take in what a tool returned, or that it failed."""
        with self._guarded():
            state = self.state
            if isinstance(state, Acting):
                found = [i for i, c in enumerate(state.calls) if c.status == "out" and c.id == result.tool_call_id]
                if found:
                    self.record.state = settled = self._settle(state, found[0], result)
                    self._advance(settled)
                    return
            if result.tool_call_id not in self._call_started:
                raise InternalInvariant(
                    f"result of {result.tool_call_id!r}, which was never sent out, in {state!r:.200}"
                )
            # its attempt was given up, by time-out, cancellation or resume: a late result is ignored

    def _settle(self, state: Acting, index: int, result: ToolResult) -> Acting:
        """Record one result: its call is over, or made again as the policy says."""
        call = state.calls[index]
        if isinstance(result.raised, Pause):
            return self._pause(state, index, result)
        self._spend_call(result)
        self._breakers.settle(call.call.name, result.outcome, result.error_kind or "exception", self.spec.clock.now())
        decision = self._on_failure(call, result) if result.outcome == "failed" else AppendErrorAndContinue()
        retry = decision if isinstance(decision, Retry) and self._may_retry(state, call, decision) else None
        self._report(call, result, retried=retry is not None)
        if retry is not None:
            self._charge(retry, RunUsage(retries=1))
            due = self._not_before(retry, call.tried, call.call.id)
            return state.update(index, replace(call, status="waiting", attempt=call.attempt + 1, not_before=due))
        stop, reason = self._stopped_by(call, result, decision)
        told, remark = self._as_told(call, result, decision)
        over = replace(call, status="done", result=told, remark=remark, stop=stop, stop_reason=reason, asked=None)
        return state.update(index, over)

    def _pause(self, state: Acting, index: int, result: ToolResult) -> Acting:
        """Keep a call that is not over: it is made again when the run goes on; of several, one asks at a time."""
        call = state.calls[index]
        cut = self._interrupted(call, f"{call.call.name} waited for an answer, and was not made to the end.")
        if any(other.stop == "paused" for other in state.calls):
            return state.update(index, _once_more(call))
        self._raised = result.raised
        asked = self.record.decisions if call.asked is None else call.asked
        return state.update(index, replace(call, status="done", result=cut, stop="paused", asked=asked))

    def _interrupted(self, call: CallState, text: str) -> ToolResult:
        """Settle a call that was cut off while it was out: it is spent, and the policy is not asked."""
        name, cut = call.call.name, _cut_off(call, text)
        self._spend_call(cut)
        self._breakers.settle(name, cut.outcome, "cancelled", self.spec.clock.now())
        self._emit("tool_call_error", tool_call_id=call.id, tool=name, outcome=cut.outcome, error="cancelled")
        return cut

    def _stopped_by(self, call: CallState, result: ToolResult, decision: Any) -> tuple[Stop, str]:
        """Say whether a result ends the run, and why."""
        match decision:
            case Fail():
                self._raised = result.raised
                return "fail", f"{call.call.name}: {result.text}"
            case Interrupt(reason):
                return "interrupt", reason
            case PolicyRuntimeViolation():
                return "violation", str(decision)
            case _:
                return "", ""

    def _as_told(self, call: CallState, result: ToolResult, decision: Any) -> tuple[ToolResult, str]:
        """Return a result as the model reads it and as the run keeps it, and what of it is said about it."""
        said = [result.text]
        if call.call.name in self._excluded():  # a prompt only grows: its tools are not taken out of it
            said.append(f"({call.call.name} is out of service now; use another tool.)")
        if isinstance(decision, AppendErrorAndContinue):
            said.append(decision.note)
        text = " ".join(filter(None, said)) if any(said[1:]) else result.text
        plain = result.content is None and result.raised is None and text == result.text
        told = result if plain else result.model_copy(update={"content": None, "raised": None, "text": text})
        return told, " ".join(filter(None, said[1:]))

    def _on_failure(self, call: CallState, result: ToolResult) -> PolicyDecision | PolicyRuntimeViolation:
        """Ask the policy about a call that failed."""
        failure, situation = FailedCall(self.tool(call.call), call.call, result), "a failed tool"
        decision = self._ask_policy(situation, call.tried, lambda view: self.spec.policy.on_tool_error(view, failure))
        if isinstance(decision, Retry) and not (failure.tool.repeatable or decision.approve_unsafe_replay):
            return self._violation(decision, "a failed tool that is not safe to call twice", situation)
        return decision

    def _report(self, call: CallState, result: ToolResult, retried: bool) -> None:
        """Tell the observers how a call came back, and keep what it gave."""
        failed = result.outcome != "success"
        self._emit(
            "tool_call_error" if failed else "tool_call_completed",
            {"result": result.text},
            tool_call_id=call.id,
            tool=call.call.name,
            outcome="retried" if retried else result.outcome,
            **({"error": result.error_kind or "exception"} if failed else {}),
        )
        self._values[call.id] = result.content
        if media := media_in(result.content):
            self._shown[call.id] = media
        if failed:
            self._record_error(call, result)

    def _may_retry(self, state: Acting, call: CallState, decision: Retry) -> bool:
        return (
            call.tried < decision.policy.max_attempts
            and self._affordable(decision.consume_budget)
            and not self._over()
            and self._tool_calls_left(state, out=-1)  # the one that just failed is counted already
            and not self._breakers.is_open(call.call.name)
        )

    def _tool_calls_left(self, state: Acting, out: int = 0) -> bool:
        """Check whether one more call may go out, beside those that are."""
        limit, out = self.spec.limits.tool_calls, out + sum(call.status == "out" for call in state.calls)
        return limit is None or self.record.usage.tool_calls + out < limit

    def _excluded(self) -> tuple[str, ...]:
        """Name the tools that are out of service now."""
        return self._breakers.out_of_service(self.spec.clock.now()) if self.record.breakers else ()

    # -- all results are back ----------------------------------------------------------------------------------------

    def _advance(self, state: Acting) -> None:
        """Stop if a result demands it and no call is out any more; observe when every call is settled."""
        if any(call.status == "out" for call in state.calls):
            return
        stopped = next((call for call in state.calls if call.stop), None)
        if stopped is None:
            if all(call.status == "done" for call in state.calls):
                self._observe(state.observe())
        elif stopped.stop in ("interrupt", "paused"):
            calmed = replace(state, calls=tuple(replace(c, stop="", stop_reason="") for c in state.calls))
            paused = [call for call in state.calls if call.stop == "paused"]
            if paused:
                self._wait_for(calmed, "paused", paused, "{} waits for an answer", self._raised)
            else:
                self._end(calmed.interrupt(stopped.stop_reason))
        else:
            self._fail(_stop_error(stopped, self._raised))

    def _observe(self, state: Observing) -> None:
        self.record.state = state
        steps = self.steps_of(state.calls, state.thought, state.iteration)
        watched = [self._watch(step, call) for step, call in zip(steps, state.calls, strict=True)]
        steps = [step for step, _ in watched]
        steps[-1] = steps[-1].with_remark(state.remark)
        for step in steps:
            self._append(step)
        self._summarise(steps)
        decisions = [decision for _, decision in watched]
        match next((d for d in decisions if isinstance(d, (PolicyRuntimeViolation, Fail, Interrupt))), None):
            case PolicyRuntimeViolation() as violation:
                self._fail(violation)
            case Fail():
                self._end(state.fail("no_progress", "the same call gave the same result again and again"))
            case Interrupt(reason):
                self._end(state.interrupt(reason))
            case None:
                forced = any(isinstance(decision, ForceAnswer) for decision in decisions)
                self._think(state.think(), force="no_progress" if forced else None)

    def _watch(self, step: ReasoningStep, made: CallState) -> tuple[ReasoningStep, Any]:
        """Detect a loop: the step, with the policy's note where the call is a repetition, and the policy's decision."""
        setting = self.spec.policy.no_progress
        if setting is None or not (step.executed or made.known):
            return step, None
        times = self._repeats.add(step)
        if times < setting.note_after:
            return step, None
        call = ToolCall(id=step.tool_call_id, name=step.tool_name, args=step.tool_args)
        ask = self.spec.policy.on_no_progress
        decision = self._ask_policy("a run that loops", 1, lambda view: ask(view, call, times))
        if isinstance(decision, AppendErrorAndContinue):
            step = step.with_remark(decision.note)
        return step, decision

    def steps_of(self, calls: tuple[CallState, ...], thought: str, iteration: int) -> list[ReasoningStep]:
        """Return those of some calls that are settled as steps, in the order in which the model asked for them."""
        return [
            self._as_step(call, call.result, thought, iteration)
            for call in calls
            if call.status == "done" and call.result is not None
        ]

    def _as_step(self, call: CallState, result: ToolResult, thought: str, iteration: int) -> ReasoningStep:
        kind, operator = result.error_kind or "exception", _operator_text(result)
        failed = result.outcome == "failed" and not call.known and self._on_invalid == "forgive"
        hint = where_to_find(call.call.args, self.spec.registry, self.record.steps) if failed else ""
        error = StepError(kind=kind, message=result.text, operator_message=operator)
        step = ReasoningStep(
            iteration=iteration,
            thought=thought,
            tool_call_id=call.id,
            provider_id=call.provider_id,
            tool_name=call.call.name,
            tool_args=call.call.args,
            outcome=result.outcome,
            observation=result.text,
            remark=call.remark,
            changes_state=not self.tool(call.call).read_only,
            executed=result.outcome != "denied" and not call.known,
            attempts=call.attempt,
            plan=self.spec.plan.bullet_id if self._following and self.spec.plan is not None else "",
            error=None if result.outcome == "success" else error,
            seconds=result.seconds,
            timestamp=self._call_started.get(call.id, 0.0),
        )
        return step.with_remark(hint)

    # -- stopping from outside -----------------------------------------------------------------------------------------

    def cancel(self, reason: str = "cancelled", spent: RunUsage = _ONE_REQUEST) -> None:
        """Stop now, whatever is out; the run can go on later, and late results are ignored.

        Args:
            reason: Shown as the run's error.
            spent: What a request that was out has cost, where that is known.
        """
        reason = clean_text(reason)
        if isinstance(self.state, Idle):
            with self._guarded():
                self._begin(self.state)
        self._call_off(spent)
        if isinstance(self.state, (Thinking, Acting)):
            self._end(self.state.interrupt(reason, "cancelled"))

    def _call_off(self, spent: RunUsage) -> None:
        """Stop waiting for what is out."""
        state = self.state
        if isinstance(state, Thinking) and state.asked:
            self._arrived(spent)
            self._emit("model_request_error", purpose=state.purpose, error="cancelled")
        for index, call in enumerate(state.calls if isinstance(state, Acting) else ()):
            if call.status == "out" and isinstance(self.state, Acting):
                text = f"{call.call.name} was cancelled while it ran; its effect is unknown."
                self.record.state = self._settle(self.state, index, _cut_off(call, text))

    # -- going on after a stop ---------------------------------------------------------------------------------------

    def resume(self, decision: ResumeDecision | None = None) -> None:
        """Make a restored run ready for its driver.

        What was out when the process died is settled first: a request counts as spent and is made again, an idempotent or
        read-only tool is called again, and any other call ends as ``interrupted``; then the run waits for a decision.

        Raises:
            ResumeError: A decision is needed and missing, or given and not needed; the run is unchanged.
        """
        state = self.state
        request = state.request if isinstance(state, Interrupted) else None
        if request is None and decision is not None:
            raise ResumeError(f"run {self.run_id!r} is {state.kind} and waits for no decision; resume it without one")
        if request is not None and decision is None:
            raise ResumeError(
                f"run {self.run_id!r} waits: {request.reason}; pass decision='approve' or decision='deny'"
            )
        with self._guarded():
            if isinstance(state, Interrupted):
                self._answer(state, {} if request is None else _by_call(request, decision))
            elif isinstance(state, (Thinking, Acting)):
                self._emit("run_continued", after="crash")
                self._ask_again(state) if isinstance(state, Thinking) else self._settle_crashed(state)

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
            text = "The process died while it ran; its effect is unknown and it was not repeated."
            cut = self._interrupted(call, text)
            if self.tool(call.call).repeatable:
                state = state.update(index, _once_more(call))
            else:
                state = state.update(index, replace(call, status="done", result=cut))
                unknown.append(call)
        self.record.state = state
        if unknown:
            question = "the process died while {} ran; may it be called again?"
            self._wait_for(state, "unknown_effect", unknown, question)
        else:
            self._advance(state)

    def _answer(self, state: Interrupted, decided: Mapping[str, Approve | Deny]) -> None:
        then, request = state.resume(), state.request
        if request is not None and isinstance(then, Acting):
            for index, call in enumerate(then.calls):
                if call.id in decided:
                    then = then.update(index, self._decided(call, request.kind, decided[call.id]))
        self.record.state = then
        self.record.decisions += max((one.answers for one in decided.values()), default=0)
        self._emit("run_continued", after=state.cause)
        if isinstance(then, Acting):
            self._advance(then)
        else:
            self._think(then)  # what was spent when it stopped counts
        if state.cause == "cancelled" and isinstance(self.state, Thinking):
            self._end_plan(PlanEnd(why="the run was cancelled"))
            self._think(self.state)

    def _decided(self, call: CallState, kind: str, decision: Approve | Deny) -> CallState:
        """Return a call that waited, as it was decided."""
        again = kind != "approval"
        if isinstance(decision, Deny):
            if again:
                return replace(call, asked=None)  # it stays interrupted, and the model reads that
            text = clean_text(decision.reason or "The operator did not approve this call.")
            denied = ToolResult(tool_call_id=call.id, outcome="denied", text=text, error_kind="permission_denied")
            return replace(call, status="done", result=denied)
        checked = call.call
        if decision.args is not None:
            try:
                checked = check_call(self.spec.registry, call.call.name, json_value(decision.args), call.call.id)
            except InvalidModelAction as error:
                raise ResumeError(f"the new arguments of {call.id!r} do not fit: {error}") from error
        attempts = {"attempt": call.attempt + again, "repeats": call.repeats + again}
        asked = None if kind == "unknown_effect" else call.asked  # what it had heard is not known to be its own
        return replace(call, call=checked, status="waiting", result=None, consent=True, asked=asked, **attempts)

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
        """Commit a decision."""
        self.record.usage = self.record.usage.changed(iterations=self.record.usage.iterations + 1)
        self.record.cited.extend(_CITED.findall(thought))
        self.record.reprompts_here = 0

    def _append(self, step: ReasoningStep) -> None:
        self.record.steps.append(step)
        if step.error is not None and not step.executed:
            kind, message = step.error.kind, step.error.message
            self.record.errors.append(
                ErrorRecord(
                    iteration=step.iteration, tool=step.tool_name, kind=kind, message=message, timestamp=step.timestamp
                )
            )

    def _summarise(self, steps: Sequence[ReasoningStep]) -> None:
        """Let the agent's own hook write the summary after each of these steps."""
        for step in steps if self._overrides("update_summary") else ():
            if (summary := self._hook("update_summary", self.view(), step)) is not None:
                self.record.summary, self.record.summarised = summary, len(self.record.steps)

    def _hook(self, name: str, *args: Any) -> Any:
        """Call a hook of the agent.

        Raises:
            InternalInvariant: It raised; the run ends.
        """
        try:
            return getattr(self.spec.agent, name)(*args)
        except Exception as error:  # a border to foreign code; the cause is kept
            raise self._broken(name, f"raised {describe_error(error)}") from error

    def _broken(self, hook: str, problem: str) -> InternalInvariant:
        return InternalInvariant(f"{type(self.spec.agent).__name__}.{hook} {clean_text(problem)}")

    @contextmanager
    def _guarded(self) -> Generator[None]:
        """End the run where a hook raised, or where a rule of this machine was broken."""
        try:
            yield
        except InternalInvariant as error:
            if not self._ended():
                self._call_off(_ONE_REQUEST)
                self._fail(error)

    def _overrides(self, hook: str) -> bool:
        """Check whether the agent has a hook of its own; the defaults are not worth a view of the whole run."""
        return getattr(type(self.spec.agent), hook) is not getattr(Agent, hook)

    def _record_error(self, call: CallState, result: ToolResult) -> None:
        """Record that a call failed: once per decision, counting its retries."""
        errors, tool, retries = self.record.errors, call.call.name, call.tried - 1
        if retries and errors and (errors[-1].tool, errors[-1].retries) == (tool, retries - 1):
            errors.pop()
        errors.append(
            ErrorRecord(
                iteration=self.record.iteration,
                tool=tool,
                kind=result.error_kind or "exception",
                message=result.text,
                operator_message=_operator_text(result),
                retries=retries,
                timestamp=self._call_started.get(call.id, 0.0),
            )
        )
        if text := _operator_text(result):
            _log.warning("run %s: %s failed: %s", self.run_id, tool, text)

    # -- events ------------------------------------------------------------------------------------------------------

    def _emit(self, kind: EventKind, told: Mapping[str, Any] | None = None, /, **data: Any) -> None:
        """Send an event to observers, and to the reader of a stream, who is told more."""
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
            listener(event.model_copy(update=told) if told else event)
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
                outputs = self.record.outputs
                told = {"answer": value_to_text(outputs.get(answer_field(outputs)))}
                self._emit("run_completed", told, termination_reason=self.record.forced_by or "completed")

    # -- the output -------------------------------------------------------------------------------------------------

    def steps_so_far(self, state: State) -> list[ReasoningStep]:
        """Return all steps, those of a decision that is not yet fully observed included."""
        acting = state.then if isinstance(state, Interrupted) else state
        if not isinstance(acting, Acting):
            return list(self.record.steps)
        return [*self.record.steps, *self.steps_of(acting.calls, acting.thought, acting.iteration)]

    def output(self) -> TaskOutput:
        """Return the output so far; call it when `next_step()` returned `Done`."""
        return build_output(self.record, self.steps_so_far(self.state), self.usage_now())

    # -- small things --------------------------------------------------------------------------------------------------

    def _enter(self, state: Acting) -> None:
        """Start acting, unless a call needs approval first."""
        self.record.state = state
        needed = [call for call in state.calls if self.tool(call.call).requires_approval]
        if needed:
            self._wait_for(state, "approval", needed, "{} needs approval")

    def _wait_for(self, state: Acting, kind: Any, calls: list[CallState], reason: str, raised: Any = None) -> None:
        """Stop until somebody has decided about some calls, whose names stand in the reason."""
        names = ", ".join(dict.fromkeys(repr(call.call.name) for call in calls))
        asked = tuple(RequestedCall(tool_call_id=c.id, tool_name=c.call.name, tool_args=c.call.args) for c in calls)
        request = ApprovalRequest(kind=kind, reason=reason.format(names), calls=asked, raised=raised)
        cause = "unknown_effect" if kind == "unknown_effect" else "approval"
        self._end(state.interrupt(request.reason, cause, request))

    def _arrived(self, usage: RunUsage) -> Thinking:
        """Take in that a request is back, well or not, and return what it was."""
        state = self.state
        if not isinstance(state, Thinking) or not state.asked:
            raise InternalInvariant(f"a reply came, but none was asked for in {state!r:.200}")
        self._spend_lm(usage)
        self.record.state = state = replace(state, asked=False)
        return state

    def _ended(self) -> bool:
        """Check whether the run is over for now: a reply that comes later changes nothing."""
        return isinstance(self.state, (Completed, Failed, Interrupted))

    def _too_late(self, usage: RunUsage) -> bool:
        """Check whether a reply came after the end, or after the run was cancelled: then it is paid for and not read."""
        if not self._ended() and self.cancellation.cancelled:
            self.cancel(self.cancellation.reason, usage)
        return self._ended()

    @property
    def _on_invalid(self) -> Any:
        """What a policy of ours does about a bad reply; other policies just decide."""
        return getattr(self.spec.policy, "on_invalid_action", "")

    def _affordable(self, consume_budget: bool) -> bool:
        return not consume_budget or self.record.spent < self.spec.max_iters

    def _not_before(self, decision: Retry, attempt: int, what: str) -> float:
        """Return when a retry is due; the jitter depends on nothing but the run, so that a replay waits as long."""
        draw = random.Random(f"{self.run_id}/{what}/{attempt}").random()
        return self.spec.clock.now() + decision.policy.delay(attempt, draw)

    def _charge(self, decision: Retry | Reprompt, usage: RunUsage) -> None:
        self.record.usage += usage
        self.record.charged += decision.consume_budget

    def _ask_policy(
        self, situation: str, attempt: int, ask: Callable[[AgentState], PolicyDecision]
    ) -> PolicyDecision | PolicyRuntimeViolation:
        """Ask the policy about a situation of `LEGAL`; return a violation where its answer is illegal, and guess nothing."""
        record = self.record
        view = AgentState(
            user_input=record.task.text,
            step_count=record.usage.iterations,
            correlation_id=record.task.task_id,
            attempt=attempt,
            reprompts=record.reprompts_here,
            usage=record.usage,
        )
        try:
            decision = ask(view)
        except Exception as error:  # a policy is the user's code; what it raised is in the violation
            return self._violation(error, situation, situation)
        return decision if isinstance(decision, LEGAL[situation]) else self._violation(decision, situation, situation)

    def _violation(self, answer: Any, what: str, situation: str) -> PolicyRuntimeViolation:
        legal = ", ".join(kind.__name__ for kind in LEGAL[situation])
        said = f"raised {describe_error(answer)} for" if isinstance(answer, Exception) else f"answered {answer!r} to"
        return PolicyRuntimeViolation(clean_text(f"policy {self.spec.policy.name!r} {said} {what}; legal are {legal}"))


def _stop_error(call: CallState, source: BaseException | None) -> AgentError:
    """Make the error of a call that ends the run, with what the tool raised."""
    if call.stop == "violation" or call.result is None:
        return PolicyRuntimeViolation(call.stop_reason)
    kind, operator = call.result.error_kind or "exception", _operator_text(call.result)
    error = ToolDispatch(
        call.stop_reason, tool=call.call.name, error_kind=kind, source=source, operator_message=operator
    )
    error.__cause__ = source
    return error


def _sorted_out(checked: Sequence[_Checked]) -> tuple[InvalidModelAction | None, tuple[ToolCall, ...]]:
    """Return the first error among checked calls, and the calls that are right."""
    wrong = next((found for _, found in checked if isinstance(found, InvalidModelAction)), None)
    return wrong, tuple(found for _, found in checked if isinstance(found, ToolCall))


def _left_out(wanted: RequestedTool, call: ToolCall) -> str:
    """Tell the model about arguments of a call that its tool does not have."""
    names = [f"`{name}`" for name in _as_object(wanted.args) or {} if name not in call.args]
    what = "are no arguments" if len(names) > 1 else "is no argument"
    return f"({', '.join(names)} {what} of {call.name}; left out.)" if names else ""


def _remark(ignored: Sequence[str]) -> str:
    """Tell the model about calls of its reply that were not made."""
    if not ignored:
        return ""
    names = ", ".join(repr(name) for name in ignored)
    return f"(Not made, because other calls of the same reply came first: {names}. Ask again if it is still needed.)"


def _by_call(request: ApprovalRequest, given: Any) -> dict[str, Approve | Deny]:
    """Return the decision about each call that waits.

    Raises:
        ResumeError: A call has none, one is about no call that waits, or something is no decision.
    """
    ids = [call.tool_call_id for call in request.calls]
    named = cast("Mapping[Any, Any]", given) if isinstance(given, Mapping) else dict.fromkeys(ids, given)
    missing, unknown = [i for i in ids if i not in named], [i for i in named if i not in ids]
    if missing or unknown:
        raise ResumeError(f"decisions are needed about {ids}; missing: {missing}, about no call that waits: {unknown}")
    if isinstance(given, Approve) and given.args is not None and len(ids) != 1:
        raise ResumeError(f"Approve(args=...) fits one call, and {len(ids)} wait; decide by their ids: {ids}")
    decided: dict[str, Approve | Deny] = {}
    for call_id, one in named.items():
        decision = {"approve": Approve(), "deny": Deny()}.get(one) if isinstance(one, str) else one
        if not isinstance(decision, (Approve, Deny)):
            raise ResumeError(
                "decision must be 'approve', 'deny', Approve(...) or Deny(...), for all calls or by the id of each, "
                f"got {one!r}"
            )
        decided[call_id] = decision
    return decided


def _once_more(call: CallState) -> CallState:
    """Return a call that was cut off as one that is made again: that is none of the policy's retries."""
    return replace(call, status="waiting", attempt=call.attempt + 1, repeats=call.repeats + 1)


def _cut_off(call: CallState, text: str) -> ToolResult:
    """Make the result of a call that nobody could wait for."""
    return ToolResult(tool_call_id=call.id, outcome="interrupted", text=text, error_kind="cancelled")


def _operator_text(result: ToolResult) -> str:
    """Return what a tool says to its operator beside what the model reads."""
    return "" if result.message == result.text else clean_text(result.message)


def _as_object(args: Any) -> dict[str, Any] | None:
    return cast(dict[str, Any], args) if isinstance(args, dict) else None
