"""From a run to a plan and a situation: where each argument came from, and what of the request is one task's own.

Arguments are looked for in the task first, then in the latest answer that has the value as a whole field, then in an
answer's text. What is left is a constant that a schema names, or what the model wrote.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

from ace.core import value_to_text
from ace.playbook.masking import PERSONAL, SPOKEN, Kind, Masker, PatternMasker, common_words
from ace.playbook.plan import (
    Binding,
    Call,
    Constant,
    FromAnswer,
    FromTask,
    Plan,
    Situation,
    Slot,
    Written,
    digest_of,
    fill_of,
)
from ace.tasks import ReasoningStep, TaskInput

MAX_LOOP = 3
"""Calls in the body of a loop."""
_MAX_FIELDS = 2_000
"""Fields of one answer that are looked at."""
_MAX_TEMPLATE = 400
"""Characters of a request that become a template."""
_FIELD = re.compile(r"[^\W\d]+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")


@dataclass(frozen=True)
class MinedPlan:
    """What a run did, and when that is to be done again."""

    plan: Plan
    situation: Situation
    values: dict[str, str]
    """What filled the slots; it stays in this process."""


@dataclass
class Knowledge:
    """What is known of tools, words and masks when a run is mined.

    Args:
        schemas: Tool name to ``{"description": ..., "parameters": JSON Schema}``.
        masker: Finds what is personal.
        private: Names of arguments whose values are never shown.
    """

    schemas: Mapping[str, Any] = field(default_factory=dict[str, Any])
    masker: Masker = field(default_factory=PatternMasker)
    private: Collection[str] = ()

    def __post_init__(self) -> None:
        self.words = frozenset(word for name, schema in self.schemas.items() for word in _words(name, schema))

    def names(self, tool: str, argument: str, value: Any) -> bool:
        """Whether the tool's schema names a value: one of a list, true or false, its default, a word of its description."""
        if value is None or isinstance(value, bool):
            return True
        schema = self.schemas.get(tool, {})
        spec = schema.get("parameters", {}).get("properties", {}).get(argument, {})
        if any(value == known for known in _named(spec, schema.get("parameters", {}).get("$defs", {}))):
            return True
        return isinstance(value, str) and value.isalpha() and value.islower() and value in _words(tool, schema)

    def asks_for_a_change(self, request: str) -> bool:
        """Whether a request says the verb of a tool that changes something: "cancel" of ``cancel_order``."""
        verbs = {_name_words(name)[0] for name, schema in self.schemas.items() if not schema.get("read_only")}
        reads = {word for name, schema in self.schemas.items() if schema.get("read_only") for word in _name_words(name)}
        return not (verbs - reads - stop_words()).isdisjoint(_WORD.findall(request.lower()))

    def masks(self, text: str) -> bool:
        """Whether a value is personal or a date; that a sentence begins with a capital makes no name of a word."""
        first, _, rest = text.partition(" ")
        sentence = rest and first.lower() in common_words()
        spans = self.masker.spans(f"to {first.lower()} {rest}" if sentence else f"to {text}")
        return any(
            span.kind in PERSONAL or span.kind in ("date", "time") for span in spans
        )  # today is another day soon

    def kind(self, text: str, argument: str = "") -> Kind:
        """The kind of a whole value."""
        if argument in self.private:
            return "account"
        spans = self.masker.spans(f"to {text}")
        for span in spans:
            if span.start <= 3 and span.end >= len(text) + 3:
                return span.kind
        return "text"


def _name_words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower().split() or [name]


def _words(name: str, schema: Any) -> frozenset[str]:
    return _schema_words(name, json.dumps(schema, sort_keys=True, default=str))


