"""State as JSON and back, without loss: values that JSON lacks get a tag, classes that were not declared are refused.

LangGraph's own serialiser turns a set of tuples into a list of lists and an unknown class into a dict without an error.
Here ``decode(encode(value)) == value``, or an error names the place in the state.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import inspect
import ipaddress
import json
import math
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

import numpy
from langchain_core import messages
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot  # pyright: ignore[reportPrivateUsage] - savers have to know it
from langgraph.types import Interrupt, Overwrite, Send
from pydantic import BaseModel, Secret, SecretBytes, SecretStr, networks

from ace.graph.errors import CheckpointError

_PLAIN: frozenset[type] = frozenset({type(None), bool, int, str})


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


# type -> (tag, to JSON, from JSON)
_TAGGED: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    bytes: ("$bytes", lambda v: _base64(v), lambda v: _bytes(v)),
    dt.date: ("$date", lambda v: v.isoformat(), dt.date.fromisoformat),
    uuid.UUID: ("$uuid", str, uuid.UUID),
    decimal.Decimal: ("$decimal", str, decimal.Decimal),
    SecretStr: ("$secret", SecretStr.get_secret_value, SecretStr),
    SecretBytes: ("$SecretBytes", lambda v: _base64(v.get_secret_value()), lambda v: SecretBytes(_bytes(v))),
    fractions.Fraction: ("$Fraction", str, fractions.Fraction),
    complex: ("$complex", str, complex),
    dt.timedelta: ("$timedelta", lambda v: [v.days, v.seconds, v.microseconds], lambda v: dt.timedelta(*v)),
    float: ("$float", repr, float),  # infinite, or no number
}
_URLS = (getattr(networks, name) for name in networks.__all__)
_TEXTS: Iterable[type] = (
    *(url for url in _URLS if isinstance(url, type) and (hasattr(url, "host") or hasattr(url, "hosts"))),
    *(getattr(ipaddress, f"IPv{n}{what}") for n in (4, 6) for what in ("Address", "Network", "Interface")),
    *(pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath),
)
_TAGGED.update((kind, (f"${kind.__name__}", str, kind)) for kind in _TEXTS)
_LANGGRAPH = JsonPlusSerializer(allowed_msgpack_modules=None)
"""LangGraph's own, which builds nothing but what it calls safe."""
_UNTAGGED: dict[str, Callable[[Any], Any]] = {
    **{tag: read for tag, _, read in _TAGGED.values()},
    "$error": lambda saved: StoredError(": ".join(saved)),
    "$langgraph": lambda saved: _from_langgraph(*saved),
}


def _from_langgraph(kind: str, data: str, name: str) -> Any:
    """Read what `_as_langgraph` saved; LangGraph's JSON is never written here, and reading it would import what it names."""
    if kind not in ("msgpack", "bytearray"):
        raise CheckpointError(f"a saved value is of LangGraph's kind {kind!r}, which is not read")
    made = _LANGGRAPH.loads_typed((kind, _bytes(data)))
    if name_of(cast("type[Any]", type(made))) != name:  # it gives the bare content of what it does not build
        raise CheckpointError("a saved value is of a class that LangGraph does not build")
    return made


_GRAPH: dict[type, tuple[str, ...]] = {
    Send: ("node", "arg", "timeout"),
    Interrupt: ("value", "id", "response_schema"),
    Overwrite: ("value",),
    _DeltaSnapshot: ("value",),
}
"""LangGraph's own types, which occur in pending writes, and their fields."""
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset, bytearray, dt.datetime, dt.time, dt.timezone})
_DICTS: dict[str, Any] = {
    f"${kind.__name__}": kind for kind in (collections.Counter, collections.OrderedDict, collections.defaultdict)
}
_DEFAULTS: dict[str, Any] = {kind.__name__: kind for kind in (int, float, str, list, dict, set, type(None))}
"""What makes the values that a `defaultdict` lacks; by any other function it is no data."""
_OTHERS: frozenset[Any] = frozenset({collections.deque, re.Pattern, types.UnionType, typing.Any, ZoneInfo})
"""What LangGraph's serialiser keeps, beside numpy's arrays, and annotations that are classes themselves."""
_GRAPH_TYPES = {f"${kind.__name__}": kind for kind in _GRAPH}

