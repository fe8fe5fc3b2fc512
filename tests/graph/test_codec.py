"""State as JSON and back, exactly or not at all."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import ipaddress
import json
import os
import pathlib
import re
import subprocess
import sys
import types
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import numpy
import ormsgpack
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Interrupt, Overwrite, Send
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    HttpUrl,
    Json,
    PostgresDsn,
    PrivateAttr,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    field_validator,
)

from ace.graph import CheckpointError, JsonCodec, append
from ace.graph.codec import StoredError, classes_in, first_unsaved
from ace.tasks import ReasoningStep, StepError


class Colour(enum.Enum):
    RED = "r"


class Mood(enum.StrEnum):
    GOOD = "good"


class Inner(BaseModel):
    at: tuple[int, ...]


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

    inner: Inner
    anything: Any = None
    called: int = Field(default=0, alias="named")


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: tuple[int, int]


@dataclasses.dataclass
class Late:
    y: int
    x: int = dataclasses.field(init=False, default=0)

    def __post_init__(self):
        self.x += self.y


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Odd(BaseModel):
    """Everything that makes a model more than its fields."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    five: int = Field(default=0, validation_alias=AliasChoices("a", "b"))
    grown: int = 0
    unset: int = 1
    _hidden: int = PrivateAttr(default=0)

    @field_validator("grown")
    @classmethod
    def _grow(cls, value):
        return value * 100


class Root(RootModel[dict[str, int]]):
    pass


def odd() -> Odd:
    made = Odd(a=5, grown=2)
    made._hidden = 7
    return made


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    held: T


class Loose(BaseModel):
    """What pydantic itself does not hold to the annotations."""

    name: str = None  # type: ignore[assignment]
    length: Annotated[Any, AfterValidator(len)] = 0
    size: Annotated[str, AfterValidator(len)] = ""
    items: list[int] = Field(default_factory=list)
    at: AwareDatetime | None = None
    key: SecretBytes | None = None
    counts: collections.Counter[str] = Field(default_factory=collections.Counter)

    @functools.cached_property
    def double(self):
        return self.items * 2


def loose() -> Loose:
    made = Loose(size="abc", at="2026-01-01T00:00:00+02:00", key=b"x", counts={"a": 2})
    made.items.append("none")
    made.double  # noqa: B018
    return made


@dataclasses.dataclass
class Unset:
    a: int
    b: int = dataclasses.field(init=False)


class Pair(NamedTuple):
    a: int
    b: Any


class Other(NamedTuple):
    a: int
    b: int


class Login(BaseModel):
    url: HttpUrl
    secret: SecretStr
    files: list[pathlib.Path]


class Codec(JsonCodec):
    """With text for bytes."""

    def dumps(self, value):
        return self.dumps_typed(value)[1].decode()

    def loads(self, text):
        return self.loads_typed(("json", text))


CODEC = Codec([Colour, Mood, Inner, Model, Point, Late, Rights, Odd, Root, Pair, Login, Box, Loose, Unset])
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        2**80,
        -1.5,
        float("inf"),
        "",
        "\ud800 lone",
        "\x00",
        [],
        {},
        [1, [2, {"a": None}]],
        (1, (2,), []),
        {(1, 2), (3, 4)},
        frozenset({"a"}),
        b"\x00\xff",
        {1: "a", "1": "b"},
        {(1, 2): 3},
        {"$tuple": [1]},
        {"$anything": 1},
        {"$tuple": 1, "b": 2},
        dt.datetime(2026, 11, 23, 1, 2, 3, 4, tzinfo=dt.UTC),
        dt.date(2026, 1, 1),
        dt.time(1, 2),
        dt.timedelta(days=-1, microseconds=3),
        uuid.UUID(int=7, version=4),
        decimal.Decimal("1.10"),
        pathlib.Path("/a/b"),
        pathlib.PureWindowsPath("c:/a"),
        ipaddress.ip_address("10.0.0.1"),
        ipaddress.ip_network("fe80::/64"),
        HttpUrl("https://example.org/a?b=ü"),
        PostgresDsn("postgresql://one:1,two:2/db"),
        SecretStr("x"),
        Login(url=HttpUrl("https://example.org"), secret=SecretStr("y"), files=[pathlib.Path("/a")]),
        Pair(1, (2,)),
        Colour.RED,
        Mood.GOOD,
        Inner(at=(1, 2)),
        Model(inner=Inner(at=()), anything=(1, {2}), named=3, more=[Point(1, (2, 3))]),
        Point(1, (2, 3)),
        Late(3),
        Rights.READ | Rights.WRITE,
        odd(),
        loose(),
        Root({"k": 1}),
        collections.Counter("aab"),
        collections.OrderedDict(b=1, a=(2,)),
        collections.defaultdict(list, {1: [2]}),
        fractions.Fraction(1, 3),
        1 + 2j,
        SecretBytes(b"\xff"),
        numpy.float64(1.5),
        numpy.int64(3),
        numpy.bool_(True),
        numpy.str_("a"),
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        dt.datetime(2026, 10, 25, 2, 30),
        dt.time(2, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        bytearray(b"x"),
        collections.deque([1, 2]),
        re.compile("a+", re.IGNORECASE),
        BERLIN,
        Interrupt(value={"q": (1,)}, id="x"),
        Send("node", {"a": (1,)}),
        Overwrite([1]),
    ],
    ids=repr,
)
def test_what_is_written_is_read_back(value):
    text = CODEC.dumps(value)
    json.loads(text)
    back = CODEC.loads(text)
    assert back == value
    assert type(back) is type(value)


