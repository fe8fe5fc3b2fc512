"""The turns of a run and of the messages before it: as JSON that `dspy.History` takes, and as a prompt shows them.

An entry is one turn as `dspy.ReActV2` keeps it: what the user's side says first (the message's inputs by name, the tools,
the playbook, a note of the run-time), then the model's `next_thought` and `tool_calls` with their results by id; the turn
that submits also holds the outputs by name. Of ours are the keys `OWN_KEYS`. What ``{**inputs, **prediction}`` of plain DSPy
gives, and a message with the `trajectory` of the old `dspy.ReAct`, are read too. Calls of earlier messages are text: nothing
here is ever executed or checked against the tools of now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

from ace.core import as_data, clean_text, json_value, value_as_data, value_to_text
from ace.core.text import any_json, cut_middle
from ace.tasks import ReasoningStep, RunSummary

SUBMIT = "submit"
"""The tool that ends a run with its outputs; ``finish`` in a reply is understood as well."""
ENDS = frozenset({SUBMIT, "finish"})


def ends_run(name: Any) -> bool:
    """Check whether a call of that name ends a run: `ends_run("submit")`."""
    return isinstance(name, str) and name in ENDS


TOOLS, PLAYBOOK, NOTE = "tools", "playbook", "runtime_note"
THOUGHT, CALLS, RESULTS = "next_thought", "tool_calls", "tool_call_results"
SHORTENED, OUTPUTS, RUN, TRAJECTORY = "_shortened", "_outputs", "_run", "trajectory"
OWN_KEYS = frozenset({TOOLS, PLAYBOOK, NOTE, THOUGHT, CALLS, SHORTENED, OUTPUTS, RUN, TRAJECTORY, "reasoning"})
"""Keys of an entry that are neither inputs nor outputs."""

IN_FULL, SHORT, NO_CALLS, LEFT_OUT = range(4)
"""How much of a message a prompt shows: all; its results shortened; the message and the answer alone; nothing."""
GONE = 0
"""A cut that leaves a call and its result out of the prompt as a whole."""
STUB = 200
"""Characters of a result that stay when it is shortened."""
KEPT = 1_000
"""Characters of a thought, and of arguments, that stay in any case."""
_LAYOUT = 60
"""About what the layout around a call and its result takes, in characters."""
_STEP = re.compile(r"tool_name_(\d+)")

Entry = dict[str, Any]


@dataclass(frozen=True)
class Aside:
    """What the model was told beside results: `Aside(2, "Hm.", "No call stands in it.")`."""

    after: int
    """How many steps there were before it."""
    reply: str
    """The reply that was rejected; empty where none was."""
    note: str


@dataclass(frozen=True)
class Called:
    """A call with its result, as a prompt may show them."""

    id: str
    name: str
    args: Any
    result: str
    failed: bool = False

    @classmethod
    def of(cls, step: ReasoningStep, index: int = 0) -> Called:
        """Return the call of a step, the `index`-th of its turn, with the arguments as they came from the model."""
        args = step.tool_args if step.error is None else (step.error.received_args or step.tool_args)
        name = step.provider_id or f"call_{step.iteration - 1}_{index}"
        return cls(name, step.tool_name, args, step.observation, step.outcome != "success")

    def size(self, limit: int | None = None) -> int:
        """Estimate how many characters it takes."""
        args = json.dumps(_arguments(self.args, limit), ensure_ascii=False, default=value_to_text)
        return len(self.name) + len(args) + len(_shown(self.result, limit)) + _LAYOUT


def called(steps: Iterable[ReasoningStep]) -> tuple[Called, ...]:
    """Return the calls of one turn."""
    return tuple(Called.of(step, index) for index, step in enumerate(steps))


@dataclass(frozen=True)
class Decision:
    """What the model said in one turn, `Decision("look", (called,))`; without calls, a reply that could not be read."""

    thought: str
    calls: tuple[Called, ...] = ()
    note: str = ""
    """What the run-time said before it."""

    @classmethod
    def unread(cls, reply: str, note: str = "") -> Decision:
        """Make the turn of a reply that could not be read."""
        return cls(cut_middle(reply, KEPT) or "(empty reply)", note=note)

    def entry(self, prefix: str = "", limit: int | None = None) -> Entry:
        """Return the model's half of an entry.

        Args:
            prefix: Makes the ids of the calls unique in a conversation.
            limit: About so many characters of each result are shown; None for all.
        """
        thought = self.thought if limit is None else cut_middle(self.thought, max(limit, KEPT))
        calls = [{"id": prefix + c.id, "name": as_data(c.name), "args": _arguments(c.args, limit)} for c in self.calls]
        results = [
            {"call_id": prefix + c.id, "name": as_data(c.name), "value": _shown(c.result, limit), "is_error": c.failed}
            for c in self.calls
        ]
        held: Entry = {CALLS: calls, RESULTS: results} if calls else {CALLS: []}
        return {THOUGHT: as_data(clean_text(thought)), CALLS: held}


def _shown(text: str, limit: int | None) -> str:
    return as_data(clean_text(text if limit is None else cut_middle(text, limit)))


def _arguments(args: Any, limit: int | None = None) -> dict[str, Any]:
    """Return arguments as an entry holds them: always an object; with a `limit`, long ones are cut."""
    shown = value_as_data(args)
    held = cast("dict[str, Any]", shown) if isinstance(shown, dict) else {} if shown is None else {"value": shown}
    room = max(limit or 0, KEPT)
    if limit is None or len(json.dumps(held, ensure_ascii=False, default=value_to_text)) <= room:
        return held
    part = room // len(held)
    return {name[:KEPT]: _cut_value(value, part) for name, value in held.items()}


def _cut_value(value: Any, limit: int) -> Any:
    text = value_to_text(value)
    return value if len(text) <= limit else cut_middle(text, limit)


def id_prefix(number: int) -> str:
    """Return what stands before the ids of calls in a conversation's message of that number: providers want them unique."""
    return f"m{number}-" if number else ""


