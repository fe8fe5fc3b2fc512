"""Runs that other frameworks recorded, read as `TaskOutput`s."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from ace.agent.history import message_groups, read_messages
from ace.core import RunUsage, clean_text, clean_value, json_value, truncate, value_to_text
from ace.core.language import AGREEING, FUNCTION_WORDS, FUNCTION_WORDS_ELSEWHERE
from ace.learner.trace_formats import TraceEvent, events_of, in_words, message_events
from ace.playbook.masking import WORD
from ace.reflector.mining import refused
from ace.reflector.reflector import RECORDED
from ace.reflector.values import fields, said_in
from ace.tasks import ReasoningStep, StepError, TaskInput, TaskOutput, run_of

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

    Known are: our `TaskOutput` and predictions that carry one; DSPy predictions or dicts with a `trajectory` or a `history`;
    lists of messages, bare or under `messages`, as OpenAI's API, LangGraph and Pydantic AI give them. Everything may be
    objects, dicts, or JSON text.

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

    Examples:
        >>> run = read_trace([{"role": "user", "content": "Refund order 17"},
        ...                   {"role": "assistant", "tool_calls": [
        ...                       {"id": "c1", "function": {"name": "refund", "arguments": '{"order": 17}'}}]},
        ...                   {"role": "tool", "tool_call_id": "c1", "content": "refunded"},
        ...                   {"role": "assistant", "content": "Done."}])
        >>> run.task.text, run.structured_trace[0].tool_args, run.answer
        ('Refund order 17', {'order': 17}, 'Done.')
    """
    found = _found(trace)
    return found if isinstance(found, TaskOutput) else _run(found, task, read_only, domain=domain, tenant=tenant)


def read_requests(
    trace: Any,
    *,
    task: str | None = None,
    read_only: Collection[str] = (),
    domain: str | None = None,
    tenant: str | None = None,
) -> list[TaskOutput]:
    """Read the requests of a recorded conversation, each as a run of its own; a trace with one request is one run.

    A request ends when what it asked for was changed: the user's next words begin another. Each run holds, beside the words
    of its request, those earlier sentences of the user that say what its calls were given.

    Args:
        trace: As for `read_trace`.
        task: As for `read_trace`; of a conversation, the first request.
        read_only: Tools that change nothing.
        domain: Of the task.
        tenant: Of the task.

    Raises:
        ValueError: As for `read_trace`.

    Examples:
        >>> def call(name, **args):
        ...     made = {"id": name, "function": {"name": name, "arguments": json.dumps(args)}}
        ...     yield {"role": "assistant", "tool_calls": [made]}
        ...     yield {"role": "tool", "tool_call_id": name, "content": "done"}
        >>> talk = [{"role": "user", "content": "Cancel order 17"}, *call("cancel", order=17),
        ...         {"role": "user", "content": "And mail Ana."}, *call("mail", to="Ana"),
        ...         {"role": "assistant", "content": "Done."}]
        >>> [run.task.inputs["task"] for run in read_requests(talk)]
        ['Cancel order 17', 'And mail Ana.']
    """
    found = _found(trace)
    if isinstance(found, TaskOutput):
        return [found]
    whole = _run(found, task, read_only, domain=domain, tenant=tenant)
    parts = _requests(found, read_only)
    runs: list[TaskOutput] = []
    for number, events in enumerate(parts):
        words = "\n".join(event.text for event in events if event.kind == "user")
        asked = task if task is not None and not number else words
        known = [event for part in parts[:number] for event in part]
        events = [*_handed_on(known, events, read_only), *events]
        needed = _needed(known, events)
        run = _run(events, asked, read_only, needed, domain=domain, tenant=tenant)
        if len(parts) > 1:
            of_it = {"conversation": whole.run_id, "request": number}
            run = run.model_copy(update={"metadata": {**run.metadata, **of_it}})
        runs.append(run)
    return runs


def _found(trace: Any) -> TaskOutput | list[TraceEvent]:
    """Return our own run as it is, or the events of another's."""
    held = run_of(trace)
    if isinstance(held, TaskOutput):
        return held
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
    return in_words(events_of(trace))


