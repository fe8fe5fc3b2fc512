"""State as JSON and back, without loss: values that JSON lacks get a tag, classes that were not declared are refused.

LangGraph's own serialiser turns a set of tuples into a list of lists and an unknown class into a dict without an error.
Here ``decode(encode(value)) == value``, or an error names the place in the state.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import json
import math
import pathlib
import typing
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo

from langchain_core import messages
from langgraph.checkpoint.serde.types import _DeltaSnapshot  # pyright: ignore[reportPrivateUsage] - savers have to know it
from langgraph.types import Interrupt, Overwrite, Send
from pydantic import BaseModel, PydanticUserError, SecretStr, TypeAdapter, networks

from ace.graph.errors import CheckpointError

_PLAIN: frozenset[type] = frozenset({type(None), bool, int, str})

# type -> (tag, to JSON, from JSON)
_TAGGED: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    bytes: ("$bytes", lambda v: base64.b64encode(v).decode(), lambda v: base64.b64decode(v, validate=True)),
    dt.date: ("$date", lambda v: v.isoformat(), dt.date.fromisoformat),
    uuid.UUID: ("$uuid", str, uuid.UUID),
    decimal.Decimal: ("$decimal", str, decimal.Decimal),
    SecretStr: ("$secret", SecretStr.get_secret_value, SecretStr),
    dt.timedelta: ("$timedelta", lambda v: [v.days, v.seconds, v.microseconds], lambda v: dt.timedelta(*v)),
}
_URLS = (getattr(networks, name) for name in networks.__all__)
_TEXTS: Iterable[type] = (
    *(url for url in _URLS if isinstance(url, type) and (hasattr(url, "host") or hasattr(url, "hosts"))),
    *(getattr(ipaddress, f"IPv{n}{what}") for n in (4, 6) for what in ("Address", "Network", "Interface")),
    *(pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath),
)
_TAGGED.update((kind, (f"${kind.__name__}", str, kind)) for kind in _TEXTS)
_UNTAGGED = {tag: read for tag, _, read in _TAGGED.values()}


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
        for found in classes:
            self._classes[name_of(found)] = found

    # -- LangGraph's protocol --------------------------------------------------------------------------------------------

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """See `langgraph.checkpoint.serde.base.SerializerProtocol`."""
        return "json", self.dumps(obj).encode()

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
        return self.loads(payload)

    def dumps(self, value: Any, place: str = "state") -> str:
        """`encode` as text."""
        try:
            return to_text(self.encode(value, place))
        except RecursionError as error:
            raise CheckpointError("the state is nested too deeply to be saved") from error

    def loads(self, text: str | bytes) -> Any:
        """What `dumps` wrote."""
        try:
            return self.decode(json.loads(text))
        except RecursionError as error:
            raise CheckpointError("the saved state is nested too deeply to be read") from error
        except (ValueError, TypeError, KeyError, ArithmeticError, NotImplementedError) as error:
            raise CheckpointError(f"a saved value cannot be read: {str(error)[:300]}") from error

    # -- values ------------------------------------------------------------------------------------------------------------

    def encode(self, value: Any, place: str = "state") -> Any:
        """A value as JSON; `place` is its path in the state, for error messages.

        Raises:
            CheckpointError: A value is no JSON and its class was not declared; the message names the place.
        """
        if isinstance(value, BaseException):  # the error of a failed task; never part of a state
            return {"$error": [type(value).__name__, str(value)]}
        return self._encode(value, place)

    def _encode(self, value: Any, place: str) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind in (list, tuple):
            items = [self._encode(item, f"{place}[{i}]") for i, item in enumerate(value)]
            return items if kind is list else {"$tuple": items}
        if kind is dict:
            return self._encode_dict(value, place)
        if kind in (set, frozenset):
            items = [self._encode(item, f"{place}{{}}") for item in value]
            return {f"${kind.__name__}": sorted(items, key=json.dumps)}
        if kind in (dt.datetime, dt.time):
            return self._encode_time(value, place)
        if kind in _TAGGED:
            tag, write, _ = _TAGGED[kind]
            return {tag: write(value)}
        if kind in (Send, Interrupt, Overwrite, _DeltaSnapshot):
            return self._encode_graph(value, place)
        if self._classes.get(name_of(kind)) is kind:
            return self._encode_declared(value, kind, place)
        raise CheckpointError(
            f"{place} is a {name_of(kind)}, which is no JSON and was not declared; annotate the state's field with its "
            "class (a pydantic model, a dataclass, a named tuple or an enum), pass compile(classes=[...]), "
            "or store plain values"
        )

    def _encode_dict(self, value: dict[Any, Any], place: str) -> Any:
        if all(type(key) is str for key in value) and not (len(value) == 1 and next(iter(value)).startswith("$")):
            return {key: self._encode(item, f"{place}.{key}") for key, item in value.items()}
        pairs = [[self._encode(k, f"{place} (a key)"), self._encode(v, f"{place}.{k}")] for k, v in value.items()]
        return {"$dict": pairs}

    def _encode_graph(self, value: Any, place: str) -> Any:
        """LangGraph's own types, which occur in pending writes."""
        if isinstance(value, Send):
            if value.timeout is not None:
                raise CheckpointError(f"{place}: a Send with a timeout cannot be saved; set the timeout on the node")
            return {"$send": [value.node, self._encode(value.arg, f"{place}.arg")]}
        if isinstance(value, Interrupt):
            return {"$interrupt": [value.id, self._encode(value.value, f"{place}.value")]}
        tag = "$overwrite" if isinstance(value, Overwrite) else "$delta"
        return {tag: self._encode(value.value, f"{place}.value")}

    def _encode_time(self, value: dt.datetime | dt.time, place: str) -> Any:
        """A `ZoneInfo` is saved by its name: its offset changes with daylight saving time."""
        zone = value.tzinfo
        if zone is not None and not isinstance(zone, (dt.timezone, ZoneInfo)):
            raise CheckpointError(f"{place} has a time zone that is none of Python's; use `zoneinfo.ZoneInfo`")
        key = zone.key if isinstance(zone, ZoneInfo) else None
        shown = value.replace(tzinfo=None) if key is not None else value
        return {f"${type(value).__name__}": [shown.isoformat(), key, value.fold]}

    def _encode_declared(self, value: Any, kind: type, place: str) -> Any:
        if isinstance(value, enum.Enum):
            return {"$enum": [name_of(kind), self._encode(value.value, f"{place}.value")]}
        if isinstance(value, BaseModel):
            # what pydantic itself keeps of a model: fields, extra ones, private ones, and which fields were set
            return {"$model": [name_of(kind), self._encode(value.__getstate__(), place)]}
        if isinstance(value, tuple):
            return {"$namedtuple": [name_of(kind), self._encode(cast(Any, value)._asdict(), place)]}
        fields = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        return {"$dataclass": [name_of(kind), {k: self._encode(v, f"{place}.{k}") for k, v in fields.items()}]}

    def decode(self, value: Any) -> Any:
        """The value that `encode` turned into JSON.

        Raises:
            CheckpointError: A class was not declared, or does not take the saved fields any more.
        """
        if isinstance(value, list):
            return [self.decode(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        given = cast("dict[str, Any]", value)
        tag = next(iter(given)) if len(given) == 1 else ""
        if not tag.startswith("$"):
            return {key: self.decode(item) for key, item in given.items()}
        return self._decode_tagged(tag, given[tag])

    def _decode_tagged(self, tag: str, inner: Any) -> Any:
        if tag in _UNTAGGED:
            return _UNTAGGED[tag](inner)
        if tag in _DECODERS:
            return _DECODERS[tag](self, inner)
        if tag in ("$datetime", "$time"):
            text, key, fold = inner
            time = (dt.datetime if tag == "$datetime" else dt.time).fromisoformat(text).replace(fold=fold)
            return time if key is None else time.replace(tzinfo=ZoneInfo(key))
        if tag == "$enum":
            return self._declared(inner[0])(self.decode(inner[1]))
        if tag == "$model":
            return self._model(inner[0], self.decode(inner[1]))
        if tag == "$namedtuple":
            return self._namedtuple(inner[0], self.decode(inner[1]))
        if tag == "$dataclass":
            return self._dataclass(inner[0], {key: self.decode(item) for key, item in inner[1].items()})
        raise CheckpointError(f"a saved value has the unknown tag {tag!r}; it was written by a newer version")

    def _model(self, name: str, state: dict[Any, Any]) -> BaseModel:
        """A model as it was saved: the types of its fields are checked, its validators do not run."""
        found = cast("type[BaseModel]", self._declared(name))
        fields = cast("dict[str, Any]", state["__dict__"])
        self._check(name, fields, {field: _adapter(found, field) for field in found.model_fields})
        made = found.__new__(found)
        made.__setstate__(state)
        return made

    def _dataclass(self, name: str, fields: dict[str, Any]) -> Any:
        found = self._declared(name)
        self._check(name, fields, dict.fromkeys(part.name for part in dataclasses.fields(found)))
        made = object.__new__(found)
        for field, value in fields.items():
            object.__setattr__(made, field, value)
        return made

    def _namedtuple(self, name: str, fields: dict[str, Any]) -> Any:
        found = cast(Any, self._declared(name))
        self._check(name, fields, dict.fromkeys(found._fields))
        return found(**fields)

    def _check(self, name: str, fields: Mapping[str, Any], known: Mapping[str, TypeAdapter[Any] | None]) -> None:
        """Refuse fields that do not fit the class as it is now."""
        if fields.keys() != known.keys():
            problem = f"it had {sorted(fields)}, the class has {sorted(known)}"
            raise CheckpointError(f"a saved {name} does not fit the class as it is now: {problem}")
        for field, adapter in known.items():
            try:
                if adapter is not None:
                    adapter.validate_python(fields[field])
            except ValueError as error:
                problem = f"{field}: {str(error)[:300]}"
                raise CheckpointError(f"a saved {name} does not fit the class as it is now: {problem}") from error

    def _declared(self, name: str) -> type:
        found = self._classes.get(name)
        if found is None:
            raise CheckpointError(
                f"a saved value is a {name!r}, which was not declared; it is never imported by its name: pass "
                "classes=[...], or annotate the state with it"
            )
        return found


@lru_cache(maxsize=10_000)
def _adapter(found: type[BaseModel], field: str) -> TypeAdapter[Any] | None:
    """Checks a field's type; None for a type that only the model's own settings allow."""
    try:
        return TypeAdapter(cast(Any, found.model_fields[field].annotation))
    except PydanticUserError:
        return None


def name_of(found: type) -> str:
    """The name of a class in a saved file: module and qualified name."""
    return f"{found.__module__}:{found.__qualname__}"


def classes_in(*annotations: Any) -> set[type]:
    """The models, dataclasses, named tuples and enums that annotations name, at any depth.

    Examples:
        >>> from ace.tasks import ReasoningStep
        >>> sorted(found.__name__ for found in classes_in(list[ReasoningStep] | None))
        ['ReasoningStep', 'StepError']
    """
    found: set[type] = set()
    seen: list[Any] = []
    waiting: list[Any] = list(annotations)
    while waiting:
        one = waiting.pop()
        if any(one is other for other in seen):
            continue
        seen.append(one)
        waiting += _inside(one)
        if isinstance(one, type) and _can_be_declared(one):
            found.add(one)
    return found


def _can_be_declared(one: type) -> bool:
    return issubclass(one, (BaseModel, enum.Enum)) or dataclasses.is_dataclass(one) or hasattr(one, "_fields")


def _inside(one: Any) -> Collection[Any]:
    """The annotations inside an annotation."""
    if hasattr(one, "__value__"):  # `type X = ...`
        return (one.__value__,)
    if typing.get_origin(one) is not None:
        origin = typing.get_origin(one)
        return (*typing.get_args(one), *((origin,) if isinstance(origin, type) else ()))
    if isinstance(one, type) and issubclass(one, BaseModel):
        return [field.annotation for field in one.model_fields.values()]
    if isinstance(one, type) and any(
        (dataclasses.is_dataclass(one), hasattr(one, "__total__"), hasattr(one, "_fields"))
    ):
        try:
            return list(typing.get_type_hints(one, include_extras=True).values())
        except NameError:  # an annotation that only a type checker can resolve
            return ()
    return ()


_DECODERS: dict[str, Callable[[JsonCodec, Any], Any]] = {
    "$float": lambda codec, inner: float(inner),
    "$tuple": lambda codec, inner: tuple(codec.decode(item) for item in inner),
    "$set": lambda codec, inner: {codec.decode(item) for item in inner},
    "$frozenset": lambda codec, inner: frozenset(codec.decode(item) for item in inner),
    "$dict": lambda codec, inner: {codec.decode(k): codec.decode(v) for k, v in inner},
    "$send": lambda codec, inner: Send(inner[0], codec.decode(inner[1])),
    "$interrupt": lambda codec, inner: Interrupt(value=codec.decode(inner[1]), id=inner[0]),
    "$overwrite": lambda codec, inner: Overwrite(codec.decode(inner)),
    "$delta": lambda codec, inner: _DeltaSnapshot(codec.decode(inner)),
    "$error": lambda codec, inner: StoredError(f"{inner[0]}: {inner[1]}"),
}
"""How to read the tags that need no declared class."""
