"""A lesson as data: the calls to make with where each argument comes from, and the situations in which to make them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from ace.core.language import column, search_words
from ace.core.text import is_key
from ace.playbook.masking import PERSONAL, WORD, Kind

MAX_SITUATIONS = 12
"""Wordings that are kept of one lesson; the least supported leaves first."""
NEW_FOR = 20
"""A new situation stays for this many runs of its lesson, however little supported."""
ENDS = ", then submit(...)"
"""How a plan in words ends; agents of other frameworks end their runs in other ways, and are shown it without."""
TASKS_FOR_A_WORD = 5
"""A rare word is a slot until so many tasks that differ in their slots use it."""
TASKS_FOR_A_CONSTANT = 3
"""A value that a model wrote, or that a schema names, is a constant from so many such tasks on."""
SHARED = 0.5
"""Two wordings are one situation when they share at least this much of their words, and differ in slots only."""


class FromTask(BaseModel, frozen=True, extra="forbid"):
    """The argument stands in the task: `FromTask(slot="order_id")`."""

    kind: Literal["task"] = "task"
    slot: str
    value: Any = None
    """What the task says, where the tool's schema names it and all runs have shared it; a later run may have another."""
    seen: int = 0
    """Different tasks that said it."""


class FromAnswer(BaseModel, frozen=True, extra="forbid"):
    """The argument is a part of an earlier answer: `FromAnswer(call=0, path="[].order_id")`."""

    kind: Literal["answer"] = "answer"
    call: int = Field(ge=0)
    """Index of the call in the plan."""
    path: str = ""
    """Its field, ``[]`` for any item of a list; empty when it stands somewhere in the text."""
    unnamed: tuple[str, ...] = ()
    """Keys of the path that no schema names and only one task's answers had: no prompt shows what a stranger may have
    written."""


class Constant(BaseModel, frozen=True, extra="forbid"):
    """The argument is always the same: `Constant(value="damaged")`."""

    kind: Literal["constant"] = "constant"
    value: Any
    named: bool = True
    """Whether the tool's schema names it; otherwise all runs have shared it."""


class Written(BaseModel, frozen=True, extra="forbid"):
    """The model wrote the argument: `Written()`. A hash tells whether the next run writes the same."""

    kind: Literal["written"] = "written"
    digest: str = ""
    seen: int = 0


Binding = Annotated[FromTask | FromAnswer | Constant | Written, Field(discriminator="kind")]


class Call(BaseModel, frozen=True, extra="forbid"):
    """One call of a plan: `Call(tool="refund", args={"order_id": FromTask(slot="order_id")}, changes=True)`."""

    tool: str
    args: dict[str, Binding] = Field(default_factory=dict)
    also: dict[str, tuple[Binding, ...]] = Field(default_factory=dict)
    """Other places that have held an argument in all runs so far: where it came from is not settled yet."""
    changes: bool = False
    times: Literal["once", "each"] | int = "once"
    """``each``: for each item; a number: that often in a row."""
    over: str = ""
    """The argument that is another one each time."""
    trusted: bool = False
    """Whether the tool's answers are the program's own words."""
    loop: int = 0
    """Which loop of the plan it belongs to, from 1; 0 for none."""

    def places(self, argument: str) -> tuple[Binding, ...]:
        """Return where an argument may come from, the likeliest first."""
        return (self.args[argument], *self.also.get(argument, ()))


