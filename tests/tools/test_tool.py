import asyncio
import functools
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, RootModel

from ace import Tool, ToolRegistry, TypedTool, tool
from ace.core import InvalidModelAction, ToolRegistrationError
from ace.tools import ToolCall, acall_tool, call_tool, check_call


class Item(BaseModel):
    name: str
    price: float


class ShoutArgs(BaseModel):
    text: str


@dataclass
class Point:
    x: int
    y: int


def order(item: Item, count: int = 1, *, speed: Literal["slow", "fast"] = "slow") -> str:
    """Order an item."""
    return f"{count} {item.name} {speed}"


def run(registry, name, **args):
    call = check_call(registry, name, args, "c1")
    return call_tool(registry.get(name), call)


def refusal(registry, name, args):
    with pytest.raises(InvalidModelAction) as caught:
        check_call(registry, name, args, "c1")
    return caught.value


def test_arguments_are_validated_and_coerced_as_a_whole():
    registry = ToolRegistry([order])
    assert run(registry, "order", item={"name": "pen", "price": "1.5"}, count="2").content == "2 pen slow"


def test_a_schema_error_names_the_field_what_came_and_what_is_expected():
    error = refusal(ToolRegistry([order]), "order", {"item": {"name": "pen"}, "count": "two", "colour": "red"})
    for words in (
        "item.price",
        "missing",
        "'count'",
        "integer",
        "two",
        "'colour' is not an argument",
        "item, count, speed",
    ):
        assert words in str(error), words
    assert error.reason == "invalid_args"


def test_loss_is_not_coercion():
    assert "count" in str(refusal(ToolRegistry([order]), "order", {"item": {"name": "a", "price": 1}, "count": 2.5}))


def test_an_unknown_tool_is_named_with_its_neighbours():
    error = refusal(ToolRegistry([order]), "orders", {})
    assert error.reason == "unknown_tool"
    assert "'orders'" in str(error)
    assert "'order'" in str(error)


@pytest.mark.parametrize("args", ["text", None, [1], 5])
def test_arguments_that_are_no_object_are_refused(args):
    assert "JSON object" in str(refusal(ToolRegistry([order]), "order", args))


def test_defaults_stay_the_functions_own():
    shared = []

    def collect(value: str, into: list[str] = shared) -> int:
        """Collect a value."""
        into.append(value)
        return len(into)

    registry = ToolRegistry([collect])
    run(registry, "collect", value="a")
    assert shared == ["a"]


def test_parameters_may_be_called_like_pydantics_own_names():
    def odd(json: str, schema: int, model_config: bool, copy: str = "") -> str:
        """Odd names."""
        return f"{json}{schema}{model_config}"

    assert run(ToolRegistry([odd]), "odd", json="a", schema=1, model_config=True).content == "a1True"


def test_dataclasses_become_instances():
    def norm(point: Point) -> int:
        """Sum of coordinates."""
        return point.x + point.y

    assert run(ToolRegistry([norm]), "norm", point={"x": 1, "y": 2}).content == 3


def test_a_tool_without_parameters_is_fine():
    def now() -> str:
        """The time."""
        return "noon"

    assert run(ToolRegistry([now]), "now").content == "noon"


def no_docstring(x: int) -> int:
    return x


def no_annotation(x):
    """Has no annotation."""


def variadic(*args: int):
    """Takes any number."""


def broken_hint(x: "Nowhere") -> str:  # noqa: F821
    """Has a hint that cannot be resolved."""


class Opaque:
    pass


def unschemable(thing: Opaque):
    """Takes a thing."""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (no_docstring, "docstring"),
        (no_annotation, "annotation"),
        (variadic, "named arguments"),
        (broken_hint, "signature cannot be read"),
        (unschemable, "JSON Schema"),
        (lambda x: x, "lambda"),
        ("text", "not callable"),
        (Item, "class"),
    ],
)
def test_what_cannot_become_a_tool_is_refused_with_a_reason(source, words):
    with pytest.raises(ToolRegistrationError, match=words):
        ToolRegistry([source])


class Named(BaseModel):
    text: str


class Root(RootModel[list[int]]):
    pass


