"""From the end of a run to its `TaskOutput`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ace.core import RunUsage, clean_text
from ace.tasks import (
    ApprovalRequest,
    ErrorRecord,
    MemoryUse,
    ReasoningStep,
    RunError,
    RunSummary,
    TaskInput,
    TaskOutput,
    TerminationReason,
    answer_field,
)


def build_output(
    task: TaskInput,
    run_id: str,
    reason: TerminationReason,
    *,
    outputs: dict[str, Any],
    error: str,
    forced: bool,
    steps: Sequence[ReasoningStep],
    usage: RunUsage,
    errors: Sequence[ErrorRecord],
    summary: RunSummary | None,
    request: ApprovalRequest | None,
    injected: tuple[str, ...],
    cited: Sequence[str],
    metadata: Mapping[str, Any],
    memory: MemoryUse | None = None,
) -> TaskOutput:
    """What came out of a run; `cited` lists only bullets that were shown, all others are reported as invented."""
    invented = [bullet for bullet in dict.fromkeys(cited) if bullet not in injected]
    return TaskOutput(
        task_id=task.task_id,
        run_id=run_id,
        task=task,
        answer=outputs.get(answer_field(outputs)),
        outputs=outputs,
        partial=forced,
        structured_trace=tuple(steps),
        termination_reason=reason,
        error=None if reason == "completed" else RunError(kind=reason, message=clean_text(error)),
        usage=usage,
        error_history=tuple(_recovered(record, steps) for record in errors),
        summary=summary,
        request=request,
        memory=memory,
        injected_bullets=injected,
        cited_bullets=tuple(dict.fromkeys(bullet for bullet in cited if bullet in injected)),
        metadata={**metadata, "invented_bullets": invented} if invented else dict(metadata),
    )


def _recovered(record: ErrorRecord, steps: Sequence[ReasoningStep]) -> ErrorRecord:
    """Whether a retry of the same decision, or a later step of the same tool, succeeded."""
    later = any(
        step.outcome == "success"
        and step.tool_name == record.tool
        and (step.iteration > record.iteration or (step.iteration == record.iteration and step.attempts > 1))
        for step in steps
    )
    return record.model_copy(update={"recovered": later})