def request_of(output: TaskOutput, read_only: Collection[str] = (), number: Any = None) -> TaskOutput:
    """Make a message of a conversation a task of its own, with the words and reads that it needs from earlier ones.

    Messages belong to one request until what it asked for was changed: "Yes, go ahead" is no task.

    Args:
        output: A run with a history; any other comes back as it is.
        read_only: Tools that change nothing.
        number: The message, counted from 0; the run's own by default.

    Raises:
        ValueError: There is no such message.

    Examples:
        >>> history = ({"task": "Is order 17 of Ana open?", "answer": "Yes"},)
        >>> step = ReasoningStep(iteration=1, tool_call_id="c", tool_name="cancel", tool_args={"order": "17"},
        ...                      outcome="success", observation="cancelled", executed=True, changes_state=True)
        >>> run = TaskOutput(task_id="t", run_id="r", task=TaskInput(inputs={"task": "Cancel it"}, history=history),
        ...                  structured_trace=(step,), termination_reason="completed")
        >>> request_of(run).task.inputs["task"].splitlines()
        ['Is order 17 of Ana open?', 'Cancel it']
    """
    history = read_messages(output.task.history)
    number = len(history) if number is None else number
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= len(history):
        raise ValueError(f"feedback names message {number!r}; the conversation has 0 to {len(history)}")
    if number < len(history):
        output = _earlier_run(output, number, read_only)
        history = history[:number]
    if not history:
        return output
    own = [TraceEvent("user", "\n".join(value_to_text(value) for value in output.task.inputs.values()))]
    made = [
        TraceEvent("call", name=s.tool_name, args=s.tool_args, call_id=s.tool_call_id) for s in output.structured_trace
    ]
    events = [event for turn, message in enumerate(history) for event in message_events(message, turn)] + own + made
    *before, last = _requests(events, read_only)
    known = [event for part in before for event in part]
    earlier = [*_handed_on(known, last, read_only), *last[: len(last) - len(own) - len(made)]]
    words = [event.text for event in last if event.kind == "user"]
    needed = _needed(known, last)
    read = _run(earlier, "\n".join(words), read_only).structured_trace if earlier else ()
    rounds = max((step.iteration for step in read), default=0)
    steps = [step.model_copy(update={"iteration": step.iteration + rounds}) for step in output.structured_trace]
    inputs = dict(output.task.inputs)
    if len(inputs) == 1:
        inputs = dict.fromkeys(inputs, "\n".join(words))
    else:  # the words of the same request before it: they belong to none of the inputs
        needed = "\n".join(filter(None, [*words[:-1], needed]))
    inputs |= {"earlier": needed} if needed else {}
    task = output.task.model_copy(update={"inputs": inputs})
    return output.model_copy(update={"task": task, "structured_trace": (*read, *steps)})


def _earlier_run(output: TaskOutput, number: int, read_only: Collection[str]) -> TaskOutput:
    """Read the run of an earlier message, as far as the history holds it."""
    task = output.task
    message = read_messages(task.history)[number]
    run = _run(list(message_events(message, number)), None, read_only, domain=task.domain, tenant=task.tenant)
    before = [entry for group in message_groups(task.history)[:number] for entry in group]
    told = {"inputs": {"task": run.task.text}, "history": tuple(before), "user": task.user}
    run_id, task_id = message.run or (run.run_id, run.task_id)
    told["task_id"] = task_id
    return run.model_copy(update={"task": run.task.model_copy(update=told), "run_id": run_id, "task_id": task_id})


def _requests(events: Sequence[TraceEvent], read_only: Collection[str]) -> list[list[TraceEvent]]:
    """Split events by request: one ends with the last change before the user speaks again and more calls follow."""
    parts: list[list[TraceEvent]] = [[]]
    changed = False
    for index, event in enumerate(events):
        asked = any(earlier.kind == "user" for earlier in parts[-1])
        new = event.kind == "user" and not _agrees(event.text)
        if new and asked and changed and any(later.kind == "call" for later in events[index:]):
            parts.append([])
            changed = False
        if event.kind == "call" and event.name not in read_only:
            changed = asked  # what was called before the user spoke was not asked for
        elif event.kind == "result" and (event.failed or _failed(event.text)):
            changed = any(_changes(e, parts[-1], read_only) for e in parts[-1])
        parts[-1].append(event)
    return parts


def _changes(call: TraceEvent, events: Sequence[TraceEvent], read_only: Collection[str]) -> bool:
    """Check whether a call changed something: it is known to, and no answer so far says that it failed."""
    if call.kind != "call" or call.name in read_only:
        return False
    answers = [e for e in events if e.kind == "result" and e.call_id and e.call_id == call.call_id]
    return bool(answers) and not any(e.failed or _failed(e.text) for e in answers)


