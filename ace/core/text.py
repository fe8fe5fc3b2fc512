"""Text that is safe to put into a prompt, a log line or a JSON file, whatever a model or a tool produced."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import unicodedata
from collections.abc import Callable
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ace.core.tables import nested_rows, table_text

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
MAX_OBSERVATION_CHARS = 20_000
"""Longer observations are cut, with a note."""


_TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,64}")
_MAX_KEY = 40


def is_tool_name(text: str) -> bool:
    """Check whether a text may be a tool's name: 1 to 64 letters, digits, ``_``, ``.``, ``/`` and ``-`` of ASCII.

    Examples:
        >>> is_tool_name("mail.send"), is_tool_name("send all of it")
        (True, False)
    """
    return _TOOL_NAME.fullmatch(text) is not None


def is_key(text: str) -> bool:
    """Check whether a text may name an argument or a field: 1 to 40 letters of any script, digits, ``_`` and ``-``.

    Examples:
        >>> is_key("order_id"), is_key("first call the bank")
        (True, False)
    """
    if not 0 < len(text) <= _MAX_KEY:
        return False
    return all(char.isalnum() or char in "_-" or unicodedata.category(char).startswith("M") for char in text)


def clean_text(text: str) -> str:
    """Replace lone surrogates by ``?``: an LM request that holds one cannot be encoded.

    Examples:
        >>> clean_text("a\\ud800b")
        'a?b'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def sentences(text: str) -> list[str]:
    """Split a text into its sentences and lines.

    Examples:
        >>> sentences("Cancel it. Then tell me:\\n- the total")
        ['Cancel it.', 'Then tell me:', '- the total']
    """
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def clean_value(value: Any) -> Any:
    """Apply `clean_text` to every string in a JSON-shaped value, keys included; anything else stays as it is.

    Examples:
        >>> clean_value({"a": ["\\ud800", 1]})
        {'a': ['?', 1]}
    """
    return each_text(value, clean_text)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Change every string in a JSON-shaped value, keys included; anything else stays as it is.

    Examples:
        >>> each_text({"a": ["b", 1]}, str.upper)
        {'A': ['B', 1]}
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {each_text(k, change): each_text(item, change) for k, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, (list, tuple)):
        items = [each_text(item, change) for item in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return value


def json_line(value: Any) -> str:
    """Write one line of JSON with clean text; pydantic models are allowed, and what JSON does not know becomes text.

    Raises:
        ValueError: It holds bytes that are no UTF-8, itself, or too many levels.

    Examples:
        >>> json_line({"a": ["\\ud800", {1}, 1.5]})
        '{"a":["?",[1],1.5]}'
    """
    try:
        return to_json(value, by_alias=False, fallback=value_to_text).decode()
    except PydanticSerializationError:  # a lone surrogate: no file can hold it, and one odd character costs no run
        plain = clean_value(to_jsonable_python(value, by_alias=False, fallback=value_to_text))
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


MAX_DEPTH = 100
"""Deeper nesting is no argument that a tool could use, and no JSON that every reader takes."""


def json_value(value: Any, depth: int = 0) -> Any:
    """Convert what a model sent to plain JSON with clean text: a stored run equals the one in memory.

    Raises:
        RecursionError: It is nested more than `MAX_DEPTH` deep.

    Examples:
        >>> json_value({1: ("a", {"b"})})
        {'1': ['a', ['b']]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if depth > MAX_DEPTH:
        raise RecursionError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {clean_text(str(key)): json_value(item, depth + 1) for key, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item, depth + 1) for item in cast(list[Any], value)]
    return value_to_text(value)


def any_json(value: Any) -> Any:
    """Convert any object as `json_value` does: pydantic models, dates and the like become what they are in JSON.

    Raises:
        RecursionError: It is nested more than `MAX_DEPTH` deep.

    Examples:
        >>> any_json({"sum": complex(1, 2)})
        {'sum': '1+2j'}
    """
    return json_value(to_jsonable_python(value, fallback=value_to_text, inf_nan_mode="constants", bytes_mode="base64"))


def truncate(text: str, limit: int = MAX_OBSERVATION_CHARS) -> str:
    """Cut `text` to `limit` characters and note how much is missing.

    Examples:
        >>> truncate("abcdef", 4)
        'abcd... [2 more characters]'
    """
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... [{len(text) - limit} more characters]"


def cut_middle(text: str, limit: int) -> str:
    """Cut `text` to about `limit` characters in its middle, and note how much is missing there.

    Examples:
        >>> cut_middle("abcdefgh", 4)
        'ab [4 characters left out] gh'
    """
    if len(text) <= limit:
        return text
    tail = limit // 2
    head = limit - tail
    return f"{text[:head]} [{len(text) - limit} characters left out] {text[len(text) - tail :]}"


def value_to_text(value: Any, limit: int = MAX_OBSERVATION_CHARS) -> str:
    """Turn any value a tool may return into text; never raises.

    Strings stay as they are, tables become rows of CSV, everything else becomes JSON. Objects that JSON does not know are
    shown by `str`, or by their type name when even that fails.

    Examples:
        >>> value_to_text({"a": [1, None]}), value_to_text("x"), value_to_text(object)
        ('{"a": [1, null]}', 'x', '"type"')
    """
    if isinstance(value, str):
        return truncate(clean_text(value), limit)
    try:
        text = table_text(value, limit)
        if text is None:
            plain = to_jsonable_python(value, fallback=_plain, inf_nan_mode="constants", bytes_mode="base64")
            text = json.dumps(plain, ensure_ascii=False)
    except Exception:  # border to foreign objects: recursion, hostile __iter__, keys that are no text ...
        text = _fallback(value)
    return truncate(clean_text(text), limit)


def _plain(value: Any) -> Any:
    rows = nested_rows(value)
    return _fallback(value) if rows is None else rows


def _fallback(value: Any) -> str:
    if isinstance(value, type):
        return type(value).__name__
    try:
        text = str(value)
    except (Exception, SystemExit):  # a hostile __str__ is the caller's object, not our bug
        return f"<{type(value).__name__}>"
    # the default repr shows a memory address, which is useless and differs between runs
    return f"<{type(value).__name__}>" if _ADDRESS.search(text) else text


_TRACEBACK = re.compile(
    r"^[ |+-]*(?:Exception Group )?Traceback \(most recent call last\):\n"
    r"|^(?:[ |]*\| )?  File \"[^\"\n]*\", line \d++.*\n(?:(?:[ |]*\| )?    .*\n?)*",
    re.MULTILINE,
)
"""The head of a traceback, and its frames; the line of the exception follows."""
_PATH = re.compile(r"(?<![\w:/.])(?:file://)?(/|~/|[A-Za-z]:\\+|\\\\)((?:[\w.@+-]+[/\\]+)+)([\w.@+-]*)")
"""What looks like an absolute path of a file system and is no URL: its root, its folders, its last part."""
_TOP_FOLDER = re.compile(
    "bin|boot|dev|etc|home|lib|lib64|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var"
    "|Applications|Library|System|Users|Volumes|private"
)
"""Where files are on Linux and macOS."""
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,7}$")
_MAX_LEAVES = 5
"""At most so many exceptions of a group are told of."""


@functools.cache
def _own_top_folders() -> frozenset[str]:
    try:
        return frozenset(os.listdir("/"))
    except OSError:
        return frozenset()


def _without_folders(path: re.Match[str]) -> str:
    """Return the last part of a path; a route of a web service, as ``/api/v1/orders``, stays whole."""
    root, folders, last = path.groups()
    top = folders.split("/")[0]
    file = root != "/" or _TOP_FOLDER.fullmatch(top) or top in _own_top_folders() or _SUFFIX.search(last)
    return (last or "a folder") if file else path[0]


def exception_leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions that a group holds, those of groups in it too, `exception_leaves(error)`; or the one that it
    is."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    parts = cast("tuple[BaseException, ...]", error.exceptions)
    return [leaf for part in parts for leaf in exception_leaves(part)]


def describe_error(error: BaseException) -> str:
    """Describe an exception in one line for the model: its class and message, without traceback and without folders.

    Of a group, what is in it.

    Examples:
        >>> describe_error(ValueError("no such order"))
        'ValueError: no such order'
        >>> describe_error(OSError("cannot open /home/ana/shop/orders.db"))
        'OSError: cannot open orders.db'
        >>> describe_error(ExceptionGroup("2 tasks", [KeyError("a"), ValueError("404 for /api/v1/orders")]))
        "KeyError: 'a'; ValueError: 404 for /api/v1/orders"
    """
    return join_leaves(error, _describe_one)


def join_leaves(error: BaseException, describe: Callable[[BaseException], str]) -> str:
    """Describe each leaf of an exception, `join_leaves(error, str)`; of many, say how many more there are."""
    leaves = exception_leaves(error)
    texts = [describe(leaf) for leaf in leaves[:_MAX_LEAVES]]
    more = [f"and {len(leaves) - _MAX_LEAVES} more"] if len(leaves) > _MAX_LEAVES else []
    return "; ".join([*dict.fromkeys(texts), *more])


def _describe_one(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # a hostile __str__
        text = ""
    name = type(error).__name__
    text = _PATH.sub(_without_folders, _TRACEBACK.sub("", text))
    return truncate(clean_text(f"{name}: {text}" if text else name), 2_000)


def counted(number: int, what: str) -> str:
    """Write a number with its noun.

    Examples:
        >>> counted(1, "entry"), counted(2_000, "entry")
        ('1 entry', '2,000 entries')
    """
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"