def call_ids(steps: Sequence[ReasoningStep], number: int) -> list[str]:
    """Return the ids of a run's calls in its prompts; `number` is the run's place in its conversation."""
    groups = (called(group) for _, group in groupby(steps, key=lambda step: step.iteration))
    return [id_prefix(number) + call.id for group in groups for call in group]


def decisions_of(
    steps: Sequence[ReasoningStep], asides: Sequence[Aside] = (), first: int = 0
) -> tuple[list[tuple[Decision, range]], str]:
    """Return the turns of a run from a step on, each with the numbers of its steps, and the note that waits for the next
    turn."""
    found: list[tuple[Decision, range]] = []
    note, waiting = "", [aside for aside in asides if aside.after >= first]

    def take(until: int) -> str:
        words = note
        while waiting and waiting[0].after <= until:
            aside = waiting.pop(0)
            if aside.reply:
                found.append((Decision.unread(aside.reply, words), range(0)))
                words = ""
            words = "\n\n".join(filter(None, [words, aside.note]))
        return words

    for _, group in groupby(list(enumerate(steps))[first:], key=lambda item: item[1].iteration):
        decided = list(group)
        (start, step), numbers = decided[0], range(decided[0][0], decided[-1][0] + 1)
        note = take(start)
        if step.tool_name:
            found.append((Decision(step.thought, called(one for _, one in decided), note), numbers))
            note = ""
        else:
            reply = step.error.raw_response if step.error is not None else ""
            found.append((Decision.unread(reply or step.thought, note), range(0)))
            note = step.observation
    return found, take(len(steps))


# -- a run -----------------------------------------------------------------------------------------------------------------