class Opaquely(BaseModel, arbitrary_types_allowed=True):
    thing: Opaque


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"__doc__": "Shout.", "Args": Named}, "has no name"),
        ({"__doc__": "Shout.", "name": ""}, "has no name"),
        ({"__doc__": "Shout.", "name": "shout"}, "no `Args`"),
        ({"__doc__": "Shout.", "name": "shout", "Args": dict}, "no `Args`"),
        ({"__doc__": "", "name": "shout", "Args": Named}, "no docstring"),
        ({"__doc__": "Shout.", "name": "shout", "Args": Root}, "RootModel"),
        ({"__doc__": "Shout.", "name": "shout", "Args": Opaquely}, "no JSON Schema"),
        ({"__doc__": "Shout.", "name": "a b", "Args": Named}, "white space"),
    ],
)
def test_a_typed_tool_that_lacks_something_is_refused_with_a_reason(attributes, words):
    made = type("Shout", (TypedTool,), {"run": lambda self, args: args.text, **attributes})()
    with pytest.raises(ToolRegistrationError, match=words):
        ToolRegistry([made])


def test_names_are_unique_and_not_reserved():
    for name in ("finish", "submit", "more_tools"):
        with pytest.raises(ToolRegistrationError, match="reserved"):
            ToolRegistry([Tool.from_function(order, name=name)])
    with pytest.raises(ToolRegistrationError, match="two tools"):
        ToolRegistry([order, order])


def test_unknown_options_are_refused():
    with pytest.raises(ToolRegistrationError, match="retries"):
        Tool.from_function(order, retries=3)


def test_a_typed_tool_gets_its_model():
    class Shout(TypedTool[ShoutArgs, str]):
        """Say it loudly."""

        name = "shout"
        Args = ShoutArgs

        def run(self, args):
            return args.text.upper()

    registry = ToolRegistry([Shout()])
    assert run(registry, "shout", text="hi").content == "HI"
    assert "'volume' is not an argument" in str(refusal(registry, "shout", {"text": "a", "volume": 3}))


def test_the_registry_knows_categories_and_metadata():
    double = tool(category="math", read_only=True, examples=["2"])(lambda_free)
    registry = ToolRegistry([double, order])
    assert [t.name for t in registry.list("math")] == ["lambda_free"]
    assert registry.get("lambda_free").read_only
    assert registry.has("order")
    with pytest.raises(KeyError, match="nearest"):
        registry.get("ordr")


def lambda_free(x: float) -> float:
    """Twice a number."""
    return 2 * x


def test_the_schema_hash_follows_the_signature_only():
    def order2(item: Item, count: int = 1, *, speed: Literal["slow", "fast"] = "slow") -> str:
        """Other words."""
        return ""

    def order3(item: Item, count: str = "1") -> str:
        """Order an item."""
        return ""

    same = Tool.from_function(order2, name="order")
    other = Tool.from_function(order3, name="order")
    assert same.schema_hash == Tool.from_function(order).schema_hash != other.schema_hash


def test_a_property_called_title_survives_the_tidy_schema():
    def book(title: str, name: str) -> str:
        """Book."""
        return title

    assert list(Tool.from_function(book).schema["properties"]) == ["title", "name"]


def test_results_are_for_the_model_too():
    def listing() -> list[int]:
        """List."""
        return [1, 2]

    assert call_tool(Tool.from_function(listing), ToolCall(id="c", name="listing")).text == "[1, 2]"


class Doubler:
    """Doubles."""

    def __call__(self, x: int) -> int:
        return 2 * x


def test_partials_and_callable_objects_become_tools():
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    registry = ToolRegistry(
        [
            Tool.from_function(functools.partial(add, b=2), name="add2", description="Add two."),
            Tool.from_function(Doubler()),
        ]
    )
    assert run(registry, "add2", a=1).content == 3
    assert run(registry, "Doubler", x=4).content == 8


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "3", None, True])
def test_a_timeout_is_a_finite_number(timeout):
    with pytest.raises(ToolRegistrationError, match="timeout"):
        Tool.from_function(lambda_free, timeout=timeout)


@pytest.mark.parametrize("validator", [lambda v: 1 / 0, lambda v: v["a"]])
def test_a_validator_that_raises_anything_refuses_the_arguments(validator):
    def checked(x: Annotated[int, AfterValidator(validator)]) -> int:
        """Check."""
        return x

    assert "refused" in str(refusal(ToolRegistry([checked]), "checked", {"x": 1}))


def test_an_absurd_tool_name_is_cut():
    assert len(str(refusal(ToolRegistry([order]), "x" * 10_000, {}))) < 300


def book(nights: int = Field(2, ge=1, le=14, description="How many nights"), room: str = Field("any")) -> str:
    """Book a room."""
    return f"{nights} {room}"


