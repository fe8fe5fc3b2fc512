"""Objects in a text: read whole, and never completed where something may be missing."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, TypeGuard

MAX_LENIENT = 50_000
"""Characters of an object that is no strict JSON, or of a call as code, that are still read."""
MAX_DEPTH = 60
"""Deeper nesting is not read."""

OBJECT = r"\{\s{0,500}(?:[\"'}]|[A-Za-z_][\w-]{0,60}\s{0,20}:)"
"""How an object begins."""
_TOKEN = re.compile(  # strings that follow each other are one token: a long reply may have hundreds of thousands
    r"(?:\"[^\"\\]*(?:\\.[^\"\\]*)*\"[^\"'{}\[\](),:=]*+)++|[\"{}\[\]()]"
    r"|(?<=[{\[,:(=])\s{0,20}'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
    re.S,
)
_FOREIGN = re.compile(  # what JSON and JavaScript write in another way than Python does
    r"(?P<text>\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"?|'[^'\\]*+(?:\\.[^'\\]*+)*+'?)|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
    r"|\b(?P<constant>true|false|null)\b|(?<=[{,])\s*+(?P<key>[A-Za-z_]\w*+)(?=\s{0,20}:)",
    re.S,
)
_DECODER = json.JSONDecoder(strict=False)  # a line break in a text is what a model writes, and clear to a reader
_CLOSERS = {"{": "}", "[": "]", "(": ")"}

CUT: Any = object()
"""In place of a value: what is there does not come to an end."""
NOTHING: Any = object()
"""In place of a value: there is nothing of the kind."""


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Check whether a value is a JSON object, `is_object({})`."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Check whether a value is a JSON list, `is_list([])`."""
    return isinstance(value, list)


def strict(text: str) -> Any:
    """Read a text that is a JSON value, `strict("[1]")`; `NOTHING` where it is none."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return NOTHING


def read_text(text: str) -> Any:
    """Read a text that is JSON, or arguments as code write them, `read_text("n=2")`; `NOTHING` for another."""
    value = strict(text)
    return _arguments(f"({text})") if value is NOTHING else value


def object_at(text: str, begin: int, *, closed: bool = False) -> tuple[Any, int, bool]:
    """Read the object that begins at a bracket.

    Args:
        text: Any text.
        begin: Where the bracket stands.
        closed: Whether the text goes on after this, so that what ends here was not cut off.

    Returns:
        The object, or `CUT` where it does not come to an end, `NOTHING` where it cannot be read; where it ends; and
        whether it is whole: where its last bracket is missing, more fields may be, too.

    Examples:
        >>> object_at("first {'a': 1}, then", 6)
        ({'a': 1}, 14, True)
    """
    try:
        return *_DECODER.raw_decode(text, begin), True
    except (ValueError, RecursionError):
        end, stack = balanced(text, begin)
    if not stack:
        return NOTHING if stack is None else _arguments(f"({text[begin:end]})"), end, True
    rest = text[begin:].rstrip("` \t\r\n")
    # only the last bracket may be missing, and behind an inner one, or before what follows
    value = strict(f"{rest}}}") if stack == ["{"] and (closed or rest.endswith(("}", "]"))) else NOTHING
    return CUT if value is NOTHING else value, end, closed


def code_at(text: str, begin: int, order: tuple[str, ...]) -> tuple[Any, int]:
    """Read the arguments of a call as code: literals, by name or in the order of the schema, or an object.

    Returns:
        The arguments, or `CUT` where they do not come to an end, `NOTHING` for other code; and where they end.

    Examples:
        >>> code_at("f('a', n=2)", 1, ("key", "n"))
        ({'key': 'a', 'n': 2}, 11)
    """
    end, stack = balanced(text, begin)
    source = text[begin:end] if text[begin] == "(" else f"({text[begin:end]})"
    return CUT if stack else _arguments(source, order), end


def balanced(text: str, start: int) -> tuple[int, list[str] | None]:
    """Find where the bracket at `start` is closed, `balanced("(a)", 0)` is ``(3, [])``; else the end, and what is open.

    A string that is open at the end counts as an open bracket ``"``. None for brackets that do not belong together.
    """
    stack: list[str] = []
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark == '"':
            return len(text), [*stack, mark]
        if mark in _CLOSERS:
            stack.append(mark)
        elif mark in ("}", "]", ")") and (not stack or _CLOSERS[stack.pop()] != mark):
            return token.end(), None
        if not stack or len(stack) > MAX_DEPTH:
            return token.end(), None if stack else []
    return len(text), stack


def _arguments(text: str, order: tuple[str, ...] = ()) -> Any:
    """Read the arguments in the brackets of a call; an object alone holds them all."""
    try:
        call: Any = ast.parse(
            f"f{_FOREIGN.sub(_as_python, text)}" if len(text) <= MAX_LENIENT else "", mode="eval"
        ).body
        values = [ast.literal_eval(value) for value in call.args]
        named = {word.arg or "**": ast.literal_eval(word.value) for word in call.keywords}
        values, named = json.loads(json.dumps([values, named]))  # sets, bytes and ``...`` are no JSON
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, AttributeError):
        return NOTHING
    if len(values) == 1 and not named and is_object(values[0]) and (not order or values[0].keys() <= set(order)):
        return values[0]
    return dict(zip(order, values, strict=False)) | named if len(values) <= len(order) else NOTHING


def _as_python(found: re.Match[str]) -> str:
    """Write a part of an object as Python does."""
    if found["text"]:
        value = strict(found["text"])
        return found["text"] if value is NOTHING else repr(value)
    constant = (found["constant"] or " ").capitalize().replace("Null", "None")
    return repr(found["key"]) if found["key"] else constant