class RunTurns:
    """The turns of one run as a prompt shows them; each is rendered once while nothing of it is shortened.

    Args:
        number: The run's place in its conversation, from 0.

    Examples:
        >>> call = {"tool_call_id": "c1", "tool_name": "look_up", "outcome": "success"}
        >>> step = ReasoningStep(iteration=1, thought="first", observation="found", **call)
        >>> entries, said = RunTurns().shown({"task": "Find it"}, [step])
        >>> [sorted(entry) for entry in entries], said
        ([['next_thought', 'task', 'tool_calls']], {})
    """

    def __init__(self, number: int = 0) -> None:
        self._prefix = id_prefix(number)
        self._rendered: dict[tuple[int, tuple[int | None, ...]], Entry] = {}
        self._kept: tuple[Entry, int, list[Entry]] = ({}, 0, [])
        """With which opening, up to which step, and the turns up to there, while nothing is shortened."""

    def shown(
        self,
        opening: Entry,
        steps: Sequence[ReasoningStep],
        asides: Sequence[Aside] = (),
        *,
        cuts: Mapping[int, int] | None = None,
        first: int = 0,
        notes: Sequence[str] = (),
    ) -> tuple[list[Entry], Entry]:
        """Return the turns so far, and what the next request says first.

        Args:
            opening: The message's inputs and its playbook.
            steps: All steps of the run.
            asides: The replies that were rejected, and notes of the agent's own.
            cuts: A step's index to the characters of its result that are shown, or to `GONE`.
            first: The first step that is shown at all.
            notes: What the run-time says at the beginning.
        """
        cuts = cuts or {}
        missing = sum(cuts.get(index) == GONE for index in range(first, len(steps)))
        left = [f"[{missing} earlier steps left out: the context window is full]"] if missing else []
        said = _with_notes(opening, [*notes, *left])
        whole = not (cuts or first or notes)
        entries: list[Entry] = []
        if whole and self._kept[1] and self._kept[0] == opening:
            _, first, kept = self._kept
            said, entries = {}, [*kept]
        decisions, waits = decisions_of(steps, asides, first)
        for decision, numbers in decisions:
            if numbers and all(cuts.get(index) == GONE for index in numbers):
                continue
            entries.append({**_with_notes(said, [decision.note]), **self._entry(decision, numbers, cuts)})
            said = {}
            if whole and numbers:
                self._kept = (opening, numbers.stop, [*entries])
        return entries, _with_notes(said, [waits])

    def _entry(self, decision: Decision, numbers: range, cuts: Mapping[int, int]) -> Entry:
        if not numbers:
            return decision.entry()
        limits = tuple(cuts.get(index) for index in numbers)
        key = (numbers.start, limits)
        if key not in self._rendered:
            kept = [(call, limit) for call, limit in zip(decision.calls, limits, strict=True) if limit != GONE]
            limit = min((limit for _, limit in kept if limit is not None), default=None)
            self._rendered[key] = replace(decision, calls=tuple(call for call, _ in kept)).entry(self._prefix, limit)
        return self._rendered[key]


def _with_notes(said: Entry, notes: Sequence[str]) -> Entry:
    """Return what is said, and beside it what the run-time says."""
    words = [note for note in (said.get(NOTE, ""), *map(as_data, notes)) if note]
    return {**said, NOTE: "\n\n".join(words)} if words else dict(said)


def summary_note(summary: RunSummary) -> str:
    """Write the running summary as it stands in front of the steps that it does not stand for."""
    return as_data(clean_text(f"Conversation so far:\n{summary.text}"))


def measure(entries: Iterable[Mapping[str, Any]]) -> int:
    """Estimate how many characters entries take in a prompt, ids and layout aside."""
    return sum(len(text) for entry in entries for text in texts(entry, of_model=True))


def texts(entry: Mapping[str, Any], *, of_model: bool = False) -> Iterator[str]:
    """Yield the texts of an entry that others wrote; with `of_model` also what the model itself did."""
    for name, value in entry.items():
        if name == CALLS:
            calls = cast("Mapping[str, Any]", value)
            yield from (value_to_text(result["value"]) for result in calls.get(RESULTS) or ())
            if of_model:
                yield from (f"{call['name']}{value_to_text(call['args'])}" for call in calls.get(CALLS) or ())
        elif of_model or name != THOUGHT:
            yield value if isinstance(value, str) else value_to_text(value)


def as_text(entries: Iterable[Mapping[str, Any]]) -> str:
    """Write turns as running text, for a summary."""
    lines: list[str] = []
    for entry in entries:
        lines += [f"{name}: {value_to_text(value)}" for name, value in entry.items() if name not in (CALLS, TOOLS)]
        calls = cast("Mapping[str, Any]", entry.get(CALLS) or {})
        for call, result in zip(calls.get(CALLS) or (), calls.get(RESULTS) or (), strict=False):
            lines += [f"{call['name']}({value_to_text(call['args'])})", f"result: {value_to_text(result['value'])}"]
    return "\n".join(lines)