_NAMED = (getattr(messages, name) for name in messages.__all__)
_MESSAGES = tuple(found for found in _NAMED if isinstance(found, type) and issubclass(found, messages.BaseMessage))
"""LangChain's messages; an annotation such as ``list[BaseMessage]`` does not name them all."""

to_text: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""JSON without spaces; made once, since `json.dumps` makes a new encoder at each call with these options."""


class StoredError(Exception):
    """An exception that was saved: its class's name and its text; the object itself is not JSON."""


class JsonCodec:
    """A LangGraph serialiser that writes JSON only.

    `ace.graph.compile` declares the classes that the state's annotations name; others are declared here, and LangChain's
    messages are known. It serves `JsonlCheckpointer`, and LangGraph's savers as ``serde=JsonCodec()``.

    Args:
        classes: Pydantic models, dataclasses, named tuples and enums that the state may hold.

    Examples:
        >>> codec = JsonCodec()
        >>> codec.decode(codec.encode({"when": (1, 2), 3: b"x"}))
        {'when': (1, 2), 3: b'x'}
        >>> codec.encode({"steps": [object()]})
        Traceback (most recent call last):
        ...
        ace.graph.errors.CheckpointError: state.steps[0] is a builtins:object, which is no JSON and was not declared; ...
    """

    def __init__(self, classes: Iterable[type] = ()) -> None:
        self._classes: dict[str, type] = {}
        self.declare([*_MESSAGES, *classes])

    def declare(self, classes: Iterable[type]) -> None:
        """Allow the state to hold these classes."""
        self._classes |= {name_of(found): found for found in classes}

    # -- LangGraph's protocol --------------------------------------------------------------------------------------------

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """See `langgraph.checkpoint.serde.base.SerializerProtocol`."""
        return "json", to_text(self.encode(obj)).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """See `langgraph.checkpoint.serde.base.SerializerProtocol`.

        Raises:
            CheckpointError: It was not written by this codec, or names a class that was not declared.
        """
        kind, payload = data
        if kind != "json":
            raise CheckpointError(
                f"a saved value is of the kind {kind!r}, expected 'json'; read it with its own serialiser"
            )
        try:
            read = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"a saved value cannot be read: {str(error)[:300]}") from error
        return self.decode(read)

    # -- values ------------------------------------------------------------------------------------------------------------

    def encode(self, value: Any, place: str = "state") -> Any:
        """Convert a value to JSON; `place` is its path in the state, for error messages.

        Raises:
            CheckpointError: A value cannot come back: its class was not declared; the message names the place.
        """
        if isinstance(value, BaseException):  # the error of a failed task; never part of a state
            return {"$error": [type(value).__name__, str(value)]}
        try:
            return self._encode(value, place)
        except RecursionError as error:
            raise CheckpointError("the state is nested too deeply to be saved") from error

    def _encode(self, value: Any, place: str) -> Any:
        kind = cast("type[Any]", type(value))
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            return value
        if kind in (list, tuple):
            items = [v if type(v) in _PLAIN else self._encode(v, f"{place}[{i}]") for i, v in enumerate(value)]
            return items if kind is list else {"$tuple": items}
        if kind is dict:
            return self._encode_dict(value, place)
        if kind in (set, frozenset):
            items = [self._encode(item, f"{place}{{}}") for item in value]
            # what most sets hold, the names of a model's fields, sorts by itself at a fifth of the time
            return {f"${kind.__name__}": sorted(items, key=None if {*map(type, items)} <= {str} else json.dumps)}
        if kind in (dt.datetime, dt.time):
            return self._encode_time(value, place)
        if kind in _TAGGED:
            tag, write, _ = _TAGGED[kind]
            return {tag: write(value)}
        return self._encode_rare(value, kind, place)

    def _encode_rare(self, value: Any, kind: type[Any], place: str) -> Any:
        if kind in _GRAPH:
            found = {name: getattr(value, name) for name in _GRAPH[kind]}
            fields = {name: one for name, one in found.items() if one is not None or name == "value"}
            return {f"${kind.__name__}": self._encode_dict(fields, place)}
        if kind in _DICTS.values():
            made_by = _default_of(value, place) if kind is collections.defaultdict else None
            return {f"${kind.__name__}": [self._pairs(value, place), made_by]}
        if isinstance(value, numpy.generic):
            return {"$numpy": self._encode(numpy.asarray(cast(Any, value)), place)}
        generic: Any = getattr(kind, "__pydantic_generic_metadata__", {}).get("origin")  # of `Box[int]`: `Box`
        for declared in (kind, generic):
            if declared is not None and self._classes.get(name_of(declared)) is declared:
                return self._encode_declared(value, declared, place)
        return _as_langgraph(value, place)

    def _encode_dict(self, value: dict[Any, Any], place: str) -> Any:
        if {*map(type, value)} <= {str} and not (len(value) == 1 and next(iter(value)).startswith("$")):
            # most values are plain: neither a call nor the name of their place
            return {k: v if type(v) in _PLAIN else self._encode(v, f"{place}.{k}") for k, v in value.items()}
        return {"$dict": self._pairs(value, place)}

    def _pairs(self, value: dict[Any, Any], place: str) -> list[Any]:
        return [[self._encode(k, f"{place} (a key)"), self._encode(v, f"{place}.{k}")] for k, v in value.items()]

    def _encode_time(self, value: dt.datetime | dt.time, place: str) -> Any:
        """Save a `ZoneInfo` by its name, as its offset changes with the season; other zones by their offset."""
        zone = value.tzinfo
        key = zone.key if isinstance(zone, ZoneInfo) else None
        if zone is not None and key is None and value.utcoffset() is None:
            raise CheckpointError(f"{place} has a time zone of no name and no offset; use `zoneinfo.ZoneInfo`")
        shown = value.replace(tzinfo=None) if key is not None else value
        return {f"${type(value).__name__}": [shown.isoformat(), key, value.fold]}

    def _encode_declared(self, value: Any, kind: Any, place: str) -> Any:
        if isinstance(value, enum.Enum):
            return {"$enum": [name_of(kind), self._encode(value.value, f"{place}.value")]}
        if isinstance(value, BaseModel):
            # what pydantic itself keeps of a model: fields, extra ones, private ones, and which fields were set
            state = value.__getstate__()
            held = state["__dict__"]
            if lacking := kind.model_fields.keys() - held.keys():
                raise CheckpointError(f"{place} is a {name_of(kind)} without its fields {sorted(lacking)}; set them")
            if len(held) > len(kind.model_fields):  # what a `cached_property` left is made again
                state["__dict__"] = {name: held[name] for name in kind.model_fields}
            return {"$model": [name_of(kind), self._encode(state, place)]}
        if isinstance(value, tuple):
            return {"$namedtuple": [name_of(kind), self._encode(cast(Any, value)._asdict(), place)]}
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if hasattr(value, one.name)}
        return {"$dataclass": [name_of(kind), self._encode(fields, place)]}

    def decode(self, value: Any) -> Any:
        """Return the value that `encode` turned into JSON.

        Raises:
            CheckpointError: A class was not declared, or does not take the saved fields any more.
        """
        try:
            return self._decode(value)
        except RecursionError as error:
            raise CheckpointError("the saved state is nested too deeply to be read") from error
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError) as error:
            raise CheckpointError(f"a saved value cannot be read: {str(error)[:300]}") from error

    def _decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decode(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        given = cast("dict[str, Any]", value)
        tag = next(iter(given)) if len(given) == 1 else ""
        if not tag.startswith("$"):
            return {key: self._decode(item) for key, item in given.items()}
        return self._decode_tagged(tag, given[tag])

    def _decode_tagged(self, tag: str, inner: Any) -> Any:
        if tag in _UNTAGGED:
            return _UNTAGGED[tag](inner)
        if tag in _GRAPH_TYPES:
            return _GRAPH_TYPES[tag](**self._decode(inner))
        match tag:
            case "$tuple" | "$set" | "$frozenset":
                return {"$tuple": tuple, "$set": set, "$frozenset": frozenset}[tag](self._decode(inner))
            case "$dict":
                return self._dict(inner)
            case "$Counter" | "$OrderedDict":
                return _DICTS[tag](self._dict(inner[0]))
            case "$defaultdict":
                return collections.defaultdict(_DEFAULTS[inner[1]] if inner[1] else None, self._dict(inner[0]))
            case "$numpy":
                return self._decode(inner)[()]
            case "$datetime" | "$time":
                text, key, fold = inner
                time = (dt.datetime if tag == "$datetime" else dt.time).fromisoformat(text).replace(fold=fold)
                return time if key is None else time.replace(tzinfo=ZoneInfo(key))
            case "$enum" | "$model" | "$namedtuple" | "$dataclass":
                return _made(tag, self._declared(inner[0]), self._decode(inner[1]))
            case _:
                raise CheckpointError(f"a saved value has the unknown tag {tag!r}; it was written by a newer version")

    def _dict(self, pairs: Any) -> dict[Any, Any]:
        return {self._decode(key): self._decode(item) for key, item in pairs}

    def _declared(self, name: str) -> type:
        found = self._classes.get(name)
        if found is None:
            raise CheckpointError(
                f"a saved value is a {name!r}, which was not declared; it is never imported by its name: pass "
                "classes=[...], or annotate the state with it"
            )
        return found


def _as_langgraph(value: Any, place: str) -> Any:
    """Convert what LangGraph's serialiser keeps, in its form: arrays, patterns, deques; kinds of text or number as these.

    Raises:
        CheckpointError: It does not keep it.
    """
    kind = cast("type[Any]", type(value))
    if not can_be_declared(kind):
        with suppress(Exception):  # an error of its encoder, or of the value's own
            saved = _LANGGRAPH.dumps_typed(value)
            back: Any = _LANGGRAPH.loads_typed(saved)
            same = (back == value) is not False and _LANGGRAPH.dumps_typed(back) == saved  # arrays give arrays for ==
            plain = isinstance(value, (str, bytes, int, float)) and not getattr(value, "__dict__", None)
            if same and (type(back) is kind or (plain and type(back) in kind.__mro__)):
                return {"$langgraph": [saved[0], _base64(saved[1]), name_of(cast("type[Any]", type(back)))]}
    raise CheckpointError(
        f"{place} is a {name_of(kind)}, which is no JSON and was not declared; annotate the state's field with its class (a "
        "pydantic model, a dataclass, a named tuple or an enum), pass compile(classes=[...]), or store plain values"
    )


def _default_of(value: Any, place: str) -> str | None:
    """Return the name of what makes a `defaultdict`'s missing values."""
    made_by = value.default_factory
    if made_by is not None and made_by not in _DEFAULTS.values():
        raise CheckpointError(f"{place} makes its missing values by {made_by!r:.100}, expected one of {[*_DEFAULTS]}")
    return None if made_by is None else made_by.__name__


def _made(tag: str, found: Any, saved: Any) -> Any:
    """Make a value of a declared class as it was saved: validators do not run."""
    match tag:
        case "$enum":
            if not issubclass(found, enum.Enum):
                raise TypeError(f"{found!r} is no enum")
            return found(saved)
        case "$model":
            _check(found, saved["__dict__"], found.model_fields)
            made = found.__new__(found)
            made.__setstate__(saved)
            return made
        case "$namedtuple":
            _check(found, saved, found._fields)
            return found(**saved)
        case _:
            parts = dataclasses.fields(found)
            _check(found, saved, [part.name for part in parts if part.init or part.name in saved])
            made = object.__new__(found)
            for field, value in saved.items():
                object.__setattr__(made, field, value)
            return made


def _check(found: type, fields: Collection[str], known: Collection[str]) -> None:
    """Refuse fields that the class does not have as it is now; their values may be any, as they may be in the class."""
    if {*fields} != {*known}:
        raise CheckpointError(
            f"a saved {name_of(found)} does not fit the class as it is now: it had {sorted(fields)}, the class has "
            f"{sorted(known)}"
        )


def name_of(found: type) -> str:
    """Return the name of a class in a saved file: module and qualified name."""
    return f"{found.__module__}:{found.__qualname__}"


def classes_in(*annotations: Any) -> set[type]:
    """Find the models, dataclasses, named tuples and enums that annotations name, at any depth.

    Examples:
        >>> from ace.tasks import ReasoningStep
        >>> sorted(found.__name__ for found in classes_in(list[ReasoningStep] | None))
        ['ReasoningStep', 'StepError']
    """
    return {one for one in _walk(annotations) if isinstance(one, type) and can_be_declared(one)}


def first_unsaved(annotation: Any) -> type | None:
    """Find a class inside an annotation whose values cannot be saved.

    Examples:
        >>> import socket
        >>> first_unsaved(list[socket.socket] | None).__name__, first_unsaved(dict[str, int])
        ('socket', None)
    """
    return next((one for one in _walk([annotation]) if isinstance(one, type) and not _is_saved(one)), None)


def _is_saved(one: type) -> bool:
    """Check whether values of a class may be saved: its own are, or those of classes below it."""
    plain = (*_PLAIN, *_TAGGED, *_GRAPH, *_CONTAINERS, *_DICTS.values())
    known = can_be_declared(one) or any(one in kind.__mro__ for kind in plain)
    abstract = inspect.isabstract(one) or getattr(one, "_is_protocol", False) or hasattr(one, "__total__")
    # pydantic's own stand for plain values: `AwareDatetime`, `ByteSize`, `Json`
    pydantics = one.__module__.partition(".")[0] == "pydantic" and not issubclass(one, Secret)
    return known or abstract or pydantics or one in _OTHERS or one.__module__ == "numpy"


def _walk(annotations: Iterable[Any]) -> Iterator[Any]:
    """Yield everything inside annotations."""
    seen, waiting = list[Any](), [*annotations]
    while waiting:
        one = waiting.pop()
        if not any(one is other for other in seen):
            seen.append(one)
            waiting += _inside(one)
            yield one


def can_be_declared(one: type[Any]) -> bool:
    """Check whether a class is a model, a dataclass, a named tuple or an enum."""
    return issubclass(one, (BaseModel, enum.Enum)) or dataclasses.is_dataclass(one) or hasattr(one, "_fields")


def _inside(one: Any) -> Collection[Any]:
    """Return the annotations inside an annotation."""
    if hasattr(one, "__value__"):  # `type X = ...`
        return (one.__value__,)
    if (origin := typing.get_origin(one)) is not None:
        if origin in (Literal, Annotated):
            return typing.get_args(one)[:1] if origin is Annotated else ()
        return (*typing.get_args(one), *((origin,) if isinstance(origin, type) else ()))
    return fields_of(one).values()


def fields_of(one: Any) -> Mapping[str, Any]:
    """Return the fields of a model, a dataclass, a named tuple or a `TypedDict`, with their annotations; of others none."""
    if isinstance(one, type) and issubclass(one, BaseModel):
        return {name: field.annotation for name, field in one.model_fields.items()}
    if isinstance(one, type) and (can_be_declared(one) or hasattr(one, "__total__")):
        with suppress(NameError):  # an annotation that only a type checker can resolve
            return typing.get_type_hints(one, include_extras=True)
    return {}
