"""The part of the machine that makes calls: what goes out together, what failed, what is tried again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ace.agent.breaker import Breaker
from ace.agent.ledger import Ledger
from ace.agent.policy import AppendErrorAndContinue, Fail, FailedCall, ForceAnswer, Interrupt, PolicyDecision, Retry
from ace.agent.states import Acting, CallState, CallTool, Observing, Step, Thinking, Wait
from ace.core import InternalInvariant, RunUsage, ToolContext, ToolErrorKind
from ace.tasks import ApprovalRequest, ReasoningStep, RequestedCall, StepError, TerminationReason
from ace.tools import Tool, ToolCall, ToolResult


class Calling(Ledger):
    """Makes the calls of one decision and turns their results into steps."""

    # -- going out ---------------------------------------------------------------------------------------------------

    def tool(self, call: ToolCall) -> Tool:
        """The tool that a call is meant for."""
        return self.spec.registry.get(call.name)

    def tool_context(self, call: ToolCall) -> ToolContext:
        """What the tool may know about the call."""
        limits, spent = self.spec.limits, self.usage_now()
        left = limits.left(spent).model_copy(update={"iterations": max(0, self.spec.max_iters - self._spent)})
        deadline = None if limits.seconds is None else self.spec.clock.now() + max(0.0, limits.seconds - spent.seconds)
        return ToolContext(
            run_id=self.run_id,
            correlation_id=self.correlation_id,
            step_id=self._step_id(),
            tool_call_id=call.id,
            cancellation=self.spec.cancellation,
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
        self.state = state
        out = [state.calls[i] for i in group if state.calls[i].status == "out"]
        if out:
            return CallTool(tuple(call.call.model_copy(update={"id": call.id}) for call in out))
        if later := [state.calls[i].not_before for i in group if state.calls[i].status == "waiting"]:
            return Wait(max(0.0, min(later) - now))
        self._advance(state)
        return None

    def _group(self, state: Acting) -> list[int]:
        """The next calls: one, or as many read-only ones as stand in a row."""
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
        """Send one call out, unless the budget or the tool's breaker says no."""
        call = state.calls[index]
        name = call.call.name
        limit = self.spec.limits.tool_calls
        out = sum(other.status == "out" for other in state.calls)
        if limit is not None and self.usage.tool_calls + out >= limit:
            return self._refuse(state, index, "budget", f"Not called: all {limit} tool calls of this run are spent.")
        if problem := self._over():
            return self._refuse(state, index, "budget", f"Not called: {problem}.")
        setting = self.spec.policy.breaker
        if setting is not None:
            breaker = self.breakers.get(name, Breaker())
            if not breaker.allows(setting, now):
                text = f"{name} failed {breaker.failures} times in a row and is out of service now; use another tool."
                return self._refuse(state, index, "unavailable", text)
            if breaker.state != "closed":
                self.breakers[name] = breaker.called()
        self._call_started[call.id] = now
        self._emit("tool_call_started", tool_call_id=call.id, tool=name, attempt=call.attempt)
        return state.update(index, replace(call, status="out"))

    def _refuse(self, state: Acting, index: int, kind: ToolErrorKind, text: str) -> Acting:
        call = state.calls[index]
        result = ToolResult(tool_call_id=call.id, outcome="denied", text=text, error_kind=kind)
        return state.update(index, replace(call, status="done", result=result))

    # -- coming back -------------------------------------------------------------------------------------------------

    def tool_finished(self, result: ToolResult) -> None:
        """A tool came back, well or not."""
        state = self.state
        if isinstance(state, Acting):
            found = [i for i, c in enumerate(state.calls) if c.status == "out" and c.id == result.tool_call_id]
            if found:
                settled = self._settle(state, found[0], result)
                if isinstance(self.state, Acting):
                    self.state = settled
                    self._advance(settled)
                return
        if result.tool_call_id not in self._call_started:
            raise InternalInvariant(f"result of {result.tool_call_id!r}, which was never sent out")
        # its attempt was given up, by time-out, cancellation or resume: a late result is fenced off

    def _settle(self, state: Acting, index: int, result: ToolResult) -> Acting:
        """Book one result, tell the observers, and ask the policy what a failure means."""
        call = state.calls[index]
        self.usage += RunUsage(tool_calls=1) + result.usage
        failed = result.outcome != "success"
        self._judge_tool(call.call.name, result)
        decision: Any = AppendErrorAndContinue()
        if result.outcome == "failed":
            view = self.run_view(call.tried)
            failure = FailedCall(self.tool(call.call), call.call, result)
            decision = self._judge(lambda: self.spec.policy.on_tool_error(view, failure))
        retried = isinstance(decision, Retry) and self._may_retry(state, call, decision)
        self._emit(
            "tool_call_error" if failed else "tool_call_completed",
            tool_call_id=call.id,
            tool=call.call.name,
            outcome="retried" if retried else result.outcome,
            **({"error": result.error_kind or "exception"} if failed else {}),
        )
        stored = result.model_copy(update={"content": None})  # the run keeps what the model reads
        done = replace(call, status="done", result=stored)
        if failed:
            self._record_error(call, result)
        match decision:
            case Retry():
                if not self.tool(call.call).repeatable and not decision.approve_unsafe_replay:
                    self._stop(state.update(index, done), decision, "a failed tool that is not safe to call twice")
                elif retried:
                    self.usage += RunUsage(retries=1)
                    self._charged += decision.consume_budget
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

    def _may_retry(self, state: Acting, call: CallState, decision: Retry) -> bool:
        tool = self.tool(call.call)
        breaker, setting = self.breakers.get(call.call.name), self.spec.policy.breaker
        return (
            (tool.repeatable or decision.approve_unsafe_replay)
            and call.tried < decision.policy.max_attempts
            and self._affordable(decision.consume_budget)
            and not self._over()
            and self._tool_calls_left(state)
            and (setting is None or breaker is None or breaker.state != "open")
        )

    def _tool_calls_left(self, state: Acting) -> bool:
        limit = self.spec.limits.tool_calls
        out = sum(call.status == "out" for call in state.calls) - 1  # the one that just failed is booked already
        return limit is None or self.usage.tool_calls + out < limit

    def _stop(self, state: Acting, decision: Any, what: str) -> None:
        self.state = state
        for call in state.calls:
            if call.status == "out":  # its result will be fenced off; it has to be told now
                self._emit("tool_call_error", tool_call_id=call.id, tool=call.call.name, outcome="interrupted")
        self._violation(
            decision, what, "Fail, Interrupt, AppendErrorAndContinue, and Retry where replay is safe or approved"
        )

    def _judge_tool(self, name: str, result: ToolResult) -> None:
        setting = self.spec.policy.breaker
        if setting is None:
            return
        breaker = self.breakers.get(name, Breaker())
        if result.outcome == "success":
            breaker = breaker.succeeded()
        elif result.outcome == "failed":
            breaker = breaker.failed(result.error_kind or "exception", setting, self.spec.clock.now())
        else:
            breaker = breaker.abandoned()
        if breaker == Breaker():
            self.breakers.pop(name, None)
        else:
            self.breakers[name] = breaker

    def _excluded(self) -> tuple[str, ...]:
        """Tools that are out of service now."""
        setting = self.spec.policy.breaker
        if setting is None or not self.breakers or not setting.exclude:
            return ()
        now = self.spec.clock.now()
        return tuple(name for name, breaker in self.breakers.items() if not breaker.allows(setting, now))

    # -- all results are back ----------------------------------------------------------------------------------------

    def _advance(self, state: Acting) -> None:
        """Stop if a result says so and nothing is out any more; observe when every call is settled."""
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
        self.state = state
        force: TerminationReason | None = None
        verdict: PolicyDecision | None = None
        for step in self.steps_of(state.calls, state.thought, state.iteration):
            shown, decision = self._watch(step)
            self._append(shown)
            if isinstance(decision, (Fail, Interrupt)):
                verdict = verdict or decision
            elif isinstance(decision, ForceAnswer):
                force = "no_progress"
            elif decision is not None and not isinstance(decision, AppendErrorAndContinue):
                self._violation(decision, "a run in circles", "Fail, Interrupt, ForceAnswer and AppendErrorAndContinue")
                return
        finish, self._finish_after = self._finish_after, None
        if isinstance(verdict, Fail):
            self._end(state.fail("no_progress", "the same call gave the same result again and again"))
        elif isinstance(verdict, Interrupt):
            self._end(state.interrupt(verdict.reason))
        elif finish is not None and all(c.result is not None and c.result.outcome == "success" for c in state.calls):
            self._finish(state, finish)
        else:
            self._think(state.think(), force=force)

    def _watch(self, step: ReasoningStep) -> tuple[ReasoningStep, Any]:
        """Look for circles: the step, with a note where it closes one, and what the policy says."""
        setting = self.spec.policy.no_progress
        if setting is None or not step.executed:
            return step, None
        times = self.circles.add(step)
        if times < setting.note_after:
            return step, None
        call = ToolCall(id=step.tool_call_id, name=step.tool_name, args=step.tool_args)
        decision = self._judge(lambda: self.spec.policy.on_no_progress(self.run_view(1), call, times))
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

    # -- what the rest of the machine brings -------------------------------------------------------------------------

    @abstractmethod
    def _affordable(self, consume_budget: bool) -> bool: ...
    @abstractmethod
    def _finish(self, state: Thinking | Observing, args: Any) -> None: ...
    @abstractmethod
    def _judge(self, ask: Callable[[], PolicyDecision]) -> PolicyDecision | Exception: ...
    @abstractmethod
    def _not_before(self, decision: Retry, attempt: int, what: str) -> float: ...
    @abstractmethod
    def _think(self, state: Thinking, force: TerminationReason | None = None) -> None: ...
    @abstractmethod
    def _violation(self, decision: Any, what: str, legal: str) -> None: ...


def _requested(calls: list[CallState]) -> tuple[RequestedCall, ...]:
    return tuple(RequestedCall(tool_call_id=c.id, tool_name=c.call.name, tool_args=c.call.args) for c in calls)
