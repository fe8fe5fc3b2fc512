"""What is known of tools, words and masks when a run is mined."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, cast

from ace.core.language import FUNCTION_WORDS, FUNCTION_WORDS_ELSEWHERE, common_words
from ace.playbook.masking import PERSONAL, WORD, Kind, Masker, PatternMasker
from ace.reflector.values import name_words


@dataclass
class Knowledge:
    """What is known of tools, words and masks when a run is mined.

    Args:
        schemas: Tool name to ``{"description": ..., "parameters": JSON Schema, "returns": JSON Schema}``.
        masker: Finds what is personal.
        private: Names of arguments whose values are never shown.
    """

    schemas: Mapping[str, Any] = field(default_factory=dict[str, Any])
    masker: Masker = field(default_factory=PatternMasker)
    private: Collection[str] = ()

    def __post_init__(self) -> None:
        self.words = frozenset(word for name, schema in self.schemas.items() for word in _words(name, schema))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The names of arguments, and of fields of answers, in the tools' schemas."""
        return frozenset(chain.from_iterable(map(_properties, self.schemas.values())))

    def knows(self, word: str) -> bool:
        """Whether a word in lower case is a common one, or one of the tools'."""
        return word in self.words or word in common_words() or word in FUNCTION_WORDS_ELSEWHERE

    def names(self, tool: str, argument: str, value: Any) -> bool:
        """Whether the tool's schema names a value: one of a list, true or false, its default, a word of its description."""
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return bool(items) and all(isinstance(i, str) and self.names(tool, f"{argument}[]", i) for i in items)
        schema = self.schemas.get(tool, {})
        parameters = schema.get("parameters", {})
        spec = _spec(parameters, argument)
        if any(value == known for known in _named(spec, parameters.get("$defs", {}))):
            return True
        return isinstance(value, str) and value.isalpha() and value.islower() and value in _words(tool, schema)

    def trusts(self, tool: str) -> bool:
        """Whether a tool's answers are the program's own words, and not a stranger's."""
        return bool(self.schemas.get(tool, {}).get("trusted"))

    def asks_for_a_change(self, request: str) -> bool:
        """Whether a request says the verb of a tool that changes something: "cancel" of ``cancel_order``."""
        verbs = {name_words(name)[0] for name, schema in self.schemas.items() if not schema.get("read_only")}
        reads = {word for name, schema in self.schemas.items() if schema.get("read_only") for word in name_words(name)}
        return not (verbs - reads - FUNCTION_WORDS).isdisjoint(WORD.findall(request.lower()))

    def masks(self, text: str) -> bool:
        """Whether a value is personal or a date; that a sentence begins with a capital makes no name of a word."""
        first, _, rest = text.partition(" ")
        sentence = rest and first.lower() in common_words()
        spans = self.masker.spans(f"to {first.lower()} {rest}" if sentence else f"to {text}")
        return any(
            span.kind in PERSONAL or span.kind in ("date", "time") for span in spans
        )  # today is another day soon

    def hides(self, argument: str) -> bool:
        """Whether an argument, or what it is a part of, was declared private."""
        return not set(self.private).isdisjoint(argument.replace("[]", "").split("."))

    def kind(self, text: str, argument: str = "") -> Kind:
        """The kind of a whole value."""
        if self.hides(argument):
            return "account"
        spans = self.masker.spans(f"to {text}")
        for span in spans:
            if span.start <= 3 and span.end >= len(text) + 3:
                return span.kind
        return "text"


def _words(name: str, schema: Any) -> frozenset[str]:
    said = [schema.get("description"), schema.get("parameters")]
    return _schema_words(name, json.dumps(said, sort_keys=True, default=str))


@lru_cache(maxsize=1_024)
def _schema_words(name: str, schema: str) -> frozenset[str]:
    """The words of a tool's name, its arguments and its description; not those that only begin with a capital."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", f"{name} {schema}".replace("_", " "))
    return frozenset(word for word in re.findall(r"[^\W\d_]+", text) if word.islower() or len(word) < 2)


def _properties(schema: Any) -> Iterator[str]:
    """The names of all properties in a JSON Schema, however deep."""
    if isinstance(schema, Mapping):
        known = cast("Mapping[str, Any]", schema)
        named = known.get("properties")
        yield from cast("Mapping[str, Any]", named) if isinstance(named, Mapping) else ()
        for part in known.values():
            yield from _properties(part)
    elif isinstance(schema, list):
        for part in cast("list[Any]", schema):
            yield from _properties(part)


def _spec(parameters: Any, argument: str) -> Any:
    """The part of a JSON Schema that is about an argument, ``items[].sku``."""
    spec, defs = parameters, parameters.get("$defs", {})
    for part in argument.replace("[]", ".[]").split("."):
        name = "items" if part == "[]" else "properties"
        found: Any = next((choice[name] for choice in _choices(spec, defs) if name in choice), dict[str, Any]())
        spec = found if part == "[]" else found.get(part, {})
    return spec


def _choices(spec: Any, defs: Any) -> Iterator[dict[str, Any]]:
    """A schema, and those that it refers to or offers."""
    if not isinstance(spec, dict):
        return
    known = cast("dict[str, Any]", spec)
    yield known
    if "$ref" in known:
        yield from _choices(defs.get(str(known["$ref"]).rpartition("/")[2]), defs)
    for name in ("anyOf", "oneOf", "allOf"):
        for other in known.get(name, ()):
            yield from _choices(other, defs)


def _named(spec: Any, defs: Any) -> Iterator[Any]:
    """The values that a schema lists, and the default."""
    for known in _choices(spec, defs):
        yield from known.get("enum", ())
        yield from (known[name] for name in ("const", "default") if name in known)