@lru_cache(maxsize=1_024)
def _schema_words(name: str, schema: str) -> frozenset[str]:
    """The words of a tool's name, its arguments and its description; not those that only begin with a capital."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", f"{name} {schema}".replace("_", " "))
    return frozenset(word for word in re.findall(r"[^\W\d_]+", text) if word.islower() or len(word) < 2)


def _named(spec: Any, defs: Any) -> Iterator[Any]:
    """The values that a schema lists, and the default."""
    if not isinstance(spec, dict):
        return
    known = cast("dict[str, Any]", spec)
    yield from known.get("enum", ())
    yield from (known[name] for name in ("const", "default") if name in known)
    if "$ref" in known:
        yield from _named(defs.get(str(known["$ref"]).rpartition("/")[2]), defs)
    for name in ("anyOf", "oneOf", "allOf"):
        for other in known.get(name, ()):
            yield from _named(other, defs)


def mined(task: TaskInput, steps: Sequence[ReasoningStep], knowledge: Knowledge) -> MinedPlan:
    """The plan and the situation of a run whose useful calls are these."""
    request = " ".join(value_to_text(value) for name, value in task.inputs.items() if name != "earlier")
    earlier = value_to_text(task.inputs.get("earlier", ""))
    binder = _Binder(f"{request}\n{earlier}", knowledge)
    calls = _looped([binder.call(step) for step in steps], [step.tool_args for step in steps])
    own = {value_to_text(value): name for name, value in task.inputs.items() if name in knowledge.private}
    situation, values = _situation(" ".join(request.split()), own | binder.found, steps, knowledge, binder.named)
    declines = not any(call.changes for call in calls) and knowledge.asks_for_a_change(request)
    return MinedPlan(Plan(calls=tuple(calls), declines=declines), situation, values)


# -- where arguments come from -----------------------------------------------------------------------------------------


class _Binder:
    """Binds the arguments of one call after another."""

    def __init__(self, task: str, knowledge: Knowledge) -> None:
        self._task = task
        self._knowledge = knowledge
        self._answers: list[tuple[int, dict[str, str], str]] = []
        """Of each call so far: its index, the paths of its fields by their value, its text."""
        self.found: dict[str, str] = {}
        """Text in the task to the argument that was taken from it."""
        self.named: set[str] = set()
        """Those of them that a schema names, in lower case."""

    def call(self, step: ReasoningStep) -> Call:
        args = {name: self._bound(step.tool_name, name, value) for name, value in step.tool_args.items()}
        self._answers.append((len(self._answers), fields(step.observation), step.observation))
        return Call(tool=step.tool_name, args=args, changes=step.changes_state)

    def _bound(self, tool: str, name: str, value: Any) -> Binding:
        if self._knowledge.names(tool, name, value):
            return self._chosen(name, value)
        items: list[Any] = cast("list[Any]", value) if isinstance(value, list) and value else [value]
        bindings = [self._place(name, _text(item)) for item in items]
        first = bindings[0]
        if first is not None and all(binding == first for binding in bindings):
            return first
        whole = self._place(name, _text(value)) if len(items) > 1 else None
        if whole is not None:
            return whole
        personal = name in self._knowledge.private or self._knowledge.masks(_text(value))
        rare = any(word not in common_words() | self._knowledge.words for word in _WORD.findall(_text(value).lower()))
        long = isinstance(cast(object, value), (dict, list)) or len(_text(value)) > 80 or rare
        return Written() if personal or long or value == "" else Constant(value=value, named=False)

    def _chosen(self, name: str, value: Any) -> Binding:
        """One of the values that a schema names: the task's choice, where the task says it in a word that tells."""
        text = _text(value)
        if value is None or isinstance(value, bool) or text.lower() in stop_words() or not self._in_task(name, text):
            return Constant(value=value)
        self.named.add(text.lower())
        return FromTask(slot=name, value=value, seen=1)

    def _in_task(self, name: str, text: str) -> bool:
        match = whole(text).search(self._task) if text.strip() else None
        if match:
            self.found.setdefault(match[0], name)
        return match is not None

    def _place(self, name: str, text: str) -> Binding | None:
        if not text.strip():
            return None
        if self._in_task(name, text):
            return FromTask(slot=name)
        key = text.lower()
        for index, paths, _ in reversed(self._answers):
            if key in paths:
                return FromAnswer(call=index, path=paths[key])
        for index, _, answer in reversed(self._answers):
            if key in answer.lower() and whole(text).search(answer):
                return FromAnswer(call=index)
        return None


