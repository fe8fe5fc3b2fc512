"""The tools that a reply may mean: their names and their arguments, as models write them."""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import yaml

from ace.react.reading.objects import CUT, MAX_LENIENT, NOTHING, found, is_list, is_object, lenient, strict
from ace.react.reading.words import ANY, plain

_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```", re.M | re.S)
_UNSEEN = re.compile("[\u200b-\u200f\u2060\ufeff]")
_QUOTES = str.maketrans("“”„‟＂：，｛｝", '"""""' + ":,{}")
_NONE = re.compile(r"\W{0,3}(none|null|nothing|empty|n/a|no arguments?( needed| required)?)\W{0,3}", re.I)
_AROUND = frozenset(
    "a action an and by call calling do function i invoke is it let ll me my name named next now run s should step the "  # noqa: SIM905
    "then to tool use using want we will with".split()
)
"""Words beside a tool's name that leave its meaning as it is; any other may turn it around: "I will not call ..."."""


class Tools:
    """What a reader knows of the tools.

    Args:
        schemas: Their names to the JSON Schemas of their arguments.

    Examples:
        >>> tools = Tools({"look_up": {"properties": {"key": {"type": "string"}}}})
        >>> tools.name("functions.lookUp()"), tools.arguments("look_up", {"Key": "a"})
        ('look_up', {'key': 'a'})
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.schemas = schemas

    def has(self, name: Any) -> bool:
        """Whether there is a tool of exactly that name."""
        return isinstance(name, str) and name in self.schemas

    def properties(self, name: Any) -> Mapping[str, Any]:
        """The arguments of a tool, by name; none for an unknown one."""
        return self.schemas[name].get("properties", {}) if self.has(name) else {}

    @cached_property
    def _names(self) -> dict[str, str]:
        """Plain names to real ones, where only one tool has them."""
        alike: dict[str, list[str]] = {}
        for name in self.schemas:
            alike.setdefault(plain(name), []).append(name)
        return {key: names[0] for key, names in alike.items() if len(names) == 1}

    @cached_property
    def pattern(self) -> str:
        """A regular expression for any of the names; for nothing, where there is none."""
        return "|".join(re.escape(name) for name in sorted(self.schemas, key=len, reverse=True)) or "(?!)"

    def name(self, written: Any) -> Any:
        """The tool that is meant: quotes, capitals, a prefix and a remark do not matter.

        Args:
            written: What stands in the name's place; of several lines the first one counts.
        """
        if not isinstance(written, str) or self.has(written):
            return written
        text = _UNSEEN.sub("", unfenced(written))
        line = next((line.strip() for line in text.splitlines() if line.strip()), "")
        bare = line.strip("`'\"*<>.:[]").removesuffix("()").strip()
        if self.has(bare):
            return bare
        short = re.sub(r"^(functions|tools|default_api)\.|:\d+$", "", bare)
        known = self._names.get(plain(bare)) or self._names.get(plain(short))
        if known is not None:
            return known
        inside = dict.fromkeys(re.findall(rf"(?<![\w-])({self.pattern})(?![\w-])", line[:300]))
        if len(inside) != 1 or len(line) > 300:
            return bare
        found = next(iter(inside))
        around = re.findall(r"[^\W_]+", line.replace(found, " ").lower())
        return found if _AROUND.issuperset(around) else bare

    def arguments(self, name: Any, args: Any, *, as_text: bool = False) -> Any:
        """Arguments by the names that the tool gives them.

        Args:
            name: The tool.
            args: What was written: an object, or the text of one.
            as_text: Whether values came as text, because the shape has no other, and become what the schema wants.
        """
        if isinstance(args, str):
            inner = strict(args)
            inner = _literal(args) if inner is NOTHING else inner
            args = args if inner is NOTHING else inner
        properties = self.properties(name)
        args = self._unwrapped(name, args, properties)
        if not is_object(args):
            return args
        folded = {plain(key): key for key in properties}
        given = {
            str(key) if key in properties else folded.get(plain(str(key)), str(key)): value
            for key, value in args.items()
        }
        return {key: typed(value, properties.get(key)) for key, value in given.items()} if as_text else given

    def _unwrapped(self, name: Any, args: Any, properties: Mapping[str, Any]) -> Any:
        """The object that holds the arguments, where something stands around it."""
        if is_list(args):
            pairs = [item for item in args if is_object(item) and item.keys() == {"name", "value"}]
            if args and len(pairs) == len(args):
                return {item["name"]: item["value"] for item in pairs}
            return {} if not args else args[0] if len(args) == 1 and is_object(args[0]) else args
        if not is_object(args) or any(key in properties for key in args):
            return args
        inner = [value for key, value in args.items() if plain(key) in ANY.args or self.name(key) == name]
        rest = [value for key, value in args.items() if plain(key) in ANY.name and self.name(value) == name]
        return inner[0] if len(inner) == 1 and len(inner) + len(rest) == len(args) and is_object(inner[0]) else args

    def body(self, name: Any, text: str, *, followed: bool) -> Any:
        """The arguments that stand under a heading, in any notation.

        Args:
            name: The tool; None while it is not known.
            text: What stands there.
            followed: Whether the reply goes on after it: what ends there was not cut off.

        Returns:
            Their value; `NOTHING` for the layout alone, `CUT` for what does not come to an end.
        """
        text = unfenced(text)
        if not text or placeholder(text):
            return CUT if not followed else NOTHING if text else {}
        value = strict(text)
        if value is not NOTHING:
            bare = isinstance(value, (int, float)) and not followed  # more digits may be missing
            return CUT if bare else {} if value is None else value
        text = html.unescape(text) if "&quot;" in text else text
        item = next(found(text, closed=followed), None)
        if item is not None and item.value is not CUT:
            return CUT if id(item.value) in item.unclosed else item.value
        if not followed or len(text) > MAX_LENIENT:
            return CUT
        return self._noted(name, text)

    def _noted(self, name: Any, text: str) -> Any:
        """Arguments in a notation that is no JSON, of a section that is whole; the text itself where none fits."""
        properties: Mapping[str, Any] = self.properties(name)
        keys = {plain(key) for key in properties}
        for read in (_keywords, _yaml, _loose):
            value = read(text)
            if is_object(value) and value and all(plain(str(key)) in keys for key in value):
                return {key: typed(item, properties.get(key)) for key, item in value.items()}
        return {} if not properties and _NONE.fullmatch(text) else text


