"""What the trace of a run teaches by itself, without a language model.

Every miner reads the executed steps of one run, or of several, and gives lessons in which constants are abstracted: an
argument is named by where it came from (the task, another tool, the model's own words), never by its value. A tool's own
words are not trusted; of them only the first few of an error are repeated, as data (`_failure`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import zip_longest
from typing import Any

from ace.core import TOOL_ERROR_KINDS, truncate, value_to_text
from ace.core.language import DONE, REFUSING
from ace.core.text import is_tool_name
from ace.playbook.bullet import Section
from ace.playbook.insight import DIFFERENCE, RECORD
from ace.reflector.imperatives import asking
from ace.reflector.knowledge import Knowledge
from ace.reflector.plans import MinedPlan, mined
from ace.reflector.situations import without_values
from ace.reflector.values import as_text, said_in
from ace.tasks import ReasoningStep, TaskOutput
from ace.tools.registry import RESERVED_NAMES

MAX_CONTENT = 600
_SHOWN_STEPS = 8
_NOTHING = frozenset({"", "[]", "{}", "null", "None"})
Changed = tuple[str, str]
"""A changing call: its tool, and the call in words."""
_REFUSAL = re.compile(rf"^\W*(?:\w+ ){{0,4}}?(?:{REFUSING})\b", re.IGNORECASE)
_WAS_DONE = re.compile(
    rf"(?<!not )(?<!already )(?<!be )(?<!been )(?<!never )\b(?:{DONE})\b|\b(?:no|0|zero|without) (?:\w+ )?errors?\b",
    re.IGNORECASE,
)
"""An answer that reports what was done is no refusal, whatever was deleted or marked."""
_LONGEST_REFUSAL = 200
"""Characters; what is longer is data that happens to begin so."""
_ERROR_CLASS = re.compile(r"^\w{0,60}(?:Error|Exception)\b:?")
_STATUSES = [status for status in HTTPStatus if status >= 400]
_PLACE = re.compile(r"[@/\\]|\d{5}")
_MAX_ERROR = 80
"""Characters of an error that are repeated; what is longer may be a page."""
_BROKEN = frozenset(kind for kind, traits in TOOL_ERROR_KINDS.items() if traits.counts) | {"unavailable"}


@dataclass(frozen=True)
class Lesson:
    """What one miner found, before it becomes an `Insight`: `Lesson("Pitfalls", "Ask first.", steps=(2,))`."""

    section: Section
    content: str
    steps: tuple[int, ...] = ()
    """The steps of the trace that it rests on, from 1."""
    sequence: tuple[ReasoningStep, ...] = ()
    """The calls that it recommends, or warns of."""
    tools: tuple[str, ...] = ()
    """The tools that it names, when it recommends no calls."""
    plan: MinedPlan | None = None
    general: bool = False
    """It holds for any task in which these tools are used, not only for tasks like this one."""
    said: str = ""
    """What of it somebody said, in their own words."""
    trigger: str = ""
    """When it applies, in the words of a language model; empty when that is the run's request."""


def strategy(output: TaskOutput, knowledge: Knowledge) -> Lesson:
    """Make a plan of the calls that mattered, in order."""
    numbered = useful_steps(output.structured_trace)
    steps = [step for _, step in numbered]
    found = mined(output.task, steps, knowledge)
    return Lesson("Strategies", found.plan.stored.text, tuple(n for n, _ in numbered), tuple(steps), plan=found)


def contrast(failed: Sequence[Changed], succeeded: Sequence[Changed]) -> Lesson | None:
    """Find what the run that failed changed otherwise first, by the `changes` of both; None when nothing tells them
    apart."""
    for wrong, right in zip_longest(failed, succeeded, fillvalue=("", "")):
        if wrong == right:
            continue
        if not wrong[1]:
            content = f"Finishing before {right[1]} failed; with that call it worked."
        elif not right[1]:
            content = f"{wrong[1]} was one change too many: without it the task was done."
        else:
            content = f"{wrong[1]} failed here; {right[1]} worked."
        content = truncate(f"{DIFFERENCE} {content}", MAX_CONTENT)
        return Lesson("Pitfalls", content, tools=tuple(filter(None, (wrong[0], right[0]))))
    return None