class Plan(BaseModel, frozen=True, extra="forbid"):
    """Calls in order.

    Examples:
        >>> find = Call(tool="find_order", args={"number": FromTask(slot="number")})
        >>> refund = Call(tool="refund", args={"order_id": FromAnswer(call=0, path="order_id")}, changes=True)
        >>> Plan(calls=(find, refund)).text
        'find_order(number from the task), then refund(order_id from find_order.order_id), then submit(...)'
    """

    calls: tuple[Call, ...] = Field(default=(), max_length=100)
    declines: bool = False
    """A change was asked for, and the run was right to make none."""

    @model_validator(mode="after")
    def _earlier(self) -> Plan:
        for index, call in enumerate(self.calls):
            for name, arg in ((argument, place) for argument in call.args for place in call.places(argument)):
                if isinstance(arg, FromAnswer) and arg.call >= index:
                    raise ValueError(
                        f"{name!r} of call {index} comes from the answer of call {arg.call}, which is not earlier"
                    )
        return self

    @property
    def text(self) -> str:
        """The plan as a sentence in a prompt, to its end: small models begin again where it does not say so."""
        parts: list[str] = []
        for (in_loop, _), group in groupby(self.calls, key=lambda call: (call.times == "each", call.loop)):
            calls = list(group)
            said = ", then ".join(self.call_text(call, in_loop) for call in calls)
            over = self._item(calls[0]) if in_loop else ""
            parts.append(f"for each {over}: {said}" if over else said)
        if not self.changes:
            answer = f"answer from {self.calls[-1].tool}" if self.calls else "answer at once, without a call"
            why = "decline and tell the user why, or " if self.declines else ""
            parts.append(f"{why}{answer}{'; nothing is to be changed' if self.calls or why else ''}")
        return ", then ".join(parts) + ENDS

    @property
    def changes(self) -> bool:
        """Whether one of its calls changes something."""
        return any(call.changes for call in self.calls)

    @property
    def shape(self) -> str:
        """What plans that `fit` have in common: the changing calls (else all), and what of them is given or constant."""
        calls = self.telling
        said: list[Any] = ["declines"] if self.declines else []
        said += [
            [call.tool, call.times == "each" and call.over, {n: _shape(a) for n, a in sorted(call.args.items())}]
            for call in calls
        ]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @property
    def canonical(self) -> str:
        """Its calls as they would be made, as one text: plans with the same text make the same calls."""
        calls = [
            [call.tool, call.times, call.over, call.loop, {n: [*map(_as_made, call.places(n))] for n in call.args}]
            for call in self.calls
        ]
        return json.dumps(calls, sort_keys=True, default=str)

    def as_data(self) -> list[dict[str, Any]]:
        """Write its calls for an agent that runs them itself: of each argument, where its value comes from.

        Examples:
            >>> Plan(calls=(Call(tool="find", args={"name": FromTask(slot="name")}),)).as_data()
            [{'tool': 'find', 'args': {'name': {'from': 'task'}}}]
        """
        return [
            {
                "tool": call.tool,
                "args": {name: self._source(binding) for name, binding in call.args.items()},
                **({"for_each": call.over, "loop": call.loop} if call.times == "each" else {}),
                **({"times": call.times} if isinstance(call.times, int) else {}),
                **({"changes": True} if call.changes else {}),
            }
            for call in self.calls
        ]

    @staticmethod
    def _source(binding: Binding) -> dict[str, Any]:
        match binding:
            case FromAnswer(call=index, path=path, unnamed=unnamed):
                steps = ("[]" if step.replace("[]", "") in unnamed else step for step in path.split("."))
                return {"from": "answer", "call": index, "path": ".".join(steps)}
            case Constant(value=value):
                return {"from": "plan", "value": value}
            case FromTask():
                return {"from": "task"}
            case _:
                return {"from": "model"}

    @property
    def telling(self) -> list[Call]:
        """The calls that make it this plan: those that change something, else the first of each tool that is read."""
        firsts: dict[str, Call] = {}
        for call in self.calls:
            firsts.setdefault(call.tool, call)
        return [call for call in self.calls if call.changes] or list(firsts.values())

    def fits(self, other: Plan) -> bool:
        """Check whether another plan of the same shape is the same: each argument may come from the same place in both."""
        return all(
            not self.keys(one, name).isdisjoint(other.keys(also, name)) for one, also, name in self._beside(other)
        )

    def contradicts(self, other: Plan) -> bool:
        """Check whether what was written alike in all runs so far is another text in another plan of the same shape."""
        written = ((_digest(one.args[name]), _digest(also.args[name])) for one, also, name in self._beside(other))
        return any(known and said and known != said for known, said in written)

    def writes_alike(self, other: Plan) -> bool:
        """Check whether two plans of the same shape know the same of what the model writes."""
        return all(_digest(one.args[name]) == _digest(also.args[name]) for one, also, name in self._beside(other))

    def _beside(self, other: Plan) -> Iterator[tuple[Call, Call, str]]:
        """Yield each argument of its telling calls, with the call and that of another plan of the same shape."""
        for one, also in zip(self.telling, other.telling, strict=True):
            yield from ((one, also, name) for name in one.args)

    def keys(self, call: Call, argument: str) -> set[str]:
        """Return the keys of the places that an argument of one of its calls may come from."""
        return {self.key(place) for place in call.places(argument)}

    @property
    def stored(self) -> Plan:
        """The plan as a lesson keeps it: of what only one run wrote, a hash."""
        return self._with_args(_hashed)

    def constants(self) -> dict[str, Any]:
        """Return what all its runs wrote alike, by its hash."""
        args = (arg for call in self.calls for arg in call.args.values())
        return {_said(arg.value): arg.value for arg in args if isinstance(arg, Constant) and not arg.named}

    def with_constants(self, known: Mapping[str, Any]) -> Plan:
        """Return the plan with values in place of the hashes of what a run wrote, as far as they are known."""

        def filled(arg: Binding) -> Binding:
            if isinstance(arg, Written) and arg.digest in known:
                return Constant(value=known[arg.digest], named=False)
            return arg

        return self._with_args(filled)

    def _with_args(self, changed: Callable[[Binding], Binding]) -> Plan:
        """Return the plan with another binding for each argument."""
        calls: list[Call] = []
        for call in self.calls:
            args = {name: changed(arg) for name, arg in call.args.items()}
            calls.append(call.model_copy(update={"args": args}))
        return self.model_copy(update={"calls": tuple(calls)})

    def key(self, binding: Binding) -> str:
        """Return what makes two bindings the same, whatever else their plans call."""
        if isinstance(binding, FromAnswer):
            return f"{self.calls[binding.call].tool}.{binding.path.replace('[]', '').strip('.')}"
        return _shape(binding) if not isinstance(binding, FromTask) else "task"

    def call_text(self, call: Call, in_loop: bool = False) -> str:
        """Write one of its calls in words."""
        item = call.over if in_loop and not self._from_loop(call) else None
        args = ", ".join(name if name == item else self._arg(name, arg) for name, arg in call.args.items())
        return f"{call.tool}({args}){f' {call.times} times' if isinstance(call.times, int) else ''}"

    def _arg(self, name: str, binding: Binding) -> str:
        match binding:
            case FromTask(value=None):
                return f"{name} from the task"
            case FromTask(value=value, seen=seen) if seen >= TASKS_FOR_A_CONSTANT:
                return self._arg(name, Constant(value=value))
            case FromTask(value=value):
                return f"{name} from the task (e.g. {value!r})"
            case FromAnswer():
                steps = (
                    step for step in binding.path.replace("[]", "").split(".") if step not in ("", *binding.unnamed)
                )
                return f"{name} from {'.'.join((self.calls[binding.call].tool, *steps))}"
            case Constant(value=value):
                return f"{name}={value!r}" if isinstance(value, str) else f"{name}={json.dumps(value)}"
            case _:
                return name

    def drives(self, call: Call) -> bool:
        """Return whether a loop goes over an argument of this call, and not over the answers of another call of it."""
        return call.over in call.args and not self._from_loop(call)

    def _from_loop(self, call: Call) -> bool:
        """Check whether what a loop goes over is the answer of another call of it."""
        source = call.args.get(call.over)
        if not isinstance(source, FromAnswer):
            return False
        other = self.calls[source.call]
        return other.times == "each" and other.loop == call.loop

    def _item(self, call: Call) -> str:
        return self._arg(call.over, call.args[call.over]) if call.over in call.args else "item"