def test_a_model_comes_back_with_all_that_it_had():
    back = CODEC.loads(CODEC.dumps(odd()))
    assert (back.five, back.grown, back._hidden, back.model_fields_set) == (5, 200, 7, {"five", "grown"})


def test_a_dict_with_defaults_goes_on_making_them():
    assert CODEC.loads(CODEC.dumps(collections.defaultdict(list)))["new"] == []
    with pytest.raises(CheckpointError, match=r"state\.a makes its missing values by <function"):
        CODEC.encode({"a": collections.defaultdict(lambda: 7)})


def test_what_is_saved_is_read_by_a_process_that_orders_sets_otherwise():
    """Its texts have other hashes."""
    script = (
        "import collections, json, sys; from ace.graph import JsonCodec; codec = JsonCodec(); "
        "value = collections.deque([set('abcdefgh')]); "
        "print(json.dumps(codec.encode(value)) if len(sys.argv) == 1 else codec.decode(json.loads(sys.argv[1])) == value)"
    )
    told: list[str] = []
    for seed in "123":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", script, *told[:1]], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.strip())
    assert told[1:] == ["True"] * 2


def test_a_field_that_was_never_set_is_not_set():
    back = CODEC.loads(CODEC.dumps(Unset(1)))
    assert (back.a, hasattr(back, "b")) == (1, False)


def test_a_kind_of_text_or_of_a_generic_model_comes_back_equal():
    class Name(str):
        __slots__ = ()

    assert CODEC.loads(CODEC.dumps(Name("Ana"))) == "Ana"
    assert CODEC.loads(CODEC.dumps(Box[int](held=1))) == Box[int](held=1)


def test_a_zone_stays_a_zone():
    back = CODEC.loads(CODEC.dumps(dt.datetime(2026, 10, 24, 12, tzinfo=BERLIN)))
    assert back.tzinfo is BERLIN
    other = type("Mine", (dt.tzinfo,), {"utcoffset": lambda self, of: of and dt.timedelta(hours=2)})()
    there = dt.datetime(2026, 1, 1, tzinfo=other)
    assert CODEC.loads(CODEC.dumps(there)) == there.astimezone(dt.UTC)
    with pytest.raises(CheckpointError, match="zoneinfo"):
        CODEC.dumps(dt.time(1, tzinfo=other))


def test_a_class_that_has_other_fields_now_is_an_error():
    text = CODEC.dumps(Point(1, (2, 3))).replace('"x"', '"z"')
    with pytest.raises(CheckpointError, match="the class has"):
        CODEC.loads(text)


def test_not_a_number_comes_back():
    assert str(CODEC.loads(CODEC.dumps(float("nan")))) == "nan"


def test_langchains_messages_come_back_when_the_state_names_them():
    class Chat(TypedDict):
        messages: Annotated[list[AnyMessage], append]

    codec = Codec(classes_in(Chat))
    messages = [
        HumanMessage("hi", id="1"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"n": 1}, "id": "c", "type": "tool_call"}]),
        ToolMessage("saw", tool_call_id="c"),
    ]
    assert codec.loads(codec.dumps(messages)) == messages


