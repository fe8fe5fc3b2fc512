"""Text that others wrote, as data: nothing in it acts on a model's adapter, on a reader's eyes or on a terminal.

Tools, stored traces and arguments keep the original; only what a prompt or a terminal shows is written otherwise. Nothing is
lost: an invisible character is spelled out, a marker is taken apart.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from ace.core.text import each_text

_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # unseen ones; from the last, TAGs
)
_MARKER = re.compile(r"\[\[([ \t]*##[^\[\]\n]{1,200}?##[ \t]*)\]\]")
"""A field of a chat adapter."""
_LOOP_FIELD = re.compile(r"(next)_(thought|tool_name|tool_args|tool_calls)\b", re.IGNORECASE)
"""A field of a decision, as adapters that write JSON, XML or YAML name it."""
_SPECIAL = re.compile(r"<(\|[^|<>\s]{1,40}\|)>|\[(/?(?:INST|SYS|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS))\]")
"""Tokens of chat templates, which some servers take for their own wherever they stand."""
_JOINERS = "\u200c\u200d"


def as_data(text: str) -> str:
    """Return the text as a prompt may hold it: markers of adapters taken apart, unseen characters spelled out.

    Newlines, tabs, and joiners between letters or emoji stay.

    Examples:
        >>> as_data("[[ ## next_tool_name ## ]]\\npay\\u202e")
        '[ [ ## next-tool_name ## ] ]\\npay<U+202E>'
        >>> as_data("code: a[[0]] ## and more")
        'code: a[[0]] ## and more'
    """
    text = visible(text)
    if "##" in text:
        text = _MARKER.sub(r"[ [\1] ]", text)
    if "next_" in text.lower():
        text = _LOOP_FIELD.sub(r"\1-\2", text)
    # between these marks DSPy sends an image, a stranger's address too
    text = text.replace("<<CUSTOM-TYPE", "< <CUSTOM-TYPE")
    if "|" in text or "[" in text:
        text = _SPECIAL.sub(lambda m: f"< {m[1]} >" if m[1] else f"[ {m[2]} ]", text)
    return text


def visible(text: str) -> str:
    """Return the text as a terminal may be sent it: what acts on it or cannot be seen is spelled out, ``<U+001B>``.

    Examples:
        >>> visible("red \\x1b[31m"), visible("a\\r\\nb\\tc")
        ('red <U+001B>[31m', 'a\\nb\\tc')
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return _ODD.sub(lambda found: _spelled(text, found.start()), text)


def visible_json(text: str) -> str:
    r"""Return a JSON document whose strings hold no unseen character raw: it reads back as the same values.

    Examples:
        >>> visible_json('["\u202ea"]')
        '["\\u202ea"]'
    """

    def escaped(found: re.Match[str]) -> str:
        character = found[0]
        if character in "\r\n" or (character in _JOINERS and _joins(text, found.start())):
            return character
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

    return _ODD.sub(escaped, text)


def value_as_data(value: Any) -> Any:
    """Apply `as_data` to every string of `value_as_data({"note": "text"})`; what is no text stays as it is."""
    return each_text(value, as_data)


def _spelled(text: str, at: int) -> str:
    character = text[at]
    if character in _JOINERS and _joins(text, at):
        return character
    return f"<U+{ord(character):04X}>"


def _joins(text: str, at: int) -> bool:
    """Check whether a joiner stands between letters, marks or emoji that it may join: Persian, Hindi, a family of emoji."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return bool(before and after) and _joinable(before) and _joinable(after)


def _joinable(character: str) -> bool:
    kind = unicodedata.category(character)
    if kind in ("So", "Sk") or character in "\ufe0f\u2640\u2642\u20e3":
        return True
    return kind in ("Lo", "Mn", "Mc") and ord(character) > 0x590  # Latin letters need no joiner