def _failed(answer: str) -> bool:
    return FAILED.match(answer) is not None or refused(answer)


def _agrees(text: str) -> bool:
    """Check whether a user only agrees: "Yes, go ahead" asks for nothing that was not asked for before."""
    little = FUNCTION_WORDS | FUNCTION_WORDS_ELSEWHERE
    return all(AGREEING.fullmatch(word) or word in little for word in WORD.findall(text.lower()))


def _handed_on(
    events: Sequence[TraceEvent], later: Sequence[TraceEvent], read_only: Collection[str]
) -> list[TraceEvent]:
    """Find reads of earlier requests, with their answers, that hold what the calls of a later one were given."""
    said = " ".join(event.text for event in later if event.kind == "user")
    given = {value for event in later if event.kind == "call" for value in _values(event.args)}
    wanted = [value for value in given if len(value) > 2 and not any(said_in(said, value))]
    reads = {e.call_id for e in events if e.kind == "call" and e.call_id and e.name in read_only}
    answers = {e.call_id: e.text for e in events if e.kind == "result" and e.call_id in reads and not _failed(e.text)}
    holding = {key for key, answer in answers.items() if any(any(said_in(answer, value)) for value in wanted)}
    return [event for event in events if event.kind in ("call", "result") and event.call_id in holding]


def _needed(events: Sequence[TraceEvent], later: Sequence[TraceEvent]) -> str:
    """Find sentences of earlier messages that hold what the calls of a later one were given."""
    values = {value for event in later if event.kind == "call" for value in _values(event.args)}
    said = [event.text for event in events if event.kind == "user"]
    sentences = [part for text in said for part in re.split(r"(?<=[.!?])\s+|\n", text) if part.strip()]
    return " ".join(s for s in dict.fromkeys(sentences) if any(any(said_in(s, value)) for value in values))


def _values(args: Any) -> list[str]:
    """Return the texts among a call's arguments, in lower case."""
    text = args if isinstance(args, str) else json.dumps(args, default=value_to_text)
    return [value for value in fields(text) if value]


# -- the run -----------------------------------------------------------------------------------------------------------


def _run(
    events: Sequence[TraceEvent], task: str | None, read_only: Collection[str], earlier: str = "", **scope: Any
) -> TaskOutput:
    """Make a run of events; `scope` is the domain and the tenant of its task."""
    asked = task if task is not None else next((event.text for event in events if event.kind == "user"), None)
    if not asked:
        raise ValueError("the trace does not contain the task; pass task='...'")
    asked, earlier = clean_text(asked), clean_text(earlier)
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
            index = open_calls.pop(event.call_id or next(iter(open_calls), ""), None)
            if index is not None:
                steps[index] = _answered(steps[index], event)
        elif event.kind == "answer":
            answer = event.text
    # another tenant's run of the same words is another run
    content = json.dumps(
        [*filter(None, [scope.get("tenant")]), asked, *(s.model_dump(exclude={"timestamp"}) for s in steps), answer],
        default=value_to_text,
    )
    digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
    task_id = f"trace-{hashlib.sha256(asked.encode('utf-8', 'replace')).hexdigest()[:12]}"
    inputs = {"task": asked} | ({"earlier": earlier} if earlier else {})
    return TaskOutput(
        task_id=task_id,
        run_id=f"trace-{digest[:24]}",
        task=TaskInput(task_id=task_id, inputs=inputs, **scope),
        answer=answer,
        structured_trace=tuple(steps),
        termination_reason="max_iterations" if answer is None else "completed",
        metadata={RECORDED: True},
        usage=RunUsage(iterations=iteration + (answer is not None)),
    )


def _step(event: TraceEvent, call_id: str, iteration: int, thought: str, changes: bool) -> ReasoningStep:
    """Make the step of a call that has no result yet."""
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
    """Read arguments as a dict; what a model wrote that is none becomes an error of the step."""
    why = "the arguments are no object"
    if isinstance(args, str) and args.strip():
        try:
            args = json.loads(args)
        except (ValueError, RecursionError):
            why = "the arguments are no JSON"
    if args is None or args == "":
        return {}, None
    if not isinstance(args, Mapping):
        return {}, StepError(kind="invalid_args", message=why, received_args=value_to_text(args, 200))
    given = cast("Mapping[Any, Any]", args)
    return {str(name): json_value(clean_value(value)) for name, value in given.items()}, None
