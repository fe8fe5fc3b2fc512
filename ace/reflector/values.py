"""Values of arguments and answers: the fields of structured ones, and where a text says a value."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, cast

from ace.core import value_to_text
from ace.core.language import FIELD_NAMES, HANGUL, PREFIXES, UNSPACED, common_words

MAX_SAID, MAX_INFLECTED = 2_000, 8
"""Characters of a value, and words of one that may have other endings, that are looked for in a text."""
_MAX_FIELDS = 2_000
"""Fields of one answer that are looked at."""
_FIELD = re.compile(r"[^\W\d]+")
_SPELLED = re.compile(r"[^\W\d]+(?:[ -][^\W\d]+)*\d?")
"""Names of fields like "line1", "order-id" and "Email Address"."""


def flat(args: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return arguments without objects in them; of a list of objects each field is a list.

    Examples:
        >>> flat({"to": {"city": "Rome"}, "items": [{"sku": "A"}, {"sku": "B"}]})
        {'to.city': 'Rome', 'items[].sku': ['A', 'B']}
    """
    found: dict[str, Any] = {}
    for name, value in args.items():
        items = cast("list[Any]", value if isinstance(value, list) else [value])
        if depth > 4 or not items or not all(map(_is_object, items)):
            found[name] = value
        elif isinstance(value, dict):
            found |= {f"{name}.{key}": item for key, item in flat(cast("dict[str, Any]", value), depth + 1).items()}
        else:
            for item in items:
                for key, part in flat(item, depth + 1).items():
                    found.setdefault(f"{name}[].{key}", []).extend(part if isinstance(part, list) else [part])
    return found


