"""From the end of a run to its `TaskOutput`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ace.core import RunUsage, clean_text
from ace.tasks import ErrorRecord, ReasoningStep, RunError, TaskInput, TaskOutput, TerminationReason


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
    injected: tuple[str, ...],
    cited: Sequence[str],
    metadata: Mapping[str, Any],
) -> TaskOutput:
    """What came out of a run; `cited` counts only where the bullet was really shown."""
    first = next(iter(outputs.values()), None)
    return TaskOutput(
        task_id=task.task_id,
        run_id=run_id,
        task=task,
        answer=outputs.get("answer", first),
        outputs=outputs,
        partial=forced,
        structured_trace=tuple(steps),
        termination_reason=reason,
        error=None if reason == "completed" else RunError(kind=reason, message=clean_text(error)),
        usage=usage,
        error_history=error_history(steps),
        injected_bullets=injected,
        cited_bullets=tuple(dict.fromkeys(bullet for bullet in cited if bullet in injected)),
        metadata=dict(metadata),
    )


def error_history(steps: Sequence[ReasoningStep]) -> tuple[ErrorRecord, ...]:
    """One record per failed step, and whether the same tool succeeded later."""
    return tuple(
        ErrorRecord(
            iteration=step.iteration,
            tool=step.tool_name,
            kind=step.error.kind,
            message=step.error.message,
            recovered=any(s.outcome == "success" and s.tool_name == step.tool_name for s in steps[index + 1 :]),
            timestamp=step.timestamp,
        )
        for index, step in enumerate(steps)
        if step.error
    )