def fields(answer: str) -> dict[str, str]:
    """The fields of a structured answer: value in lower case to path, ``[]`` for any item of a list.

    Example:
        >>> fields('[{"id": "o-17", "status": "open"}]')
        {'o-17': '[].id', 'open': '[].status'}
    """
    value: Any = None
    if answer.strip()[:1] in ("[", "{"):
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            try:
                value = ast.literal_eval(answer.strip())
            except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                return {}
    found: dict[str, str] = {}
    for path, leaf in _leaves(value, "", 0):
        found.setdefault(_text(leaf).lower(), path)
        if len(found) >= _MAX_FIELDS:
            break
    return found


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > 8 or value is None or isinstance(value, bool):
        return
    if isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            step = f".{name}" if path else str(name)
            # names of fields are words; what holds a digit or a mark is data that an answer is sorted by
            yield from _leaves(item, f"{path}{step if _FIELD.fullmatch(str(name)) else '[]'}", depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from _leaves(item, f"{path}[]", depth + 1)
    else:
        yield path, value


def _looped(calls: Sequence[Call], values: Sequence[Mapping[str, Any]]) -> list[Call]:
    """Repeated calls with the same bindings as one: for each item, or that many times.

    Args:
        calls: In order.
        values: Their arguments as they were.
    """
    kept: list[Call] = []
    moved: dict[int, int] = {}
    at = 0
    while at < len(calls):
        length, times = next(
            ((n, count) for n in range(1, MAX_LOOP + 1) if (count := _repeats(calls, at, n, moved)) > 1), (1, 1)
        )
        body = calls[at : at + length]
        over = [_varying(call, values[at + offset : at + length * times : length]) for offset, call in enumerate(body)]
        for offset, call in enumerate(body):
            for repeat in range(times):
                moved[at + repeat * length + offset] = len(kept)
            args = {name: _moved(arg, moved) for name, arg in call.args.items()}
            label = "once" if times == 1 else "each" if any(over) else times
            kept.append(call.model_copy(update={"args": args, "times": label, "over": over[offset]}))
        at += length * times
    return kept


def _varying(call: Call, values: Sequence[Mapping[str, Any]]) -> str:
    """The argument of a repeated call that came from the task or an answer, and was another one each time."""
    bound = (name for name, arg in call.args.items() if isinstance(arg, (FromAnswer, FromTask)))
    return next((name for name in bound if any(other.get(name) != values[0].get(name) for other in values)), "")


def _moved(arg: Binding, moved: Mapping[int, int]) -> Binding:
    return FromAnswer(call=moved[arg.call], path=arg.path) if isinstance(arg, FromAnswer) else arg


def _repeats(calls: Sequence[Call], at: int, length: int, moved: Mapping[int, int]) -> int:
    """How often the `length` calls from `at` on stand in a row, bound alike: answers of one loop are one source."""

    def alike(call: Call, start: int) -> str:
        args: dict[str, str] = {}
        for name, arg in sorted(call.args.items()):
            if isinstance(arg, FromAnswer) and arg.call >= start:  # an answer inside the body of the loop
                arg = FromAnswer(call=arg.call - start, path=f"body.{arg.path}")
            elif isinstance(arg, FromAnswer):
                arg = FromAnswer(call=moved.get(arg.call, arg.call), path=arg.path)
            args[name] = repr(arg)
        return f"{call.tool} {args}"

    first, count = [alike(call, at) for call in calls[at : at + length]], 1
    while [
        alike(call, at + count * length) for call in calls[at + count * length : at + (count + 1) * length]
    ] == first:
        count += 1
    return count


# -- what of a request is one task's own -------------------------------------------------------------------------------


def situation_of(text: str, knowledge: Knowledge) -> Situation:
    """A text as a template: what is personal, and rare words, are slots.

    Example:
        >>> situation_of("Refund order 17 of Ana", Knowledge()).template
        'Refund order {number} of {name}'
    """
    return _situation(" ".join(text.split()), {}, (), knowledge)[0]


def without_values(text: str, steps: Sequence[ReasoningStep], knowledge: Knowledge) -> str:
    """A sentence about a run without what is its own: what is personal, what a call was given, fields of answers.

    Unlike in a request, rare words stay: they are how a person or a model explains.

    Example:
        >>> without_values("Ask before you write to ana@example.org", (), Knowledge())
        'Ask before you write to {email}'
    """
    known = common_words() | knowledge.words | {step.tool_name.lower() for step in steps}

    def own(mark: _Mark) -> bool:
        part = text[mark.start : mark.end]
        words = _WORD.findall(part.lower()) if mark.kind in ("name", "text") else [part.lower()]
        uncased = mark.kind == "name" and not part[0].isupper()  # a script without capitals names nobody by them
        return not uncased and any(word not in known for word in words)

    given = {_text(value): name for step in steps for name, value in step.tool_args.items() if value != ""}
    found = knowledge.masker.spans(text)
    spans = [_Mark(s.start, s.end, s.kind, s.kind) for s in found if s.kind != "number" or s.end - s.start > 3]
    names = [mark for mark in _unknown(text, known) if mark.kind == "name"]
    marks = [*_arguments(text, given, knowledge), *spans, *_answered(text, steps, knowledge), *names]
    return _template(text, filter(own, marks))[0].shown


class _Mark(NamedTuple):
    """A part of a request that becomes a slot."""

    start: int
    end: int
    name: str
    kind: Kind
    rare: bool = False
    """Whether it is a slot only because few know the word."""


def _situation(
    text: str,
    bound: Mapping[str, str],
    steps: Iterable[ReasoningStep],
    knowledge: Knowledge,
    named: Collection[str] = (),
) -> tuple[Situation, dict[str, str]]:
    if len(text) > _MAX_TEMPLATE:
        text = text[: text.rfind(" ", 1, _MAX_TEMPLATE) if " " in text[1:_MAX_TEMPLATE] else _MAX_TEMPLATE]
    spans = [_Mark(span.start, span.end, span.kind, span.kind) for span in knowledge.masker.spans(text)]
    unknown = _unknown(text, common_words() | knowledge.words)
    # a query is masked without knowing arguments: what it takes for a quotation is one here, too
    whole_ones = [span for span in spans if span.kind in PERSONAL]
    given = (
        mark._replace(kind=_kind_around(mark, spans))
        for mark in _arguments(text, bound, knowledge)
        if not any(
            s.start <= mark.start and mark.end <= s.end and s.end - s.start > mark.end - mark.start for s in whole_ones
        )
    )
    marks = [*given, *spans, *_answered(text, steps, knowledge), *unknown]
    return _template(text, marks, named)


def _kind_around(mark: _Mark, spans: Iterable[_Mark]) -> Kind:
    around: list[Kind] = [span.kind for span in spans if span.start <= mark.start and mark.end <= span.end]
    return around[0] if around else mark.kind


def _arguments(text: str, given: Mapping[str, str], knowledge: Knowledge) -> Iterator[_Mark]:
    """Where a text says what a call was given; the longest first."""
    for value, name in sorted(given.items(), key=lambda pair: -len(pair[0])):
        found = [*whole(value).finditer(text)] if value.lower() in text.lower() else ()
        yield from (_Mark(m.start(), m.end(), name, knowledge.kind(value, name)) for m in found)


def _answered(text: str, steps: Iterable[ReasoningStep], knowledge: Knowledge) -> Iterator[_Mark]:
    """Where a text says what a field of an answer held."""
    lower = text.lower()
    for value in {value for step in steps for value in fields(step.observation)}:
        if len(value) > 1 and value in lower and not _said_by(knowledge.words, value):
            yield from (_Mark(m.start(), m.end(), "text", "text") for m in whole(value).finditer(text))


def _unknown(text: str, known: Collection[str]) -> Iterator[_Mark]:
    """Words that are no common ones. A capitalised one is a name; inside a sentence, whatever else it may be."""
    for match in _WORD.finditer(text):
        word = re.sub(r"(?:n['’]t|['’](?:s|ve|re|ll|d|m))$", "", match[0].lower())
        end = match.start() + len(word)
        inside = text[: match.start()].rstrip()[-1:] not in (".", "!", "?", ":", "")
        if len(word) < 2 or SPOKEN.fullmatch(match[0]):
            continue
        if match[0][0].isupper() and (inside or word not in known):
            yield _Mark(match.start(), end, "name", "name")
        elif word not in known:
            yield _Mark(match.start(), end, "text", "text", rare=True)


def _template(text: str, marks: Iterable[_Mark], named: Collection[str] = ()) -> tuple[Situation, dict[str, str]]:
    """The template and what fills it; of marks that overlap the first one counts."""
    taken: list[_Mark] = []
    for mark in marks:
        if mark.start < mark.end and all(mark.end <= other.start or other.end <= mark.start for other in taken):
            taken.append(mark)
    pieces, slots, values, at = list[str](), list[Slot](), dict[str, str](), 0
    names: dict[tuple[str, str], str] = {}
    for mark in sorted(taken):
        said = text[mark.start : mark.end]
        name = names.get((mark.name, said))
        if name is None:
            name = names[mark.name, said] = _free(re.sub(r"\W", "_", mark.name), values)
            values[name] = said
            by_schema = said.lower() in named
            digest = digest_of(said) if mark.rare or by_schema else ""
            slots.append(Slot(name=name, kind=mark.kind, digest=digest, seen=int(digest != ""), named=by_schema))
        pieces += [_plain(text[at : mark.start]), f"{{{name}}}"]
        at = mark.end
    template = "".join([*pieces, _plain(text[at:])])
    return Situation(template=template, slots=tuple(slots), fills=(fill_of(values),)), values


def _free(name: str, taken: Collection[str]) -> str:
    number = 2
    while name in taken:
        name, number = f"{name.rstrip('0123456789').rstrip('_')}_{number}", number + 1
    return name


def _plain(text: str) -> str:
    return text.replace("{", "(").replace("}", ")")


def _said_by(words: Collection[str], value: str) -> bool:
    """Whether the tools' own words, and words like "the", are all that a value is made of."""
    return all(word in words or word in stop_words() for word in _WORD.findall(value))


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    """Words like "the" and "on", which tell nothing; scikit-learn's list, loaded when it is needed."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=value_to_text)


@lru_cache(maxsize=4_096)
def whole(text: str) -> re.Pattern[str]:
    """A pattern that finds a text as whole words, whatever its case."""
    # a part of a date, a time or an amount is no number of its own
    return re.compile(rf"(?<!\w)(?<!\d[-.,:/]){re.escape(text)}(?!\w)(?![-.,:/]\d)", re.IGNORECASE)
