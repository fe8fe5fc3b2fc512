"""What of a request is one task's own, and the template that is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ace.core.language import FUNCTION_WORDS, JOINED, column, is_foreign, search_words
from ace.playbook.masking import PERSONAL, SPOKEN, TITLE, WORD, Kind, shouted
from ace.playbook.plan import Situation, Slot, digest_of, fill_of
from ace.reflector.knowledge import Knowledge
from ace.reflector.values import as_text, fields, flat, said_in
from ace.tasks import ReasoningStep

_MAX_TEMPLATE = 400
"""Characters of a request that become a template."""
_JOINED = re.compile(f"[{JOINED}]")


def situation_of(text: str, knowledge: Knowledge) -> Situation:
    """Make a template of a text: what is personal, and rare words, are slots.

    Examples:
        >>> situation_of("Refund order 17 of Ana", Knowledge()).template
        'Refund order {number} of {name}'
    """
    return generalised(" ".join(text.split()), {}, (), knowledge)[0]


def without_values(
    text: str, steps: Sequence[ReasoningStep], knowledge: Knowledge, said: Iterable[str] | None = None
) -> str:
    """Return a sentence about a run without what is its own: what is personal, what a call was given, fields of answers.

    Args:
        text: Of a person, or of a model that read the run.
        steps: Of the run.
        knowledge: Of its tools.
        said: What the writer read: of a model's rare words only those that stand there are somebody's own; None for all.

    Examples:
        >>> without_values("Ask before you write to ana@example.org", (), Knowledge())
        'Ask before you write to {email}'
    """
    of_tools = knowledge.words | {step.tool_name.lower() for step in steps}
    read = None if said is None else {word.lower() for part in said for word in WORD.findall(part)}

    def own(mark: _Mark) -> bool:
        part = text[mark.start : mark.end]
        if mark.kind not in ("name", "text"):
            return mark.kind != "number" or len(part) > 2
        words = WORD.findall(part.lower())
        uncased = mark.kind == "name" and not part[0].isupper()  # a script without capitals names nobody by them
        if (mark.rare or uncased) and (read is not None or part.isdigit()):
            return len(part) > 2 and (read is None or not read.isdisjoint(words))
        return not all(word in of_tools or (mark.kind == "text" and word in FUNCTION_WORDS) for word in words)

    given = {
        as_text(part): name
        for step in steps
        for name, value in flat(step.tool_args).items()
        for part in (cast("list[Any]", value) if isinstance(value, list) else [value])
        if part not in ("", None) and not isinstance(part, bool)
    }
    spans = [_Mark(s.start, s.end, s.kind, s.kind) for s in knowledge.masker.spans(text)]
    unknown = [
        mark._replace(rare=mark.kind == "text")
        for mark in _unknown(text, lambda w: w in of_tools or knowledge.knows(w))
    ]
    marks = [*_arguments(text, given, knowledge), *spans, *_answered(text, steps, knowledge), *unknown]
    return _template(text, filter(own, marks))[0].shown


class _Mark(NamedTuple):
    """A part of a request that becomes a slot."""

    start: int
    end: int
    name: str
    kind: Kind
    rare: bool = False
    """Whether it is a slot only because few know the word."""
    guessed: bool = False
    """Whether it may be a word after all: it is searched, until runs differ in it."""


def generalised(
    text: str,
    bound: Mapping[str, str],
    steps: Iterable[ReasoningStep],
    knowledge: Knowledge,
    named: Collection[str] = (),
) -> tuple[Situation, dict[str, str]]:
    """Make a template of a request, with what fills its slots.

    Args:
        text: The request, one space between words.
        bound: What calls were given, as the text says it, to the names of the arguments.
        steps: Of the run: what their answers hold is a slot.
        knowledge: Of tools and masks.
        named: Texts in lower case that a schema names.
    """
    if len(text) > _MAX_TEMPLATE:
        text = text[: text.rfind(" ", 1, _MAX_TEMPLATE) if " " in text[1:_MAX_TEMPLATE] else _MAX_TEMPLATE]
    foreign = is_foreign(text)
    masked = knowledge.masker.spans(text)
    spans = [_Mark(s.start, s.end, s.kind, s.kind, guessed=foreign and s.kind == "name") for s in masked]
    unknown = [mark._replace(guessed=foreign or mark.kind == "text") for mark in _unknown(text, knowledge.knows)]
    # a query is masked without knowing arguments: what it takes for a quotation is one here, too
    given: list[_Mark] = []
    for mark in _arguments(text, bound, knowledge):
        around = [span for span in spans if span.start <= mark.start and mark.end <= span.end]
        if not any(span.kind in PERSONAL and span.end - span.start > mark.end - mark.start for span in around):
            given.append(mark._replace(kind=around[0].kind if around else mark.kind))
    marks = [*given, *spans, *_answered(text, steps, knowledge), *unknown]
    return _template(text, marks, named)


def _arguments(text: str, given: Mapping[str, str], knowledge: Knowledge) -> Iterator[_Mark]:
    """Yield where a text says what a call was given; the longest first."""
    for value, name in sorted(given.items(), key=lambda pair: -len(pair[0])):
        yield from (_Mark(m.start(), m.end(), name, knowledge.kind(value, name)) for m in said_in(text, value))


def _answered(text: str, steps: Iterable[ReasoningStep], knowledge: Knowledge) -> Iterator[_Mark]:
    """Yield where a text says what a field of an answer held."""
    for value, path in {(value, path) for step in steps for value, path in fields(step.result).items()}:
        own = [word for word in WORD.findall(value) if word not in knowledge.words and word not in FUNCTION_WORDS]
        if len(value) > 1 and (own or knowledge.hides(path)):
            yield from (_Mark(m.start(), m.end(), "text", "text") for m in said_in(text, value))


def _unknown(text: str, known: Callable[[str], bool]) -> Iterator[_Mark]:
    """Yield words that are no common ones. A capitalised one is a name; inside a sentence, whatever else it may be."""
    loud = shouted(text)
    for match in WORD.finditer(text):
        word = re.sub(r"(?:n['’]t|['’](?:s|ve|re|ll|d|m))$", "", match[0].lower())
        end = match.start() + len(word)
        if len(word) < 2 or SPOKEN.fullmatch(match[0]):
            continue
        alone = match[0] == _around(text, match.start(), match.end())  # what is glued to marks is no word
        if match[0][0].isupper() and (not known(word) or (_inside(text[: match.start()]) and not loud)):
            yield _Mark(match.start(), end, "name", "name")
        elif not known(word):
            yield _Mark(match.start(), end, "text", "text", rare=alone)


def _inside(before: str) -> bool:
    """Check whether what follows a text is inside a sentence."""
    before = before.rstrip()
    return before[-1:] not in (".", "!", "?", ":", "") or TITLE.search(before) is not None


def _around(text: str, start: int, end: int) -> str:
    """Return a part of a text with what is glued to it, but not the marks of a sentence."""
    first = max(text.rfind(" ", 0, start), text.rfind("\n", 0, start)) + 1
    last = min((at for at in (text.find(" ", end), text.find("\n", end)) if at >= 0), default=len(text))
    return text[first:last].strip(".,;:!?\"'()“”‘’«»…。、！？")


def _template(text: str, marks: Iterable[_Mark], named: Collection[str] = ()) -> tuple[Situation, dict[str, str]]:
    """Return the template and what fills it; of marks that overlap the first one counts."""
    taken: list[_Mark] = []
    for mark in marks:
        over = [other for other in taken if other.start < mark.end and mark.start < other.end]
        if not over or (mark.guessed and _JOINED.search(text, mark.start, mark.end)):
            taken += _pieces(mark, sorted(over))
    pieces, slots, values, at = list[str](), list[Slot](), dict[str, str](), 0
    names: dict[tuple[str, str], str] = {}
    hidden: set[int] = set()
    for mark in sorted(taken):
        said = text[mark.start : mark.end]
        hidden |= {column(word) for word in search_words(said)} if mark.guessed else set()
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
    found = Situation(template=template, slots=tuple(slots), fills=(fill_of(values),), hidden=tuple(sorted(hidden)))
    return found, values


def _pieces(mark: _Mark, over: Sequence[_Mark]) -> Iterator[_Mark]:
    """Yield what is left of a guessed word beside the marks over it; in some scripts words are written together."""
    at = mark.start
    for other in over:
        if at < other.start:
            yield mark._replace(end=other.start, start=at)
        at = max(at, other.end)
    if at < mark.end:
        yield mark._replace(start=at)


def _free(name: str, taken: Collection[str]) -> str:
    number = 2
    while name in taken:
        name, number = f"{name.rstrip('0123456789').rstrip('_')}_{number}", number + 1
    return name


def _plain(text: str) -> str:
    return text.replace("{", "(").replace("}", ")")