def _shape(binding: Binding) -> str:
    match binding:
        case FromTask() | FromAnswer():
            return "given"
        case Constant(named=True, value=value):
            return repr(value)
        case _:
            return "written"


def _as_made(binding: Binding) -> list[Any]:
    match binding:
        case FromAnswer(call=index, path=path):
            return ["answer", index, path]
        case Constant(value=value):
            return ["constant", value]
        case _:
            return ["slot"]


def _digest(arg: Binding) -> str:
    """Hash what all runs so far wrote; empty when they differed, or when it was not written."""
    if isinstance(arg, Constant) and not arg.named:
        return _said(arg.value)
    return arg.digest if isinstance(arg, Written) else ""


def _hashed(arg: Binding) -> Binding:
    return Written(digest=_said(arg.value), seen=1) if isinstance(arg, Constant) and not arg.named else arg


def _said(value: Any) -> str:
    return digest_of(json.dumps(value, default=str))


class Slot(BaseModel, frozen=True, extra="forbid"):
    """A part of a task that differs from one to the next: `Slot(name="order_id", kind="id")`."""

    name: str
    kind: Kind
    digest: str = ""
    """A hash of its text while all tasks have shared it; empty once two differed, and where it is never shown."""
    seen: int = 0
    """Tasks, different in their slots, that shared it."""
    named: bool = False
    """Whether a tool's schema names the text."""

    @property
    def known_from(self) -> int | None:
        """From how many tasks on its text is no slot any more; None for never."""
        if not self.digest or self.kind in PERSONAL:
            return None
        return TASKS_FOR_A_CONSTANT if self.named else TASKS_FOR_A_WORD


