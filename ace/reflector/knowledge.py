"""What is known of tools, words and masks when a run is mined."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, cast

import numpy as np

from ace.core import PlaybookError
from ace.core.language import FUNCTION_WORDS, FUNCTION_WORDS_ELSEWHERE, common_words, name_as_text
from ace.playbook.index.minilm import Embedder, embedded
from ace.playbook.masking import PERSONAL, WORD, Kind, Masker, PatternMasker
from ace.reflector.values import name_words

MAX_REQUEST, MAX_SENTENCE, MAX_DESCRIPTION, MAX_PARTS = 8_000, 1_000, 300, 40
"""Characters of a request, of its beginning and of a description that are compared, and sentences of a request."""
_CLAUSE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+|,? and (?:then )?")


@dataclass
class Knowledge:
    """What is known of tools, words and masks when a run is mined.

    Args:
        schemas: Tool name to ``{"description": ..., "parameters": JSON Schema, "returns": JSON Schema}``.
        masker: Finds what is personal.
        private: Names of arguments whose values are never shown.
        embedder: Compares a request with the tools; None compares their words alone.
        run: The run that is read, by its id.
        seconds: Of CPU time, in which it has to be read.
    """

    schemas: Mapping[str, Any] = field(default_factory=dict[str, Any])
    masker: Masker = field(default_factory=PatternMasker)
    private: Collection[str] = ()
    embedder: Embedder | None = None
    run: str = ""
    seconds: float = math.inf

    def __post_init__(self) -> None:
        self._until = time.thread_time() + self.seconds
        self.words = frozenset(word for name, schema in self.schemas.items() for word in _words(name, schema))

    def in_time(self) -> None:
        """Raise `PlaybookError` when the run has taken too long."""
        if time.thread_time() > self._until:
            raise PlaybookError(
                f"run {self.run!r} took more than {self.seconds:g} s of CPU time to learn from, so nothing was learned; "
                "give it more time with Reflector(seconds=...)",
                out_of_reach=True,
                seconds=self.seconds,
            )

    @cached_property
    def keys(self) -> frozenset[str]:
        """The names of arguments, and of fields of answers, in the tools' schemas."""
        return frozenset(chain.from_iterable(map(_properties, self.schemas.values())))

    @cached_property
    def changing(self) -> tuple[str, ...]:
        """The tools that change something."""
        return tuple(name for name, schema in self.schemas.items() if not schema.get("read_only"))

    def knows(self, word: str) -> bool:
        """Check whether a word in lower case is a common one, or one of the tools'."""
        return word in self.words or word in common_words() or word in FUNCTION_WORDS_ELSEWHERE

    def names(self, tool: str, argument: str, value: Any) -> bool:
        """Check whether the tool's schema names a value: one of a list, true or false, its default, a word of its
        description."""
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
        """Check whether a tool's answers are the program's own words, and not a stranger's."""
        return bool(self.schemas.get(tool, {}).get("trusted"))

    def described(self, tool: str) -> str:
        """Describe a tool in words: its name and its description."""
        said = str(self.schemas.get(tool, {}).get("description") or "")[:MAX_DESCRIPTION]
        return ": ".join(filter(None, (name_as_text(tool).lower(), said)))

    def near(self, request: str, tool: str) -> bool:
        """Check whether a sentence of a request means what a tool is called and described as.

        What is near enough is measured once for each embedder; a request in a language unknown to it is near nothing.
        """
        if self.embedder is None:
            return False
        named, *asked = embedded(self.embedder, [self.described(tool), *parts_of(request)])
        return max(float(named @ one) for one in asked) > _far(self.embedder)

    def asks_for_a_change(self, request: str) -> bool:
        """Check whether a request says the verb of a tool that changes something: "cancel" of ``cancel_order``."""
        verbs = {name_words(name)[0] for name, schema in self.schemas.items() if not schema.get("read_only")}
        reads = {word for name, schema in self.schemas.items() if schema.get("read_only") for word in name_words(name)}
        return not (verbs - reads - FUNCTION_WORDS).isdisjoint(WORD.findall(request.lower()))

    def masks(self, text: str) -> bool:
        """Check whether a value is personal or a date; that a sentence begins with a capital makes no name of a word."""
        first, _, rest = text.partition(" ")
        sentence = rest and first.lower() in common_words()
        spans = self.masker.spans(f"to {first.lower()} {rest}" if sentence else f"to {text}")
        # today is another day soon
        return any(span.kind in PERSONAL or span.kind in ("date", "time") for span in spans)

    def hides(self, argument: str) -> bool:
        """Check whether an argument, or what it is a part of, was declared private."""
        return not set(self.private).isdisjoint(argument.replace("[]", "").split("."))

    def kind(self, text: str, argument: str = "") -> Kind:
        """Return the kind of a whole value."""
        if self.hides(argument):
            return "account"
        spans = self.masker.spans(f"to {text}")
        for span in spans:
            if span.start <= 3 and span.end >= len(text) + 3:
                return span.kind
        return "text"


