"""`Reflector`: from the trace of a run to the lessons in it, without asking a language model.

A success becomes a Strategy: the calls that mattered, in order, with their constants abstracted. A failure becomes a
Pitfall: what was tried, and where it broke.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ace.core import TOOL_ERROR_KINDS, truncate, value_to_text
from ace.insight import Insight
from ace.playbook.bullet import Provenance, Section
from ace.tasks import Feedback, ReasoningStep, TaskOutput

MAX_TRIGGER_CHARS = 400
_SHOWN_STEPS = 8
_NOTHING = frozenset({"", "[]", "{}", "null", "None"})
_MAX_CONTENT = 600
_BROKEN = frozenset(kind for kind, traits in TOOL_ERROR_KINDS.items() if traits.counts) | {"unavailable"}
OUTAGES = frozenset({"model_transport", "interrupted", "internal_invariant"})
"""A run that ended so says nothing about the task or the bullets it was shown."""


class Reflector:
    """Mines runs for lessons.

    Args:
        source: Who made the runs, for the bullets' provenance.

    Example:
        >>> from ace.core import RunUsage
        >>> from ace.tasks import TaskInput
        >>> step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="refund", tool_args={"order": "17"},
        ...                      outcome="success", observation="ok", changes_state=True, executed=True)
        >>> output = TaskOutput(task_id="t", run_id="r", task=TaskInput(inputs={"task": "Refund order 17"}),
        ...                     structured_trace=(step,), termination_reason="completed")
        >>> Reflector().reflect(output, Feedback(success=True))[0].content
        'Call refund(order: from the task), then finish.'
    """

    def __init__(self, source: str = "") -> None:
        self.source = source

    def reflect(self, output: TaskOutput, feedback: Feedback, *, group: str = "") -> list[Insight]:
        """The lessons of one run; none when there is nothing to learn from.

        Args:
            output: The run.
            feedback: Whether it did what it should, from outside the model.
            group: The task's family, for leave-one-family-out evaluation.
        """
        if output.termination_reason in OUTAGES:
            return []
        if feedback.success:
            return [self._strategy(output, group), *self._outages(output, group)]
        if not output.structured_trace and not output.completed:
            return []  # nothing legal was ever said: that teaches nothing about the task
        return [self._pitfall(output, feedback, group)]

    def _strategy(self, output: TaskOutput, group: str) -> Insight:
        steps = useful_steps(output.structured_trace)
        calls = [f"{step.tool_name}({_abstract(step, steps[:i], output.task.text)})" for i, step in enumerate(steps)]
        how = ", then ".join(calls[:_SHOWN_STEPS])
        content = f"Call {how}, then finish." if calls else "No call is needed: finish at once."
        return self._insight("Strategies", truncate(content, _MAX_CONTENT), steps, output, group)

    def _pitfall(self, output: TaskOutput, feedback: Feedback, group: str) -> Insight:
        steps = output.structured_trace
        executed = [step for step in steps if step.executed]
        tried = " -> ".join(step.tool_name for step in executed[:_SHOWN_STEPS]) or "finishing without any call"
        problems = [*_problems(steps)]
        if not output.completed:
            problems.append(f"the run ended by {output.termination_reason.replace('_', ' ')}")
        elif feedback.text:
            problems.append(feedback.text)
        content = f"Did not work: {tried}. {'; '.join(problems)}".rstrip(". ") + "."
        return self._insight("Pitfalls", truncate(content, _MAX_CONTENT), executed, output, group)

    def _outages(self, output: TaskOutput, group: str) -> list[Insight]:
        """Tools that were out of order all through a run that succeeded, and what did their work instead."""
        found: list[Insight] = []
        steps = output.structured_trace
        for name in dict.fromkeys(step.tool_name for step in steps if step.error is not None):
            own = [step for step in steps if step.tool_name == name]
            failed = [step for step in own if step.error is not None and step.error.kind in _BROKEN]
            if not failed or any(step.outcome == "success" for step in own):
                continue
            instead = next(
                (
                    s
                    for s in steps
                    if s.outcome == "success" and s.tool_args == failed[0].tool_args and s.tool_name != name
                ),
                None,
            )
            if instead is not None:
                why = failed[0].error.kind.replace("_", " ") if failed[0].error else ""
                content = f"{name} was out of order ({why}); {instead.tool_name} did the same with the same arguments."
                found.append(self._insight("Pitfalls", content, [instead], output, group))
        return found

    def _insight(
        self, section: Section, content: str, steps: Sequence[ReasoningStep], output: TaskOutput, group: str
    ) -> Insight:
        executed = [step for step in output.structured_trace if step.executed]
        good = sum(step.outcome == "success" for step in executed)
        return Insight(
            section=section,
            trigger=truncate(" ".join(output.task.text.split()), MAX_TRIGGER_CHARS),
            content=content,
            domain=output.task.domain,
            tenant=output.task.tenant,
            tool_sequence=tuple(step.tool_name for step in steps),
            changing_tools=tuple(step.tool_name for step in steps if step.changes_state),
            tool_success_rate=good / len(executed) if executed else None,
            iterations=output.usage.iterations,
            provenance=Provenance(
                task_ids=(output.task_id,),
                groups=(group,) if group else (),
                run_ids=(output.run_id,),
                source=self.source,
            ),
        )


def useful_steps(steps: Sequence[ReasoningStep]) -> list[ReasoningStep]:
    """The calls that succeeded, without reads that found nothing or repeat an earlier one while nothing had changed."""
    kept: list[ReasoningStep] = []
    seen: set[str] = set()
    for step in steps:
        if not step.executed or step.outcome != "success":
            continue
        if step.changes_state:
            seen.clear()
        else:
            call = f"{step.tool_name} {json.dumps(step.tool_args, sort_keys=True, default=value_to_text)}"
            if call in seen or step.observation.strip() in _NOTHING:
                continue
            seen.add(call)
        kept.append(step)
    return kept


def _abstract(step: ReasoningStep, before: Sequence[ReasoningStep], task: str) -> str:
    """Where each argument came from, in place of the constant itself."""
    return ", ".join(f"{name}: {_origin(value, before, task)}" for name, value in step.tool_args.items())


def _origin(value: Any, before: Sequence[ReasoningStep], task: str) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=value_to_text)
    if not text:
        return "empty"
    whole = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
    if whole.search(task):
        return "from the task"
    for step in reversed(before):
        if whole.search(step.observation):
            return f"from {step.tool_name}"
    return text if text in ("true", "false", "null") else "in your words"


def _problems(steps: Sequence[ReasoningStep]) -> list[str]:
    """What went wrong, by tool and kind; a tool's own words are not repeated, they may be anybody's."""
    failed = Counter((step.tool_name or "an unreadable reply", step.error.kind) for step in steps if step.error)
    found = [f"{tool} failed with {kind.replace('_', ' ')} ({n} times)" for (tool, kind), n in failed.most_common(3)]
    repeated = len([s for s in steps if s.executed and s.outcome == "success"]) - len(useful_steps(steps))
    return [*found, f"{repeated} reads were repeated or found nothing"] if repeated else found
