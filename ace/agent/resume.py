"""From a stored run back to a run that goes on: what was out when the process died, and what somebody decided."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic_core import to_jsonable_python

from ace.agent.machine import AgentRun
from ace.agent.progress import Circles
from ace.agent.spec import RunSnapshot, RunSpec
from ace.agent.states import Acting, CallState, Idle, Interrupted, Thinking
from ace.agent.trajectory import render_step
from ace.core import InvalidModelAction, ResumeError, RunStoreError, RunUsage, clean_text, json_value
from ace.tasks import ApprovalRequest, RequestedCall
from ace.tools import ToolResult, check_call


@dataclass(frozen=True)
class Approve:
    """Make the calls that a run asked for; with `args`, the only one of them with other arguments."""

    args: dict[str, Any] | None = None
    answers: int = 1
    """How many answers it took to get it; see `RunSnapshot.decisions`."""


@dataclass(frozen=True)
class Deny:
    """Do not make them; the model reads the reason and goes on."""

    reason: str = ""
    answers: int = 1
    """As for `Approve`."""


ResumeDecision = Approve | Deny | Literal["approve", "deny"]


def snapshot(run: AgentRun) -> RunSnapshot:
    """The run as JSON data, as it is now."""
    return RunSnapshot(
        run_id=run.run_id,
        task=run.spec.task,
        tools=run.spec.registry.schema_hashes,
        max_iters=run.spec.max_iters,
        limits=run.spec.limits,
        state=run.state,
        steps=tuple(run.steps),
        usage=run.usage_now(),
        outputs=to_jsonable_python(run._outputs),  # pyright: ignore[reportPrivateUsage] - the machine's other half
        breakers=dict(run.breakers),
        repeats=dict(run.circles.counts),
        summary=run.summary,
        summarised=run.summarised,
        scratch=run.scratch,
        injected_bullets=run.spec.injected_bullets,
        context=dict(run.spec.context),
        metadata=dict(run.spec.metadata),
        **{name: _plain(getattr(run, f"_{name}")) for name in _BOOKS},
    )


_BOOKS = (
    "charged",
    "notes",
    "reprompts_here",
    "cited",
    "forced_by",
    "finish_after",
    "errors",
    "summary_tried",
    "decisions",
    "seq",
)


def _plain(value: Any) -> Any:
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


def check_tools(stored: RunSnapshot, spec: RunSpec) -> None:
    """Refuse to go on with other tools than the run began with.

    Raises:
        RunStoreError: It names every tool that is missing, new or changed.
    """
    now = spec.registry.schema_hashes
    missing, new = sorted(stored.tools.keys() - now.keys()), sorted(now.keys() - stored.tools.keys())
    changed = sorted(name for name in stored.tools.keys() & now.keys() if stored.tools[name] != now[name])
    if missing or new or changed:
        raise RunStoreError(
            f"run {stored.run_id!r} began with other tools (missing now: {missing}, new: {new}, changed: {changed}); resume "
            "it with the agent that started it"
        )


def restore(stored: RunSnapshot, spec: RunSpec) -> AgentRun:
    """A run as it was stored, without going on yet; `spec` brings what is no data: tools, policy, observers.

    Raises:
        RunStoreError: The tools are others.
    """
    check_tools(stored, spec)
    data = dataclasses.replace(
        spec,
        task=stored.task,
        max_iters=stored.max_iters,
        limits=stored.limits,
        injected_bullets=stored.injected_bullets,
        context=stored.context,
        metadata=stored.metadata,
    )
    run = AgentRun(data, stored.run_id)
    run.state = stored.state
    run.steps = list(stored.steps)
    run.usage = stored.usage
    run.breakers = dict(stored.breakers)
    run.summary, run.summarised, run.scratch = stored.summary, stored.summarised, dict(stored.scratch)
    for name in _BOOKS:
        value = getattr(stored, name)
        setattr(run, f"_{name}", list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value)
    run._rendered = [render_step(i, step) for i, step in enumerate(run.steps)]  # pyright: ignore[reportPrivateUsage]
    run.circles = Circles(stored.repeats)
    run._outputs = _typed(stored.outputs, spec)  # pyright: ignore[reportPrivateUsage]
    return run


def _typed(outputs: dict[str, Any], spec: RunSpec) -> dict[str, Any]:
    """Stored outputs with the types that the signature gives them."""
    if not outputs:
        return {}
    try:
        fields = spec.finish.args_model.model_validate(outputs)
    except ValueError:
        return dict(outputs)
    typed = {name: getattr(fields, f"p{i}") for i, name in enumerate(spec.finish.parameters)}
    return {name: typed.get(name, value) for name, value in outputs.items()}


def go_on(run: AgentRun, decision: ResumeDecision | None = None) -> None:
    """Make a restored run ready for its driver.

    What was out when the process died is settled first: a request counts as spent and is made again, an idempotent or
    read-only tool is called again, and any other call ends as ``interrupted``; then the run waits for a decision.

    Raises:
        ResumeError: A decision is needed and missing, or given and not needed; the run is unchanged.
    """
    wanted = {"approve": Approve(), "deny": Deny()}.get(decision, decision) if isinstance(decision, str) else decision
    if not (wanted is None or isinstance(wanted, (Approve, Deny))):
        raise ResumeError(f"decision must be 'approve', 'deny', Approve(...) or Deny(...), got {decision!r}")
    state = run.state
    if isinstance(state, Interrupted):
        _answer(run, state, wanted)
        return
    if wanted is not None:
        raise ResumeError(f"run {run.run_id!r} is {state.kind} and waits for no decision; resume it without one")
    if isinstance(state, Idle):
        return
    if isinstance(state, (Thinking, Acting)):
        run._emit("run_continued", after="crash")  # pyright: ignore[reportPrivateUsage]
        if isinstance(state, Thinking):
            _ask_again(run, state)
        else:
            _settle_crashed(run, state)


def _ask_again(run: AgentRun, state: Thinking) -> None:
    if state.asked:
        run.usage += RunUsage(lm_calls=1)
        run._emit("model_request_error", purpose=state.purpose, error="interrupted")  # pyright: ignore[reportPrivateUsage]
        # the lost request is spent: there may be no budget left for another
        run._think(dataclasses.replace(state, asked=False))  # pyright: ignore[reportPrivateUsage]


def _settle_crashed(run: AgentRun, state: Acting) -> None:
    unknown: list[CallState] = []
    for index, call in enumerate(state.calls):
        if call.status != "out":
            continue
        run.usage += RunUsage(tool_calls=1)
        run._emit(  # pyright: ignore[reportPrivateUsage]
            "tool_call_error", tool_call_id=call.id, tool=call.call.name, outcome="interrupted", error="cancelled"
        )
        if breaker := run.breakers.get(call.call.name):
            run.breakers[call.call.name] = breaker.abandoned()
        if run.tool(call.call).repeatable:
            again = dataclasses.replace(call, status="waiting", attempt=call.attempt + 1, repeats=call.repeats + 1)
        else:
            text = f"The process died while {call.call.name} ran; its effect is unknown and it was not repeated."
            cut = ToolResult(tool_call_id=call.id, outcome="interrupted", text=text, error_kind="cancelled")
            again = dataclasses.replace(call, status="done", result=cut)
            unknown.append(call)
        state = state.update(index, again)
    run.state = state
    if unknown:
        names = ", ".join(dict.fromkeys(repr(call.call.name) for call in unknown))
        request = ApprovalRequest(
            kind="unknown_effect",
            reason=f"the process died while {names} ran; may it be called again?",
            calls=tuple(
                RequestedCall(tool_call_id=c.id, tool_name=c.call.name, tool_args=c.call.args) for c in unknown
            ),
        )
        run._end(state.interrupt(request.reason, "unknown_effect", request))  # pyright: ignore[reportPrivateUsage]
    else:
        run._advance(state)  # pyright: ignore[reportPrivateUsage]


def _answer(run: AgentRun, state: Interrupted, decision: Approve | Deny | None) -> None:
    request, then = state.request, state.resume()
    if request is None and decision is not None:
        raise ResumeError(f"run {run.run_id!r} was {state.cause} and waits for no decision; resume it without one")
    if request is not None and decision is None:
        raise ResumeError(f"run {run.run_id!r} waits: {request.reason}; pass decision='approve' or decision='deny'")
    if request is not None and isinstance(then, Acting):
        asked = {call.tool_call_id for call in request.calls}
        for index, call in enumerate(then.calls):
            if call.id in asked:
                then = then.update(index, _decided(run, call, request, decision))
    run.state = then
    run._decisions += decision.answers if decision is not None else 0  # pyright: ignore[reportPrivateUsage]
    run._emit("run_continued", after=state.cause)  # pyright: ignore[reportPrivateUsage]
    if isinstance(then, Acting):
        run._advance(then)  # pyright: ignore[reportPrivateUsage]
    else:
        run._think(then)  # pyright: ignore[reportPrivateUsage] - what was spent when it stopped counts


def _decided(run: AgentRun, call: CallState, request: ApprovalRequest, decision: Approve | Deny | None) -> CallState:
    if isinstance(decision, Approve):
        checked = call.call
        if decision.args is not None:
            if len(request.calls) != 1:
                raise ResumeError(
                    f"Approve(args=...) fits one call, and {len(request.calls)} wait; approve them as they are"
                )
            try:
                checked = check_call(run.spec.registry, call.call.name, json_value(decision.args), call.call.id)
            except InvalidModelAction as error:
                raise ResumeError(f"the new arguments do not fit: {error}") from error
        again = request.kind == "unknown_effect"
        return dataclasses.replace(
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
        decision.reason if isinstance(decision, Deny) and decision.reason else "The operator did not approve this call."
    )
    result = ToolResult(tool_call_id=call.id, outcome="denied", text=clean_text(reason), error_kind="permission_denied")
    return dataclasses.replace(call, status="done", result=result)


__all__ = ["Approve", "Deny", "ResumeDecision", "RunStoreError", "go_on", "restore", "snapshot"]