_REQUESTS = {
    "Pay the rent of March to my landlord.": "send payment: Send money to an account.",
    "Write to Ana that the meeting is moved.": "send mail: Send an e-mail.",
    "Book a table for two on Friday.": "create reservation: Reserve a table.",
    "Take the customer's order back and return the money.": "refund order: Pay an order back.",
    "Restart the web server, it hangs.": "restart service: Restart a service.",
    "Put a lunch with Ben into my calendar.": "create event: Put an event into the calendar.",
    "Delete the old draft.": "delete file: Delete a file.",
    "Give the support case to Mia.": "assign ticket: Hand a ticket to a colleague.",
    "Lock the front door.": "lock door: Lock a door.",
    "Change where the parcel goes.": "change address: Change where an order is delivered.",
    "Invite Tom to the workspace.": "invite member: Invite somebody to the workspace.",
    "Raise the temperature in the hall.": "set thermostat: Set the temperature of a room.",
}
"""Requests, each with a tool that it asks for; what the tools of the others have in common with it is chance."""
_FAR: dict[str, float] = {}


def _far(embedder: Embedder) -> float:
    """Return the cosine that one of 25 tools reaches with a request that does not ask for it: 0.35 with MiniLM."""
    if embedder.name not in _FAR:
        requests, tools = np.split(embedded(embedder, [*_REQUESTS, *_REQUESTS.values()]), 2)
        _FAR[embedder.name] = float(np.quantile((requests @ tools.T)[~np.eye(len(tools), dtype=bool)], 0.96))
    return _FAR[embedder.name]


def parts_of(request: str) -> list[str]:
    """Split a request into its sentences and clauses, and add the whole of it."""
    parts = _CLAUSE.split(request[:MAX_REQUEST])
    return [*(part for part in parts if len(part) > 3), request[:MAX_SENTENCE]][-MAX_PARTS:]


def _words(name: str, schema: Any) -> frozenset[str]:
    said = [schema.get("description"), schema.get("parameters")]
    return _schema_words(name, json.dumps(said, sort_keys=True, default=str))


@lru_cache(maxsize=1_024)
def _schema_words(name: str, schema: str) -> frozenset[str]:
    """Return the words of a tool's name, its arguments and its description; not those that only begin with a capital."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", f"{name} {schema}".replace("_", " "))
    return frozenset(word for word in re.findall(r"[^\W\d_]+", text) if word.islower() or len(word) < 2)


def _properties(schema: Any) -> Iterator[str]:
    """Yield the names of all properties in a JSON Schema, however deep."""
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
    """Return the part of a JSON Schema that is about an argument, ``items[].sku``."""
    spec, defs = parameters, parameters.get("$defs", {})
    for part in argument.replace("[]", ".[]").split("."):
        name = "items" if part == "[]" else "properties"
        found: Any = next((choice[name] for choice in _choices(spec, defs) if name in choice), dict[str, Any]())
        spec = found if part == "[]" else found.get(part, {})
    return spec


def _choices(spec: Any, defs: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema, and those that it refers to or offers."""
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
    """Yield the values that a schema lists, and the default."""
    for known in _choices(spec, defs):
        yield from known.get("enum", ())
        yield from (known[name] for name in ("const", "default") if name in known)
