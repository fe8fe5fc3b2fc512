"""Runs that other frameworks recorded, read as `TaskOutput`s."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from ace.core import RunUsage, clean_text, clean_value, json_value, truncate, value_to_text
from ace.learner.trace_formats import TraceEvent, events_of
from ace.tasks import ReasoningStep, StepError, TaskInput, TaskOutput

FAILED = re.compile(
    r"^\s*(?:execution error|error\b|failed\b|exception\b|traceback|\w*Error:|\S+ is not a valid tool\b)", re.IGNORECASE
)
"""How most frameworks phrase an observation that is an error."""


def read_trace(
    trace: Any,
    *,
    task: str | None = None,
    read_only: Collection[str] = (),
    domain: str | None = None,
    tenant: str | None = None,
) -> TaskOutput:
    """Read a recorded run of any known form.

    Known are: our `TaskOutput` and predictions that carry one; DSPy predictions or dicts with a `trajectory`; LangChain
    results with `intermediate_steps`; lists of messages, bare or under `messages`, as OpenAI's API, LangGraph and Pydantic
    AI give them. Everything may be objects, dicts, or JSON text.

    Args:
        trace: The run.
        task: The request, where the trace does not contain it.
        read_only: Tools that change nothing; all others are taken to change something.
        domain: Of the task.
        tenant: Of the task.

    Returns:
        A run whose id is made from its content: the same trace is learned from once.

    Raises:
        ValueError: The form is not known, or the task is not known.

    Example:
        >>> run = read_trace([{"role": "user", "content": "Refund order 17"},
        ...                   {"role": "assistant", "tool_calls": [
        ...                       {"id": "c1", "function": {"name": "refund", "arguments": '{"order": 17}'}}]},
        ...                   {"role": "tool", "tool_call_id": "c1", "content": "refunded"},
        ...                   {"role": "assistant", "content": "Done."}])
        >>> run.task.text, run.structured_trace[0].tool_args, run.answer
        ('Refund order 17', {'order': 17}, 'Done.')
    """
    trace = getattr(trace, "output", trace) if isinstance(getattr(trace, "output", None), TaskOutput) else trace
    if isinstance(trace, TaskOutput):
        return trace
    if isinstance(trace, (str, bytes)):
        try:
            trace = json.loads(trace)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a trace that is text must be JSON: {error}") from error
    if isinstance(trace, Mapping) and "structured_trace" in trace:
        try:
            return TaskOutput.model_validate(trace)
        except ValidationError as error:
            raise ValueError(f"not a TaskOutput: {error.errors(include_url=False, include_input=False)}") from error
    events = list(events_of(trace))
    asked = task if task is not None else next((event.text for event in events if event.kind == "user"), None)
    if not asked:
        raise ValueError("the trace does not contain the task; pass task='...'")
    return _run(events, clean_text(asked), frozenset(read_only), domain, tenant)


# -- the run -----------------------------------------------------------------------------------------------------------


def _run(
    events: Sequence[TraceEvent], task: str, read_only: frozenset[str], domain: str | None, tenant: str | None
) -> TaskOutput:
    steps: list[ReasoningStep] = []
    open_calls: dict[str, int] = {}
    thought, iteration, answer, fresh = "", 0, None, True
    for event in events:
        if event.kind == "thought":
            thought, fresh = event.text, True
        elif event.kind == "call":
            iteration += fresh or not steps
            fresh = False
            call_id = event.call_id or f"call-{len(steps)}"
            open_calls[call_id] = len(steps)
            steps.append(_step(event, call_id, iteration, thought, event.name not in read_only))
            thought = ""
        elif event.kind == "result":
            fresh = True
            index = open_calls.pop(event.call_id, None) if event.call_id else next(iter(open_calls.values()), None)
            if not event.call_id and open_calls:
                open_calls.pop(next(iter(open_calls)))
            if index is not None:
                steps[index] = _answered(steps[index], event)
        elif event.kind == "answer":
            answer = event.text
    content = json.dumps([task, *(s.model_dump(exclude={"timestamp"}) for s in steps), answer], default=value_to_text)
    digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
    return TaskOutput(
        task_id=f"trace-{hashlib.sha256(task.encode('utf-8', 'replace')).hexdigest()[:12]}",
        run_id=f"trace-{digest[:24]}",
        task=TaskInput(
            task_id=f"trace-{hashlib.sha256(task.encode('utf-8', 'replace')).hexdigest()[:12]}",
            inputs={"task": task},
            domain=domain,
            tenant=tenant,
        ),
        answer=answer,
        structured_trace=tuple(steps),
        termination_reason="max_iterations" if answer is None else "completed",
        usage=RunUsage(iterations=iteration + (answer is not None)),
    )


def _step(event: TraceEvent, call_id: str, iteration: int, thought: str, changes: bool) -> ReasoningStep:
    """A call that has no result yet."""
    args, problem = _arguments(event.args)
    return ReasoningStep(
        iteration=iteration,
        thought=clean_text(thought),
        tool_call_id=call_id,
        tool_name=clean_text(event.name),
        tool_args=args,
        outcome="interrupted",
        observation="",
        changes_state=changes,
        executed=problem is None,
        error=problem,
    )


def _answered(step: ReasoningStep, event: TraceEvent) -> ReasoningStep:
    text = truncate(clean_text(event.text))
    failed = FAILED.match(text) is not None if event.failed is None else event.failed
    error = StepError(kind="refused", message=truncate(text, 200)) if failed else None
    changes: dict[str, Any] = {"outcome": "failed" if failed else "success", "observation": text, "executed": True}
    return step.model_copy(update={**changes, "error": error})


def _arguments(args: Any) -> tuple[dict[str, Any], StepError | None]:
    """Arguments as a dict; what a model wrote that is none becomes an error of the step."""
    if isinstance(args, str) and args.strip():
        try:
            args = json.loads(args)
        except ValueError:
            return {}, StepError(
                kind="invalid_args", message="the arguments are no JSON", received_args=truncate(args, 200)
            )
    if args is None or args == "":
        return {}, None
    if not isinstance(args, Mapping):
        return {}, StepError(
            kind="invalid_args", message="the arguments are no object", received_args=value_to_text(args, 200)
        )
    given = cast("Mapping[Any, Any]", args)
    return {str(name): json_value(clean_value(value)) for name, value in given.items()}, None