def as_fields(
    steps: Sequence[ReasoningStep], values: Mapping[str, Any], closing: Iterable[Any] | None
) -> dict[str, Any]:
    """Return the steps as the old `dspy.ReAct` gave them: ``thought_0``, ``tool_name_0``, ``tool_args_0`` ...

    Args:
        steps: All steps.
        values: What tools returned, by the id of the call; the text that the model read where it is not known.
        closing: Thought and arguments of the call that ended the run.
    """
    rows: list[tuple[Any, ...]] = []
    for step in steps:
        seen = values.get(step.tool_call_id, step.observation) if step.outcome == "success" else step.observation
        rows.append((step.thought, step.tool_name, Called.of(step).args, seen))
    if closing is not None:
        thought, args = closing
        rows.append((thought, "finish", args, "Completed."))
    keys = ("thought", "tool_name", "tool_args", "observation")
    return {f"{key}_{index}": row[i] for index, row in enumerate(rows) for i, key in enumerate(keys)}


# -- the messages before it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Message:
    """An earlier message of a conversation with its turns, and what was answered."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    decisions: tuple[Decision, ...] = ()
    closing: tuple[str, Any] | None = None
    """Thought and arguments of the call that ended it."""
    note: str = ""
    """What the run-time said before that."""
    playbook: str = ""
    shortened: int = IN_FULL
    run: tuple[str, str] | None = None
    """The run's id and the task's."""

    @property
    def steps(self) -> list[tuple[str, Called]]:
        """Each call with the thought before it."""
        return [(decision.thought, call) for decision in self.decisions for call in decision.calls]

    def entries(self, number: int = 0, level: int = IN_FULL) -> list[Entry]:
        """Return the message number `number` of a conversation, as a prompt shows it at this level; every text is data."""
        prefix = id_prefix(number)
        if level == LEFT_OUT:
            return []
        playbook = {PLAYBOOK: as_data(self.playbook)} if self.playbook and level < NO_CALLS else {}
        said: Entry = {**_as_data(self.inputs), **playbook}
        found: list[Entry] = []
        if level < NO_CALLS:
            for decision in self.decisions:
                shown = decision.entry(prefix, STUB if level == SHORT else None)
                found.append({**_with_notes(said, [decision.note]), **shown})
                said = {}
        elif self.steps:
            said[NOTE] = f"[{len(self.steps)} calls left out: the context window is full]"
        return [*found, {**_with_notes(said, [self.note]), **self._end(prefix)}]

    def _end(self, prefix: str) -> Entry:
        thought, args = self.closing or ("" if self.outputs else "No answer was given.", self.outputs)
        if not self.outputs:
            return Decision(thought).entry()
        given = cast("Mapping[str, Any]", args) if _holds(args, self.outputs) else self.outputs
        call = Called(f"call_{len(self.decisions)}_0", SUBMIT, dict(given), "Completed.")
        return {**Decision(thought, (call,)).entry(prefix), **_as_data(self.outputs)}


def read_messages(entries: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Read the messages of a history: each begins with an entry that has inputs, or after one that has outputs.

    An entry that does not say which of its values are outputs has those that its last call gave, else `answer`.

    Examples:
        >>> [message] = read_messages([{"task": "Where is it?", "answer": "At home"}])
        >>> message.inputs, message.outputs
        ({'task': 'Where is it?'}, {'answer': 'At home'})
    """
    return [_read(group) for group in message_groups(entries)]