def changes(output: TaskOutput, knowledge: Knowledge) -> tuple[Changed, ...]:
    """Return the changing calls of a run."""
    steps = [step for _, step in useful_steps(output.structured_trace)]
    plan = mined(output.task, steps, knowledge).plan.stored
    each = [f" for each {call.over}" if call.times == "each" else "" for call in plan.calls]
    said = zip(plan.calls, each, strict=True)
    return tuple((call.tool, f"{plan.call_text(call)}{ending}") for call, ending in said if call.changes)


def pitfall(output: TaskOutput, said: str, knowledge: Knowledge) -> Lesson | None:
    """Say what was tried, and where it broke; None where an unreadable reply ended the run, and no call is at fault.

    Args:
        output: A run that failed.
        said: What feedback says of it; empty for what the trace shows alone.
        knowledge: Of the tools.
    """
    trace = output.structured_trace
    executed = [(n, step) for n, step in enumerate(trace, 1) if step.executed]
    calls = list(dict.fromkeys(step.tool_name for _, step in executed))
    tried = " -> ".join(calls[:_SHOWN_STEPS]) or "finishing without any call"
    problems = _problems(output, knowledge)
    if output.termination_reason == "invalid_model_action":
        failed = any(step.executed and step.error is not None for step in trace)
        if not failed and not (said and any(step.executed and step.changes_state for step in trace)):
            return None
    elif not output.completed:
        problems.append(f"the run ended by {output.termination_reason.replace('_', ' ')}")
    if said:
        read = [output.task.text, *(step.result for step in trace)]
        problems.append(without_values(said, trace, knowledge, read))
    content = f"{RECORD} {tried}. {'; '.join(problems)}".rstrip(". ") + "."
    return Lesson(
        "Pitfalls",
        truncate(content, MAX_CONTENT),
        tuple(n for n, _ in executed),
        tuple(step for _, step in executed),
        said=said,
    )


def outages(output: TaskOutput, knowledge: Knowledge) -> Iterator[Lesson]:
    """Yield tools that were out of order all through a run, and what did their work instead."""
    steps = output.structured_trace
    for name in dict.fromkeys(step.tool_name for step in steps if step.error is not None):
        own = [step for step in steps if step.tool_name == name]
        failed = [step for step in own if step.error is not None and step.error.kind in _BROKEN]
        if not failed or any(step.outcome == "success" for step in own):
            continue
        for number, step in enumerate(steps, 1):
            if step.outcome == "success" and step.tool_args == failed[0].tool_args and step.tool_name != name:
                why = _failure(failed[0], output, knowledge)
                content = f"{name} was out of order ({why}); {step.tool_name} did the same with the same arguments."
                yield Lesson("Pitfalls", content, (number,), (failed[0],), tools=(step.tool_name,))
                break


def recoveries(output: TaskOutput) -> Iterator[Lesson]:
    """Yield calls that were refused because of their arguments, and what the accepted call had in their place."""
    steps, task = output.structured_trace, output.task.text
    for number, failed, later, worked in _recovered(steps):
        before, after = steps[: number - 1], steps[: later - 1]
        changed: list[str] = []
        for name in dict.fromkeys((*failed.tool_args, *worked.tool_args)):
            old, new = failed.tool_args.get(name), worked.tool_args.get(name)
            if old == new or _origin(new, after, task) == _origin(old, before, task):
                continue
            if name not in worked.tool_args:
                changed.append(f"without {name}")
            elif name not in failed.tool_args:
                changed.append(f"with {name} ({_origin(new, after, task)})")
            else:
                changed.append(f"with {name} {_origin(new, after, task)}, not {_origin(old, before, task)}")
        if not changed:
            continue  # other values from the same place: nothing to tell
        kind = failed.error.kind.replace("_", " ") if failed.error else "refused"
        content = f"{worked.tool_name} failed ({kind}); it worked {', '.join(changed)}."
        yield Lesson(
            "Pitfalls", truncate(content, MAX_CONTENT), (number, later), tools=(worked.tool_name,), general=True
        )