def label(text: str, tags: list[str] = Field(default_factory=list)) -> int:  # noqa: B008
    """Label a parcel."""
    tags.append(text)
    return len(tags)


def needed(order: str = Field(description="The order's number"), also: Annotated[int, Field(7)] = Field(ge=0)) -> str:
    """Look an order up."""
    return f"{order} {also}"


def test_a_default_may_be_pydantics_field():
    registry = ToolRegistry([book, label, needed])
    nights = registry.get("book").schema["properties"]["nights"]
    assert nights == {"default": 2, "description": "How many nights", "maximum": 14, "minimum": 1, "type": "integer"}
    assert registry.get("book").schema.get("required") is None
    assert run(registry, "book").content == "2 any"
    assert run(registry, "book", nights="3").content == "3 any"
    assert "less than or equal to 14" in str(refusal(registry, "book", {"nights": 99}))
    assert [run(registry, "label", text="a").content for _ in range(2)] == [1, 1]  # each call has a list of its own


def test_a_field_without_a_default_is_required():
    registry = ToolRegistry([needed])
    assert registry.get("needed").schema["required"] == ["order"]
    assert "'order' is required and missing" in str(refusal(registry, "needed", {}))
    assert run(registry, "needed", order="o-1").content == "o-1 7"


def test_an_alias_of_a_field_is_no_name_of_the_argument():
    def send(to: str = Field("all", alias="recipient")) -> str:
        """Send."""
        return to

    registry = ToolRegistry([send])
    assert list(registry.get("send").schema["properties"]) == ["to"]
    assert (run(registry, "send").content, run(registry, "send", to="ana").content) == ("all", "ana")


class Receipt(BaseModel):
    order: str
    total: float


class Pay(TypedTool[Named, Receipt]):
    """Pay an order."""

    name = "pay"
    Args = Named
    Output = Receipt

    def run(self, args):
        return {"order": args.text, "total": "12.5"} if args.text != "odd" else {"order": "odd"}


def test_a_typed_tools_result_is_checked():
    registry = ToolRegistry([Pay()])
    assert run(registry, "pay", text="o-1").content == Receipt(order="o-1", total=12.5)
    wrong = run(registry, "pay", text="odd")
    assert (wrong.outcome, wrong.error_kind) == ("failed", "exception")
    assert wrong.text == "pay gave a result that its output type does not allow: 'total': Field required."


def test_an_async_typed_tools_result_is_checked():
    class Later(Pay):
        """Pay later."""

        name = "later"

        async def run(self, args):
            return Pay.run(self, args)

    made = Tool.of(Later())
    calls = [ToolCall(id="c", name="later", args={"text": text}) for text in ("o-1", "odd")]
    assert [asyncio.run(acall_tool(made, call)).outcome for call in calls] == ["success", "failed"]


def test_a_tool_tells_of_its_results():
    def undescribed(x: int):
        """Nothing is said."""

    def opaque(x: int) -> Opaque:
        """A thing."""
        return Opaque()

    assert Tool.of(Pay()).output_schema["properties"]["total"]["type"] == "number"
    assert Tool.from_function(order).output_schema == {"type": "string"}
    assert Tool.from_function(undescribed).output_schema is None
    assert Tool.from_function(opaque).output_schema is None


def test_checked_gives_what_the_function_is_called_with():
    made = Tool.from_function(order)
    assert made.checked({"item": {"name": "pen", "price": "1"}, "speed": None}) == {"item": Item(name="pen", price=1)}
    with pytest.raises(InvalidModelAction, match="expected an object with item, count, speed"):
        made.checked({})
    assert Tool.of(Pay()).checked({"text": "a"})["args"].text == "a"
    assert Tool.of(Pay())(text="o-2") == {"order": "o-2", "total": "12.5"}


def test_what_cannot_be_called_is_a_type_error_too():
    with pytest.raises(TypeError, match=r"'look_up' is not callable \(str\)"):
        ToolRegistry(["look_up"])
    with pytest.raises(ToolRegistrationError):
        Tool.of(5)


def test_another_body_changes_nothing_that_a_tool_tells_of_itself():
    def count(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    made = Tool.from_function(count)
    bound = made.bind(lambda text: 7)
    assert bound.func("a b") == 7
    assert ToolRegistry([bound]).schemas == ToolRegistry([made]).schemas
    assert bound.output_schema == {"type": "integer"}