def _is_object(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    items = cast("dict[str, Any]", value)
    return all(map(_is_field, items)) and not _is_map(items, record=False)


def _is_map(items: Mapping[str, Any], *, record: bool) -> bool:
    """Check whether the keys of an object are data: usernames and the like, which no list of words knows.

    Args:
        items: The object.
        record: Whether it is an answer, or one of a list: such ones have fields of whatever name.
    """
    strange = not any(_all_common(str(name)) for name in items)
    return bool(items) and strange and (not record or all(isinstance(item, (dict, list)) for item in items.values()))


def _is_field(name: object) -> bool:
    """Check whether a key is a name of a field: what holds a digit or a mark, or is spelled like a name, is data."""
    text = str(name)
    if not _FIELD.fullmatch(text):
        return _SPELLED.fullmatch(text) is not None and _all_common(text)
    return text[0].islower() or text[0] == "_" or (len(text) < 5 and text.isupper()) or _all_common(text)


def _all_common(name: str) -> bool:
    return all(word in common_words() or re.fullmatch(FIELD_NAMES, word) for word in name_words(name))


def fields(answer: str) -> dict[str, str]:
    """Return the fields of a structured answer: value in lower case to path, ``[]`` for any item of a list.

    Examples:
        >>> fields('[{"id": "o-17", "status": "open"}]')
        {'o-17': '[].id', 'open': '[].status'}
    """
    return {value: places[0] for value, places in paths(answer).items()}


def paths(answer: str) -> dict[str, tuple[str, ...]]:
    """Return what `fields` does, with every path of a value.

    Examples:
        >>> paths('{"adults": 2, "floor": 2}')
        {'2': ('adults', 'floor')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for path, leaf in islice(leaves(structure(answer)), _MAX_FIELDS):
        key = as_key(leaf)
        if path not in found.setdefault(key, ()):
            found[key] = (*found[key], path)
    return found


def structure(answer: str) -> Any:
    """Return what a structured answer holds, `structure('{"a": 1}')`; None for any other."""
    if answer.strip()[:1] not in ("[", "{"):
        return None
    for read, text in ((json.loads, answer), (ast.literal_eval, answer.strip())):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return read(text)
    return None


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each field, however deep; what is empty, true or false tells nothing."""
    if depth > 8 or value is None or isinstance(value, bool):
        return
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        data = _is_map(items, record=not path or path.endswith("[]"))
        for name, item in items.items():
            step = f".{name}" if path else str(name)
            yield from leaves(item, f"{path}{'[]' if data or not _is_field(name) else step}", depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from leaves(item, f"{path}[]", depth + 1)
    else:
        yield path, value


def name_words(name: str) -> list[str]:
    """Split a name into its words, in lower case: ``getOrder_2`` gives get and order."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\d_-]", " ", name).lower().split() or [name]


def slot_name(argument: str) -> str:
    """Name the slot for an argument: ``sku`` for ``items[].sku``."""
    return argument.rpartition(".")[2].replace("[]", "")


_COUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def spellings(value: Any) -> Iterator[str]:
    """Yield how a task may say a value; a number in more than one way."""
    text = as_key(value)
    yield text
    if isinstance(value, bool) or not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text):
        return
    number = float(text)
    if number.is_integer():
        yield from (f"{number:,.0f}", f"{number:.1f}", f"{number:.2f}", f"{number:,.2f}")
        yield from _COUNTS[int(number) : int(number) + 1] if 0 < number < len(_COUNTS) else ()
    else:
        yield from (f"{number:,}", f"{number:.2f}", f"{number:,.2f}")


def as_key(value: Any) -> str:
    """Return a value as text, in lower case; 77.0 is 77."""
    return exact_key(value).lower()


def exact_key(value: Any) -> str:
    """Return a value as text; 77.0 is 77."""
    whole_number = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return as_text(int(value) if whole_number else value)


def as_text(value: Any) -> str:
    """Return a value as the text that a request or an answer may hold."""
    return value if isinstance(value, str) else json.dumps(value, default=value_to_text)


def said_in(text: str, value: str) -> Iterator[re.Match[str]]:
    """Yield where a text says a value as whole words, in any case and spacing; anywhere, where a script has no spaces.

    A value of more than `MAX_SAID` characters is what somebody wrote, and is said nowhere.

    Examples:
        >>> [match.start() for match in said_in("Ana and Anabel and ana", "Ana")]
        [0, 19]
    """
    # a plain search first: it is a hundred times as fast on long answers
    if len(value) > MAX_SAID or not value.strip() or " ".join(value.lower().split()) not in _plainly(text):
        return
    words, after = _words(value), 0
    while match := words.search(text, after):
        start, after = match.span()
        around = text[max(0, start - 1) : start] + text[after : after + 1]
        whole = _BEGINS.match(text, start) and _ENDS.match(text, after)
        if whole and not any(unicodedata.category(character).startswith("M") for character in around):
            yield match
        else:
            after = start + 1


@lru_cache(maxsize=2_048)
def _plainly(text: str) -> str:
    return " ".join(text.lower().split())


@lru_cache(maxsize=4_096)
def _words(value: str) -> re.Pattern[str]:
    # where it begins and ends is looked at apart: those sets of characters take the compiler 10 ms for every value
    return re.compile(r"\s+".join(map(re.escape, value.split())), re.IGNORECASE)


_BEGINS = re.compile(rf"(?:(?<!\w)|(?<=[{UNSPACED}])|(?=[{UNSPACED}]{{2}}))(?<!\d[-.,:/])")
_ENDS = re.compile(rf"(?:(?!\w)|(?=[{UNSPACED}])|(?<=[{UNSPACED}]{{2}})|(?=[{HANGUL}]{{1,3}}(?!\w)))(?![-.,:/]\d)")
"""Where a value may end: at the end of a word, at a character of a script without spaces, or before a Korean particle;
a part of a date, a time or an amount is no number of its own."""


def inflected_in(text: str, value: str) -> Iterator[re.Match[str]]:
    """Yield where a text says a name with another ending, or with a particle before it, as many languages have them.

    The words share their first four letters at least, and all but the last one; words that English has are never meant.

    Examples:
        >>> [match[0] for match in inflected_in("Refunda a Borisov", "Boris")]
        ['Borisov']
    """
    words = value[:MAX_SAID].split()
    if not 0 < len(words) <= MAX_INFLECTED:
        return
    if not all(word.isalpha() and word.lower() not in common_words() for word in words):
        return
    kept = (word[:-1] if len(word) > 4 else word for word in words)
    inflected = r"\s+".join(f"{PREFIXES}{re.escape(word)}" + (r"\w{0,3}" if len(word) > 3 else "") for word in kept)
    for match in re.finditer(rf"(?<!\w){inflected}(?!\w)", text, re.IGNORECASE):
        if not any(word in common_words() for word in match[0].lower().split()):
            yield match