def literal_arguments(text: str, order: list[str]) -> dict[str, Any] | None:
    """Arguments of a call as code: literals, by name or in the order of the schema; None for any other code.

    Examples:
        >>> literal_arguments("('a', n=2)", ["key", "n"])
        {'key': 'a', 'n': 2}
    """
    if len(text) > MAX_LENIENT:
        return None
    try:
        node = ast.parse(f"f{text}", mode="eval").body
        if not isinstance(node, ast.Call) or len(node.args) > len(order):
            return None
        values = [ast.literal_eval(value) for value in node.args]
        if len(values) == 1 and is_object(values[0]) and not node.keywords and values[0].keys() <= set(order):
            return values[0]
        args = dict(zip(order, values, strict=False))
        for keyword in node.keywords:
            value = ast.literal_eval(keyword.value)
            args |= {keyword.arg: value} if keyword.arg else value
        return args
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def unfenced(text: str) -> str:
    """What stands in a fence, `unfenced(reply)`; the text itself without one."""
    match = _FENCE.search(text if text.endswith("\n") else f"{text}\n") if "```" in text else None
    return (match[1] if match else text).strip()


def fenced(text: str) -> list[str]:
    """What stands in each fence of a text, `fenced(reply)`."""
    return [match[1] for match in _FENCE.finditer(text)] if "```" in text else []


def placeholder(text: str) -> bool:
    """Whether a text is the layout itself, repeated: `placeholder("{next_tool_name}")`."""
    return len(text) < 80 and re.fullmatch(r"\s*(\{\w+\}|<\w+>|\.\.\.)\s*", text) is not None


def typed(value: Any, schema: Any) -> Any:
    """A text as the value that the schema wants: `typed("2", {"type": "integer"})` is 2."""
    wanted = schema.get("type") if is_object(schema) else None
    if not isinstance(value, str) or wanted == "string":
        return value
    found_value = strict(value.strip())
    if found_value is NOTHING and value.strip() in ("True", "False"):
        return value.strip() == "True"
    return value if found_value is NOTHING else found_value


def _literal(text: str) -> Any:
    """A Python literal that is an object."""
    try:
        value = ast.literal_eval(text.strip()) if len(text) <= MAX_LENIENT else NOTHING
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return NOTHING
    return value if is_object(value) else NOTHING


def _keywords(text: str) -> Any:
    """``key="a", n=2``, on one line or several, in brackets or not."""
    inner = text.strip().removeprefix("dict").strip()
    inner = inner[1:-1] if inner[:1] + inner[-1:] in ("()", "{}") else inner
    return literal_arguments(f"({', '.join(line.rstrip(', ') for line in inner.splitlines() if line.strip())})", [])


def _yaml(text: str) -> Any:
    """Lines of ``key: value``, as a list or not; every value stays text."""
    plain_text = re.sub(r"^[ \t]*[-*][ \t]+(?=[*`]*\w+[*`]*:[ \t])", "", text, flags=re.M)
    plain_text = re.sub(r"^([*`]*)(\w+)\1:[ \t]+`([^`\n]*)`[ \t]*$", r"\2: \3", plain_text, flags=re.M)
    try:
        return yaml.load(plain_text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return NOTHING


def _loose(text: str) -> Any:
    """An object with other quotes, without its brackets, or with one bracket too few."""
    text = re.sub(r"(?<=[:,\[{(])\s*`([^`]*)`", lambda match: json.dumps(match[1]), text.translate(_QUOTES))
    text = text.replace('\\"', '"') if re.match(r'\s*\{\s*\\"', text) else text
    return lenient(text if text.lstrip().startswith("{") else f"{{{text}}}")