def useful_steps(steps: Sequence[ReasoningStep]) -> list[tuple[int, ReasoningStep]]:
    """Return the calls that succeeded, without reads that found nothing or repeat an earlier one while nothing had changed.

    A call whose answer was not recorded counts, unless the same call was answered as well.

    Returns:
        Each with its number in the trace, from 1.
    """
    kept: list[tuple[int, ReasoningStep]] = []
    seen: set[str] = set()
    answered = {_call(step) for step in steps if step.outcome == "success"}
    for number, step in enumerate(steps, 1):
        call = _call(step)
        unheard = step.outcome == "interrupted" and call in answered
        if unheard or step.tool_name in RESERVED_NAMES or not _worked(step):
            continue
        if step.changes_state:
            seen.clear()
        else:
            if call in seen or step.result.strip() in _NOTHING:
                continue
            seen.add(call)
        kept.append((number, step))
    return kept


def _call(step: ReasoningStep) -> str:
    return f"{step.tool_name} {json.dumps(step.tool_args, sort_keys=True, default=value_to_text)}"


def _worked(step: ReasoningStep) -> bool:
    """Check whether a call did what it should, as far as is known; many tools refuse in words, as an answer like any
    other."""
    ended_well = step.executed and step.error is None and step.outcome in ("success", "interrupted")
    return ended_well and not refused(step.result)


def refused(answer: str) -> bool:
    """Check whether a tool's answer says in words that it did not do what it should.

    Examples:
        >>> refused("Order not found."), refused("Error log deleted")
        (True, False)
    """
    if len(answer) > _LONGEST_REFUSAL or not _REFUSAL.match(answer):
        return False
    return not _WAS_DONE.search(answer)


def _recovered(steps: Sequence[ReasoningStep]) -> Iterator[tuple[int, ReasoningStep, int, ReasoningStep]]:
    """Yield the last failure of each tool, and the next call of it, when that succeeded: number and step of both."""
    last: dict[str, tuple[int, ReasoningStep]] = {}
    for number, step in enumerate(steps, 1):
        if step.executed and not _worked(step):
            last[step.tool_name] = (number, step)
        elif _worked(step) and step.tool_name in last:
            failed_at, failed = last.pop(step.tool_name)
            yield failed_at, failed, number, step


def _origin(value: Any, before: Sequence[ReasoningStep], task: str) -> str:
    """Say where an argument came from, in words: the latest answer that holds it, or the task."""
    text = as_text(value)
    if not text:
        return "empty"
    for step in reversed(before):
        if any(said_in(step.result, text)):
            return f"from {step.tool_name}"
    return "from the task" if any(said_in(task, text)) else "in the model's own words"


def _problems(output: TaskOutput, knowledge: Knowledge) -> list[str]:
    """Say what went wrong, by tool, kind and words."""
    steps = output.structured_trace
    failed = Counter(
        (step.tool_name, _failure(step, output, knowledge))
        for step in steps
        if step.error and is_tool_name(step.tool_name)  # a reply that nobody could read says nothing of the tools
    )
    found = [f"{tool} failed: {why}" for (tool, why), _ in failed.most_common(3)]
    repeated = len([s for s in steps if s.executed and s.outcome == "success"]) > len(useful_steps(steps))
    return [*found, "reads were repeated or found nothing"] if repeated else found


def _failure(step: ReasoningStep, output: TaskOutput, knowledge: Knowledge) -> str:
    """Return the kind of a step's error, with its HTTP status or its first few words, as data.

    An error may hold what a stranger wrote: words that ask for something, name a place or are not common stay out.
    """
    assert step.error is not None, "only a failure is told"
    kind = step.error.kind.replace("_", " ")
    said = _ERROR_CLASS.sub("", step.error.message.partition("\n")[0]).strip()
    status = next((s for s in _STATUSES if str(s.value) in said and _is_status(s, said)), None)
    if status is not None:
        return f"{kind}, {status.value} {status.phrase.lower()}"
    if not step.executed or len(said) > _MAX_ERROR or _PLACE.search(said) or any(asking(said)):
        return kind
    words = without_values(said, output.structured_trace, knowledge).rstrip(".")
    return f"{kind}, {words!r}" if re.search(r"[^\W\d_]{3}", re.sub(r"\{\w+\}", "", words)) else kind


def _is_status(status: HTTPStatus, said: str) -> bool:
    """Check whether an error's words mean an HTTP status, and no room or order of that number."""
    named = rf"(?:http|status|code|error)\W{{1,3}}{status.value}\b|^\W*{status.value}\W*$"
    return status.phrase.lower() in said.lower() or re.search(named, said, re.IGNORECASE) is not None