_TOKEN = re.compile(rf"\{{\w+\}}|{WORD.pattern}|[^\w\s]|_")
_SLOT = re.compile(r"\{(\w+)\}")
_QUOTED_SLOT = re.compile(r"[\"'“‘«]\{(\w+)\}[\"'”’»]")


class Situation(BaseModel, frozen=True, extra="forbid"):
    """A request with slots in place of what only one task says.

    Examples:
        >>> slots = (Slot(name="name", kind="name"), Slot(name="order_id", kind="id"))
        >>> Situation(template="Refund {name}'s order {order_id}", slots=slots).searched
        "Refund name's order id"
    """

    template: str
    slots: tuple[Slot, ...] = ()
    support: int = 1
    """Different tasks that were worded so."""
    since: int = 0
    """Runs that its lesson rested on when it came."""
    fills: tuple[str, ...] = ()
    """Hashes of what filled the slots, of the last few tasks: the same request again shows nothing new."""
    hidden: tuple[int, ...] = ()
    """Columns of the lexical index for its rare words: they are searched, and stored as text nowhere."""

    @property
    def wording(self) -> str:
        """What tells two situations apart: the template, and which rare words fill it."""
        return f"{self.template} {list(self.hidden)}" if self.hidden else self.template

    @property
    def searched(self) -> str:
        """What retrieval compares with a query: slots by their kinds; a rare word says nothing."""
        kinds = {slot.name: "" if slot.kind == "text" else slot.kind for slot in self.slots}
        bare = _QUOTED_SLOT.sub(r"{\1}", self.template)  # a masked query has no quotation marks either
        return " ".join(_SLOT.sub(lambda m: kinds.get(m[1], ""), bare).split())

    @property
    def shown(self) -> str:
        """The template as a prompt shows it: rare words in a row are one gap."""
        rare = "|".join(re.escape(slot.name) for slot in self.slots if slot.kind == "text")
        return re.sub(rf"\{{(?:{rare})\}}(?:\W*\{{(?:{rare})\}})+", "{text}", self.template) if rare else self.template

    def texts(self) -> dict[str, str]:
        """Return its words, and up to four of them in a row, by their hashes as a slot has them."""
        words = self.template.split()
        parts = (" ".join(words[i : i + n]).strip(".,;:!?") for n in range(1, 5) for i in range(len(words) - n + 1))
        return {digest_of(part): part for part in (*WORD.findall(self.template), *parts)}

    def keys(self) -> list[str]:
        """Return its words in order, every slot alike; marks do not count."""
        found = (token.lower() for token in _TOKEN.findall(self.template))
        return ["{}" if token[0] == "{" else token for token in found if token[0] == "{" or token[0].isalnum()]


def digest_of(text: str) -> str:
    """Hash a text, short and whatever its case.

    Examples:
        >>> digest_of("Ana") == digest_of("ANA")
        True
    """
    return hashlib.sha256(" ".join(text.lower().split()).encode()).hexdigest()[:12]


