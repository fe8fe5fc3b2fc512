"""JSON objects in a text: found whole, and never completed where something may be missing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from json_repair import repair_json

MAX_TRIES = 50
"""Objects in one reply that turn out to be unreadable, before the rest of it is given up."""
MAX_LENIENT = 50_000
"""Characters of objects that are no strict JSON, and of a call as code, that are still read."""
MAX_DEPTH = 60
"""Deeper nesting is not read."""

OBJECT = re.compile(r"\{\s{0,500}(?:[\"'}]|[A-Za-z_][\w-]{0,60}\s{0,20}:)")
_TOKEN = re.compile(  # strings that follow each other are one token: a long reply may have hundreds of thousands
    r"(?:\"[^\"\\]*(?:\\.[^\"\\]*)*\"[^\"'{}\[\](),:=]*+)++|[\"{}\[\]()]"
    r"|(?<=[{\[,:(=])\s{0,20}'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
    re.S,
)
_DECODER = json.JSONDecoder(strict=False)  # a line break in a text is what a model writes, and clear to a reader
_CLOSERS = {"{": "}", "[": "]", "(": ")"}


class Mark:
    """A result that is no value: `CUT`, `NOTHING`."""


CUT: Any = Mark()
"""What is there does not come to an end."""
NOTHING: Any = Mark()
"""There is nothing of the kind."""


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a JSON object, `is_object({})`."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value is a JSON list, `is_list([])`."""
    return isinstance(value, list)


@dataclass(frozen=True)
class Found:
    """A JSON object in a text, `next(found('{"a": 1}'))`: its value, its place, and the ids of objects in it left open."""

    value: Any
    start: int
    end: int
    unclosed: frozenset[int] = frozenset()


def strict(text: str) -> Any:
    """The JSON value that a text is, `strict("[1]")`; `NOTHING` where it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return NOTHING


def found(text: str, start: re.Pattern[str] = OBJECT, *, closed: bool = False) -> Iterator[Found]:
    """The JSON objects of a text, outermost ones, in their order; the last may be one that was cut off.

    Args:
        text: Any text.
        start: How an object begins.
        closed: Whether the text goes on after this, so that what ends here was not cut off.

    Examples:
        >>> [item.value for item in found('first {"a": 1}, then {"b": [2]}')]
        [{'a': 1}, {'b': [2]}]
    """
    position = tries = 0
    scans, left = 3 * len(text) + 10_000, MAX_LENIENT
    while tries < MAX_TRIES and scans > 0 and (match := start.search(text, position)) is not None:
        begin = match.start()
        try:
            value, position = _DECODER.raw_decode(text, begin)
            yield Found(value, begin, position)
            continue
        except (ValueError, RecursionError):
            tries += 1
        end, stack = balanced(text, begin)
        scans -= end - begin
        if stack is None:  # too deep, or no brackets that belong together
            position = begin + 1
        elif stack:
            yield _completed(text, begin, stack, closed)
            return
        else:
            position = end
            if end - begin <= left:
                left -= end - begin
                value = lenient(text[begin:end])
                if isinstance(value, dict):
                    yield Found(value, begin, end)


def balanced(text: str, start: int) -> tuple[int, list[str] | None]:
    """Where the bracket at `start` is closed, `balanced("(a)", 0)` is ``(3, [])``; else the end, and what is open there.

    A string that is open at the end counts as an open bracket ``"``. None for brackets that do not belong together.
    """
    stack: list[str] = []
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in _CLOSERS:
            stack.append(mark)
            if len(stack) > MAX_DEPTH:
                return token.end(), None
        elif mark == '"':
            return len(text), [*stack, mark]
        elif mark in ("}", "]", ")"):
            if not stack or _CLOSERS[stack.pop()] != mark:
                return token.end(), None
            if not stack:
                return token.end(), []
    return len(text), stack


def _completed(text: str, begin: int, stack: list[str], closed: bool) -> Found:
    """An object of which only closing brackets are missing; `CUT` as value where more may be."""
    end = len(text)
    whole = text[begin:].rstrip().rstrip("`").rstrip()
    if stack[-1] == '"' or not (closed or whole.endswith(("}", "]", '"'))):
        return Found(CUT, begin, end)
    value = strict(whole + "".join(_CLOSERS[mark] for mark in reversed(stack)))
    if value is NOTHING:
        return Found(CUT, begin, end)
    unclosed: set[int] = set()
    node = value
    for _ in stack:
        unclosed.add(id(node))
        node = (_items(node) or [None])[-1]
    return Found(value, begin, end, frozenset() if closed else frozenset(unclosed))


def lenient(text: str) -> Any:
    """What a person reads in an object whose brackets are all there, `lenient("{'a': 1,}")`: other quotes, comments ..."""
    try:
        value = ast.literal_eval(text)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        pass
    try:
        value = repair_json(text, return_objects=True)
    except Exception:  # a border: it is written for all kinds of text, and asserts what some do not keep
        return NOTHING
    # what was left out is repaired to an empty text, and odd quotes to a part of one: those would be guesses
    return value if _stands_in(value, text) else NOTHING


def _stands_in(value: Any, text: str) -> bool:
    """Whether each text in a value stands in the source, behind a quote unless it is one word."""
    if isinstance(value, str):
        escaped = json.dumps(value, ensure_ascii=False)[1:-1]
        quoted = any(f"{quote}{form}{quote * (not value)}" in text for quote in "\"'" for form in (value, escaped))
        return quoted or re.fullmatch(r"[\w.+-]+", value) is not None
    return all(_stands_in(item, text) for item in _items(value))


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []
