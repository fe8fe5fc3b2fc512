"""From the end of a run to its `TaskOutput`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ace.agent.history import GONE
from ace.agent.record import RunSnapshot
from ace.agent.states import Failed, Interrupted
from ace.core import BudgetExceeded, InvalidModelAction, RunUsage, ToolDispatch, clean_text
from ace.core.errors import AGENT_ERRORS, AgentError
from ace.tasks import ErrorRecord, ReasoningStep, RunError, TaskOutput, answer_field


def build_output(record: RunSnapshot, steps: Sequence[ReasoningStep], usage: RunUsage) -> TaskOutput:
    """Build the output of a run so far.

    Args:
        record: What it has done; of the bullets that it cited, those that were never shown are reported as invented.
        steps: Its steps, those of a decision that is not fully observed included.
        usage: The record's with the time that has passed.
    """
    cited, state = list(dict.fromkeys(record.cited)), record.state
    invented = [bullet for bullet in cited if bullet not in record.injected_bullets]
    error = _end(record)
    metadata = {**record.metadata, **_plan(record), **_overflow(record)}
    return TaskOutput(
        task_id=record.task.task_id,
        run_id=record.run_id,
        task=record.task,
        answer=record.outputs.get(answer_field(record.outputs)),
        outputs=record.outputs,
        partial=record.forced_by is not None,
        structured_trace=tuple(steps),
        termination_reason="completed" if error is None else error.kind,
        error=error,
        usage=usage,
        error_history=tuple(_recovered(one, steps) for one in record.errors),
        summary=record.summary,
        request=state.request if isinstance(state, Interrupted) else None,
        memory=record.memory,
        injected_bullets=record.injected_bullets,
        cited_bullets=tuple(bullet for bullet in cited if bullet not in invented),
        metadata={**metadata, "invented_bullets": invented} if invented else metadata,
    )


_FORCED = {"no_progress": "the same call gave the same result again and again; the answer was asked for"}


def error_of(output: TaskOutput) -> AgentError:
    """Return what ended a run, as the error of ``raise_on_failure``; what the tool itself raised is not in an output."""
    assert output.error is not None
    kind, message = output.error.kind, output.error.message
    steps = output.structured_trace
    failed = [step for step in steps if step.iteration == steps[-1].iteration and step.error is not None]
    said = ((step, (step.result, f"{step.tool_name}: {step.result}")) for step in failed if step.result)
    step = next((step for step, words in said if message.startswith(words)), None)
    why = step.error if step is not None else None
    if kind == "invalid_model_action":
        if step is None or why is None:
            return InvalidModelAction("unparsable", message)
        given: Any = {"tool_name": step.tool_name or None, "received_args": why.received_args}
        return InvalidModelAction(cast(Any, why.kind), message, raw_response=why.raw_response or None, **given)
    if kind == "tool_dispatch" and step is not None and why is not None:
        operator = output.error.operator_message
        return ToolDispatch(message, tool=step.tool_name, error_kind=cast(Any, why.kind), operator_message=operator)
    return AGENT_ERRORS.get(kind, BudgetExceeded)(message)


def _end(record: RunSnapshot) -> RunError | None:
    """Say why the run ended; None where it came to its own end."""
    match record.state:
        case Failed(error, message, operator_message):
            return RunError(kind=error, message=clean_text(message), operator_message=operator_message)
        case Interrupted(reason):
            return RunError(kind="interrupted", message=clean_text(reason))
        case _ if record.forced_by is None:
            return None
        case _:
            forced = record.forced_by
            words = _FORCED | {"max_iterations": f"no answer after {record.max_iters} iterations"}
            told = words.get(forced, f"the answer was forced: {forced.replace('_', ' ')}")
            return RunError(kind=forced, message=told)


def _plan(record: RunSnapshot) -> dict[str, Any]:
    """Say what became of the plan that was offered."""
    taken = record.plan
    end = taken.end.model_dump() if taken is not None and taken.end is not None else None
    offered = record.metadata.get("plan")
    return {} if offered is None else {"plan": {**offered, "taken": taken is not None, "end": end}}


def _overflow(record: RunSnapshot) -> dict[str, Any]:
    """Say what of the run the model was not shown in full."""
    cuts, playbook, turns = record.cuts, record.without_playbook, record.turns_cut
    if not (cuts or playbook or turns):
        return {}
    whole = sorted(index for index, cut in cuts.items() if cut == GONE)
    told: dict[str, Any] = {"shortened": sorted(cuts.keys() - whole), "left_out": whole, "playbook": not playbook}
    return {"context_overflow": {**told, "turns": turns} if turns else told}


def _recovered(record: ErrorRecord, steps: Sequence[ReasoningStep]) -> ErrorRecord:
    """Say of an error whether a retry of the same decision, or a later step of the same tool, succeeded."""
    later = any(
        step.outcome == "success"
        and step.tool_name == record.tool
        and (step.iteration > record.iteration or (step.iteration == record.iteration and step.attempts > 1))
        for step in steps
    )
    return record.model_copy(update={"recovered": later})