def joined(
    old: Situation, new: Situation, values: Mapping[str, str], counted: bool, fill: str = ""
) -> Situation | None:
    """Join two situations that differ in slots only (anti-unification, Plotkin 1970); None when they differ in more.

    Args:
        old: As it stands in the lesson.
        new: Of another run.
        values: What filled the slots of `new`, by name: a rare word that enough tasks share is a word again.
        counted: Whether the run is of a task that the lesson does not rest on yet.
        fill: A hash of what filled the slots, where `values` does not hold all of it.
    """
    new = _with_words(new, values, old)
    left, right = old.keys(), new.keys()
    if left == right and len(old.slots) == len(new.slots):
        alike = sum(key != "{}" for key in left)
        return (
            _with_fills(old, new, values, counted, fill or fill_of(values)) if _shared(old, new, alike, alike) else None
        )
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    gaps = [(left[i1:i2], right[j1:j2]) for kind, i1, i2, j1, j2 in matcher.get_opcodes() if kind != "equal"]
    same = sum(key != "{}" for i, _, size in matcher.get_matching_blocks() for key in left[i : i + size])
    if not _shared(old, new, same, max(sum(key != "{}" for key in side) for side in (left, right))):
        return None
    more_slots = not gaps and len(new.slots) > len(old.slots)  # two slots of one were filled alike by chance
    if all(_fits(one, other) for one, other in gaps) and not more_slots:
        general = old
    elif all(_fits(other, one) for one, other in gaps):
        slots = tuple(slot.model_copy(update={"digest": "", "seen": 0}) for slot in new.slots)
        general = new.model_copy(update={"slots": slots, "since": old.since, "fills": old.fills})
    else:
        return None
    return general.model_copy(update={"support": old.support + counted, "hidden": _common(old, new)})


def _common(old: Situation, new: Situation) -> tuple[int, ...]:
    return tuple(sorted({*old.hidden} & {*new.hidden}))


def _shared(old: Situation, new: Situation, same: int, most: int) -> bool:
    """Check whether two wordings share enough of their words, of the hidden ones of the shorter one too."""
    return same + len(_common(old, new)) >= SHARED * (most + min(len(old.hidden), len(new.hidden)))


def _with_words(new: Situation, values: Mapping[str, str], old: Situation) -> Situation:
    """Return the new situation where rare words that the old one has taken for words are words, too."""
    words = set(old.keys())
    known = {
        slot.name: values[slot.name]
        for slot in new.slots
        if slot.known_from is not None and values.get(slot.name, "").lower() in words
    }
    if not known:
        return new
    slots = tuple(slot for slot in new.slots if slot.name not in known)
    return new.model_copy(update={"template": _SLOT.sub(lambda m: known.get(m[1], m[0]), new.template), "slots": slots})


def _fits(slots: Sequence[str], words: Sequence[str]) -> bool:
    """Check whether what differs is a slot that the other side fills, or one slot more beside slots."""
    return set(slots) <= {"{}"} and (bool(slots) or set(words) <= {"{}"})


def _with_fills(old: Situation, new: Situation, values: Mapping[str, str], counted: bool, fresh: str) -> Situation:
    """Return the same template again: what fills its slots may still be the same everywhere."""
    differs = counted and fresh not in old.fills
    slots, words = list[Slot](), dict[str, str]()
    for mine, other in zip(old.slots, new.slots, strict=True):
        if not mine.digest or mine.digest != other.digest:
            kind = mine.kind if mine.kind == other.kind else "text"
            slots.append(mine.model_copy(update={"digest": "", "seen": 0, "kind": kind}))
            continue
        seen = mine.seen + differs
        if mine.known_from is not None and seen >= mine.known_from and other.name in values:
            words[mine.name] = values[other.name]
        else:
            slots.append(mine.model_copy(update={"seen": seen}))
    shown = {column(word) for text in words.values() for word in search_words(text)}
    return Situation(
        template=_SLOT.sub(lambda m: words.get(m[1]) or m[0], old.template),
        slots=tuple(slots),
        hidden=tuple(c for c in _common(old, new) if c not in shown),
        support=old.support + counted,
        since=old.since,
        fills=(*old.fills, fresh)[-TASKS_FOR_A_WORD:] if differs else old.fills,
    )


def fill_of(values: Mapping[str, str]) -> str:
    """Hash what filled the slots of one task."""
    return digest_of(json.dumps(sorted(values.items()), default=str))


def added(situations: Sequence[Situation], new: Situation, instead_of: str, runs: int) -> tuple[Situation, ...]:
    """Return a lesson's situations after another run, best supported first; over the budget the least supported leaves.

    Args:
        situations: Of the lesson.
        new: To be added.
        instead_of: The `wording` that it replaces; empty when it is another wording.
        runs: Runs that the lesson rests on.
    """
    others = [known for known in situations if known.wording not in (instead_of, new.wording)]
    kept = sorted([*others, new], key=lambda s: (-s.support, s.since, s.template))
    while len(kept) > MAX_SITUATIONS:
        rest = [known for known in kept if known is not new]
        kept.remove(([known for known in rest if runs - known.since >= NEW_FOR] or rest)[-1])
    return tuple(kept)