def message_groups(entries: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Group the entries of each message."""
    groups: list[list[Mapping[str, Any]]] = []
    over = True
    for entry in entries:
        outputs = _outputs(entry)
        if over or any(name not in outputs and name not in OWN_KEYS for name in entry):
            groups.append([])
        groups[-1].append(entry)
        over = bool(outputs & entry.keys()) or TRAJECTORY in entry
    return groups


def _outputs(entry: Mapping[str, Any]) -> set[str]:
    named: Any = entry.get(OUTPUTS)
    if isinstance(named, list):
        return {str(name) for name in cast("list[Any]", named)}
    ended = [cast("dict[str, Any]", ends[1]) for _, ends in _turn(entry) if ends and isinstance(ends[1], dict)]
    return set(ended[0]) if ended else {"answer"}


def _read(entries: Sequence[Mapping[str, Any]]) -> Message:
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    decisions, closing, note = list[Decision](), None, ""
    for entry in entries:
        named = _outputs(entry)
        inputs |= {name: value for name, value in entry.items() if name not in named and name not in OWN_KEYS}
        outputs |= {name: entry[name] for name in entry if name in named and entry[name] is not None}
        said, turns = value_to_text(entry.get(NOTE) or ""), [*_old_turns(entry), *_turn(entry)]
        note = note if turns else said  # said at the end of a run that gave no answer
        for decision, ends in turns:
            if decision.calls or (decision.thought and not ends):
                decisions.append(replace(decision, note=said))
            else:
                note = said
            closing = ends or closing
    first = entries[0]
    level, found = first.get(SHORTENED, IN_FULL), first.get(RUN)
    ids = cast("list[Any]", found) if isinstance(found, (list, tuple)) else []
    return Message(
        inputs=inputs,
        outputs=outputs,
        decisions=tuple(decisions),
        closing=closing,
        note=note,
        playbook=value_to_text(first.get(PLAYBOOK) or ""),
        shortened=level if isinstance(level, int) and IN_FULL <= level <= LEFT_OUT else IN_FULL,
        run=(str(ids[0]), str(ids[1])) if len(ids) == 2 else None,
    )


def _turn(entry: Mapping[str, Any]) -> Iterator[tuple[Decision, tuple[str, Any] | None]]:
    """Yield the model's half of an entry, and what ended the message there."""
    held = any_json(entry.get(CALLS))
    thought = value_to_text(entry.get(THOUGHT) or "")
    if not isinstance(held, dict):
        if thought:
            yield Decision(thought), None
        return
    fields = cast("dict[str, Any]", held)
    results: Any = fields.get(RESULTS) or []
    if isinstance(results, dict):
        results = cast("dict[str, Any]", results).get(RESULTS) or []
    calls: list[Called] = []
    end: tuple[str, Any] | None = None
    for index, call in enumerate(_objects(fields.get(CALLS))):
        result = _objects(results)[index] if index < len(_objects(results)) else {}
        name, args = value_to_text(call.get("name") or ""), cast(Any, call.get("args") or {})
        if name in ENDS:
            end = (thought, args)
            continue
        given = value_to_text(result.get("value", ""))
        call_id = value_to_text(call.get("id") or result.get("call_id") or f"c{index + 1}")
        calls.append(Called(call_id, name, args, given, bool(result.get("is_error"))))
    yield Decision(thought, tuple(calls)), end


def _old_turns(entry: Mapping[str, Any]) -> Iterator[tuple[Decision, tuple[str, Any] | None]]:
    """Yield the same of a `trajectory` as the old `dspy.ReAct` gave it."""
    found: Any = entry.get(TRAJECTORY)
    fields = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else dict[str, Any]()
    for index in sorted(int(match[1]) for name in fields if (match := _STEP.fullmatch(name))):
        thought, name = (value_to_text(fields.get(f"{key}_{index}") or "") for key in ("thought", "tool_name"))
        args = fields.get(f"tool_args_{index}")
        if name in ENDS:
            yield Decision(thought), (thought, args)
        else:
            result = value_to_text(fields.get(f"observation_{index}", ""))
            yield Decision(thought, (Called(f"c{index + 1}", name, {} if args is None else args, result),)), None


def _objects(value: Any) -> list[dict[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


class Conversation:
    """The earlier messages of one run, and how far each of them is shortened.

    Args:
        history: Entries, oldest first.
        levels: What this run has shortened so far: a message's index to its level.
    """

    def __init__(self, history: Sequence[Mapping[str, Any]], levels: Mapping[int, int] | None = None) -> None:
        self.messages = read_messages(history)
        self.levels = {index: m.shortened for index, m in enumerate(self.messages)} | dict(levels or {})
        self._rendered: dict[tuple[int, int], list[Entry]] = {}

    def _shown(self, index: int, level: int) -> list[Entry]:
        """Render a message at a level once, as each request asks for it again."""
        if (index, level) not in self._rendered:
            self._rendered[index, level] = self.messages[index].entries(index, level)
        return self._rendered[index, level]

    def size(self, index: int, level: int) -> int:
        """Return the characters that a message takes at a level."""
        shown = self._shown(index, level)
        return measure(shown) + _LAYOUT * len(shown)

    def shown(self) -> list[Entry]:
        """Return the turns that the prompt shows."""
        return [entry for index, level in self.levels.items() for entry in self._shown(index, level)]

    def note(self) -> list[str]:
        """Say in the prompt which messages are left out."""
        missing = sum(level == LEFT_OUT for level in self.levels.values())
        return [f"[{missing} earlier messages left out: the context window is full]"] if missing else []


@dataclass(frozen=True)
class SoFar:
    """The conversation with a run as its last message; made into entries when somebody asks for them."""

    history: tuple[Mapping[str, Any], ...]
    levels: Mapping[int, int]
    """What the run has shortened; it is kept, so that the next prompt begins like this run's."""
    message: Message
    """What was asked and answered; the outputs are empty for a run that gave no answer."""

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries of a run's `TaskInput.history`."""
        earlier: list[Entry] = []
        for index, group in enumerate(message_groups(self.history)):
            level = self.levels.get(index, IN_FULL)
            earlier += [{**group[0], SHORTENED: level} if level else {**group[0]}, *map(dict, group[1:])]
        return (*earlier, *stored_entries(self.message))


def stored_entries(message: Message) -> list[Entry]:
    """Return a message as entries with its texts as they were: what a prompt may not hold is taken apart when it is
    shown."""
    optional = {
        PLAYBOOK: message.playbook,
        SHORTENED: message.shortened,
        RUN: list(message.run) if message.run is not None else None,
    }
    said: Entry = {
        **{name: _plain(value) for name, value in message.inputs.items()},
        **{name: value for name, value in optional.items() if value},
    }
    found: list[Entry] = []
    for decision in message.decisions:
        note = {NOTE: decision.note} if decision.note else {}
        found.append(named({**said, **note, **_stored(decision)}, ()))
        said = {}
    outputs = {name: _plain(value) for name, value in message.outputs.items()}
    note = {NOTE: message.note} if message.note else {}
    if outputs:
        thought, args = message.closing or ("", outputs)
        end = Decision(thought, (Called(f"call_{len(message.decisions)}_0", SUBMIT, json_value(args), "Completed."),))
        found.append(named({**said, **note, **_stored(end), **outputs}, outputs))
    elif said or note:
        found.append(named({**said, **note}, ()))
    return found


def named(entry: Entry, outputs: Iterable[str]) -> Entry:
    """Return an entry that says which of its values are outputs, where that is not plain."""
    return entry if _outputs(entry) & entry.keys() == set(outputs) else {**entry, OUTPUTS: list(outputs)}


def message_of(steps: Sequence[ReasoningStep], asides: Sequence[Aside] = (), **fields: Any) -> Message:
    """Convert a run to a message: `message_of(steps, inputs={"task": "x"}, outputs={})`.

    Args:
        steps: Its steps.
        asides: The replies that were rejected, and what the run-time said.
        **fields: The message's other fields.
    """
    decisions, note = decisions_of(steps, asides)
    return replace(Message(**fields), decisions=tuple(decision for decision, _ in decisions), note=note)


def _stored(decision: Decision) -> Entry:
    calls = [{"id": c.id, "name": c.name, "args": _plain_arguments(c.args)} for c in decision.calls]
    results = [{"call_id": c.id, "name": c.name, "value": c.result, "is_error": c.failed} for c in decision.calls]
    held: Entry = {CALLS: calls, RESULTS: results} if calls else {CALLS: []}
    return {THOUGHT: decision.thought, CALLS: held}


def _plain_arguments(args: Any) -> dict[str, Any]:
    plain = json_value(args)
    return cast("dict[str, Any]", plain) if isinstance(plain, dict) else {"value": plain}


def _plain(value: Any) -> Any:
    """Return a value as JSON; of an image or the like, its kind: it was sent with its own message and is not sent again."""
    if hasattr(value, "serialize_model"):  # DSPy's own types
        return f"[{type(value).__name__} of an earlier message]"
    try:
        return any_json(value)
    except RecursionError:
        return value_to_text(value)


def _as_data(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value_as_data(value) for name, value in values.items()}


def _holds(args: Any, outputs: Mapping[str, Any]) -> bool:
    """Check whether the arguments of the last call hold the answer: where they did not fit, it was asked for once more."""
    return isinstance(args, Mapping) and set(cast("Mapping[str, Any]", args)) >= set(outputs)