class Undeclared(BaseModel):
    x: int = 0


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Undeclared(),
        Other(1, 2),
        lambda: 0,
        ValueError,
        collections.deque([1, (2,)]),
        {"a": [ValueError("x")]},
        memoryview(b"x"),
        numpy.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
        type("Named", (list,), {})([1]),
        Box.model_construct(),
        range(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_come_back_is_refused(value):
    with pytest.raises(CheckpointError):
        CODEC.dumps(value)


def test_the_place_of_what_is_refused_is_named():
    with pytest.raises(CheckpointError, match=r"state\.a\[1\]\.b is a builtins:object"):
        CODEC.encode({"a": [0, {"b": object()}]})


def test_an_array_comes_back():
    value = numpy.arange(6, dtype="f4").reshape(2, 3)
    back = CODEC.loads(CODEC.dumps({"a": value}))["a"]
    assert (back.dtype, back.tolist()) == (value.dtype, value.tolist())


def test_an_error_of_a_task_becomes_its_text():
    back = CODEC.loads(CODEC.dumps(ValueError("no")))
    assert isinstance(back, StoredError)
    assert str(back) == "ValueError: no"


@pytest.mark.parametrize(
    "text",
    [
        '{"$model": ["os:system", {"command": "true"}]}',
        '{"$dataclass": ["tests:Undeclared", {}]}',
        '{"$enum": ["graph.test_codec:Nothing", "A"]}',
        '{"$newer": 1}',
        '{"$enum": ["graph.test_codec:Late", 1]}',
        '{"$model": ["graph.test_codec:Late", {"__dict__": {}}]}',
        '{"$namedtuple": ["graph.test_codec:Inner", {}]}',
        '{"$enum": []}',
        '{"$uuid": 5}',
        '{"$bytes": "not base64!"}',
        '{"$datetime": "yesterday"}',
        "{",
        "[" * 100_000,
    ],
)
def test_what_was_not_written_here_is_an_error_and_nothing_is_imported(text):
    with pytest.raises(CheckpointError):
        CODEC.loads(text)


def test_a_model_that_has_changed_is_an_error():
    text = CODEC.dumps(Inner(at=(1,))).replace('"at"', '"when"')
    with pytest.raises(CheckpointError, match="does not fit the class as it is now"):
        CODEC.loads(text)


def test_deep_nesting_is_an_error():
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(CheckpointError, match="nested too deeply"):
        CODEC.dumps(value)


def test_the_classes_of_a_schema_are_found_at_any_depth():
    class Deep(TypedDict, total=False):
        steps: Annotated[list[ReasoningStep] | None, append]
        by_name: dict[str, tuple[Point, Colour]]
        model: Model

    assert classes_in(Deep) >= {ReasoningStep, StepError, Point, Colour, Model, Inner}


def test_bytes_of_another_serialiser_are_refused():
    with pytest.raises(CheckpointError, match="expected 'json'"):
        CODEC.loads_typed(("msgpack", b"\x80"))


def test_what_langgraph_would_import_is_not_read():
    named = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "prompts", "prompt", "PromptTemplate"],
        "kwargs": {},
    }
    saved = base64.b64encode(json.dumps(named).encode()).decode()
    with pytest.raises(CheckpointError, match="of LangGraph's kind 'json', which is not read"):
        JsonCodec().decode({"$langgraph": ["json", saved, "builtins:dict"]})
    shut = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", "true"))))
    with pytest.raises(CheckpointError, match="LangGraph does not build"):
        JsonCodec().decode({"$langgraph": ["msgpack", base64.b64encode(shut).decode(), "posix:system"]})


@pytest.mark.parametrize(
    ("annotation", "saved"),
    [
        (AwareDatetime, True),
        (ByteSize | None, True),
        (Json[list[int]], True),
        (fractions.Fraction | None, True),
        (collections.defaultdict[str, list[int]], True),
        (NDArray[numpy.float64], True),
        (Mapping[str, int], True),
        (collections.ChainMap, False),
        (collections.UserDict, False),
        (re.Match, False),
        (types.SimpleNamespace, False),
        (Secret[dt.date], False),
    ],
    ids=str,
)
def test_a_type_is_known_to_be_saved_or_not(annotation, saved):
    assert (first_unsaved(annotation) is None) == saved