def plan_with(old: Plan, new: Plan, differs: bool) -> Plan:
    """Return a lesson's plan after a run with the same shape: the shorter one, with what the model wrote alike constant.

    Args:
        old: Of the lesson.
        new: Of the run; its `Written` bindings hold hashes, its `Constant` ones that no schema names hold values.
        differs: Whether the run is of a task with other slots.
    """
    best = new if len(new.calls) < len(old.calls) else old
    known, fresh = _by_place(old), _by_place(new)
    calls: list[Call] = []
    for (place, mine), call in zip(_by_place(best).items(), best.calls, strict=True):
        before = known[place].args if place in known else {}
        after = fresh.get(place, mine).args
        settled, also = dict[str, Binding](), dict[str, tuple[Binding, ...]]()
        for name, arg in call.args.items():
            if isinstance(arg, FromAnswer) or (isinstance(arg, FromTask) and arg.value is None):
                sides = ((old, known.get(place)), (new, fresh.get(place)))
                keys = [plan.keys(side, name) for plan, side in sides if side is not None and name in side.args]
                # the places that both may have come from; the calls of another plan have other indexes
                shared = [p for p in call.places(name) if all(best.key(p) in found for found in keys)]
                places = [_named_by_tasks(p) for p in shared] if differs and len(keys) > 1 else shared
                places = places or [arg]
                settled[name] = places[0]
                also |= {name: tuple(places[1:])} if places[1:] else {}
            else:
                settled[name] = (
                    _settled(before[name], after.get(name, arg), differs) if name in before else _hashed(arg)
                )
        calls.append(call.model_copy(update={"args": settled, "also": also}))
    return best.model_copy(update={"calls": tuple(calls)})


def _named_by_tasks(place: Binding) -> Binding:
    """Return a place that two tasks share: its keys may be shown, as far as they are names."""
    if not isinstance(place, FromAnswer) or not place.unnamed:
        return place
    return place.model_copy(update={"unnamed": tuple(key for key in place.unnamed if not is_key(key))})


def _by_place(plan: Plan) -> dict[tuple[str, int], Call]:
    """Return each call, by its tool and which call of that tool it is."""
    counts: Counter[str] = Counter()
    found: dict[tuple[str, int], Call] = {}
    for call in plan.calls:
        found[call.tool, counts[call.tool]] = call
        counts[call.tool] += 1
    return found


def _chosen(old: FromTask | Constant, new: FromTask | Constant, differs: bool) -> Binding:
    """Choose where a value that a schema names comes from: the task, once runs had two; the plan, where one task did not
    say it."""
    if isinstance(old, FromTask) and isinstance(new, FromTask) and old.value is not None and old.value == new.value:
        return old.model_copy(update={"seen": old.seen + differs})  # the shape of the plan stays as it is
    if isinstance(old, Constant) and isinstance(new, Constant):
        return old
    if old.value == new.value and old.value is not None:
        return old if isinstance(old, Constant) else new
    return FromTask(slot=old.slot if isinstance(old, FromTask) else getattr(new, "slot", ""))


def _settled(old: Binding, new: Binding, differs: bool) -> Binding:
    """Return what is known of an argument after another run."""
    named = getattr(old, "named", True) and getattr(new, "named", True)
    if named and isinstance(old, (FromTask, Constant)) and isinstance(new, (FromTask, Constant)):
        return _chosen(old, new, differs)
    if isinstance(old, FromAnswer):
        return _hashed(new) if not isinstance(new, FromAnswer) else Written()
    if not isinstance(old, Written) and not (isinstance(old, Constant) and not old.named):
        return old
    said = _digest(new)
    if not said or _digest(old) != said:
        return Written()
    if isinstance(old, Constant):
        return old
    seen = old.seen + differs
    enough = seen >= TASKS_FOR_A_CONSTANT and isinstance(new, Constant)  # a hash alone tells no value
    return new if enough else old.model_copy(update={"seen": seen})
