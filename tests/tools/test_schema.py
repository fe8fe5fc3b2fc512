"""The check of a call against the whole JSON Schema of its tool, in the dialect that the schema is written in."""

import pytest

from ace.core import ToolRegistrationError
from ace.tools.schema import ModelArguments, SchemaArguments, WrongArguments, function_arguments

D4 = "http://json-schema.org/draft-04/schema#"
D6 = "http://json-schema.org/draft-06/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D2019 = "https://json-schema.org/draft/2019-09/schema"
D2020 = "https://json-schema.org/draft/2020-12/schema"


def arguments(properties, **keywords):
    return SchemaArguments("move", {"type": "object", "properties": properties, **keywords})


def fits(made, args):
    try:
        return made.check(args) == args
    except WrongArguments:
        return False


PAIR = {"at": {"type": "array", "items": [{"type": "number"}, {"type": "string"}]}}
DEPENDENT = {"a": {"type": "integer"}, "b": {"type": "integer"}}


@pytest.mark.parametrize("dialect", [D4, D6, D7, D2019])
def test_a_list_of_items_is_a_tuple_in_the_older_dialects(dialect):
    made = arguments(PAIR, **{"$schema": dialect})
    assert fits(made, {"at": [1, "N"]})
    assert not fits(made, {"at": ["N", 1]})


def test_prefix_items_are_a_tuple_in_the_newest():
    made = arguments(
        {"at": {"type": "array", "prefixItems": [{"type": "number"}], "items": False}}, **{"$schema": D2020}
    )
    assert fits(made, {"at": [1]})
    assert not fits(made, {"at": [1, 2]})


@pytest.mark.parametrize(("dialect", "bound"), [(D4, True), (D6, 0), (D7, 0), (D2019, 0), (D2020, 0)])
def test_an_exclusive_bound_means_what_it_means_in_its_dialect(dialect, bound):
    least = {"minimum": 0} if bound is True else {}
    made = arguments({"n": {"type": "number", **least, "exclusiveMinimum": bound}}, **{"$schema": dialect})
    assert fits(made, {"n": 1})
    assert not fits(made, {"n": 0})


@pytest.mark.parametrize("dialect", [D4, D6, D7])
def test_dependencies_hold_at_the_root_and_inside(dialect):
    root = arguments(DEPENDENT, dependencies={"a": ["b"]}, **{"$schema": dialect})
    inside = arguments({"o": {"properties": DEPENDENT, "dependencies": {"a": ["b"]}}}, **{"$schema": dialect})
    assert fits(root, {"a": 1, "b": 2})
    assert not fits(root, {"a": 1})
    assert not fits(inside, {"o": {"a": 1}})


def test_dependent_required_and_conditions_of_the_root_hold():
    dependent = arguments(DEPENDENT, dependentRequired={"a": ["b"]})
    assert not fits(dependent, {"a": 1})
    either = arguments(DEPENDENT, anyOf=[{"required": ["a"]}, {"required": ["b"]}])
    assert fits(either, {"b": 1})
    assert not fits(either, {})


@pytest.mark.parametrize(
    ("properties", "keywords", "good", "bad"),
    [
        ({"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}}, {}, {"v": 1, "kids": [{"v": 2}]}, {"kids": [{"v": "x"}]}),
        ({"from": {"type": "string"}, "to": {"$ref": "#/properties/from"}}, {}, {"to": "Bern"}, {"to": 1}),
        ({"a": {"properties": {"n": {"type": "integer"}}}, "b": {"$ref": "#/properties/a/properties/n"}}, {}, {"b": 3}, {"b": "x"}),
        ({"a": {"$ref": "#/definitions/N"}}, {"definitions": {"N": {"properties": {"next": {"$ref": "#/definitions/N"}}, "type": "object"}}}, {"a": {"next": {}}}, {"a": {"next": 1}}),
        ({"a": {"$ref": "#/$defs/N"}}, {"$defs": {"N": {"$ref": "#/$defs/M"}, "M": {"type": "integer"}}}, {"a": 1}, {"a": "x"}),
        ({"a": {"$ref": "#unit"}}, {"$defs": {"u": {"$anchor": "unit", "enum": ["C", "F"]}}}, {"a": "C"}, {"a": "K"}),
    ],
)  # fmt: skip
def test_references_lead_to_every_place_of_the_schema(properties, keywords, good, bad):
    made = arguments(properties, **keywords)
    assert fits(made, good)
    assert not fits(made, bad)


@pytest.mark.parametrize("ref", ["#/definitions/Missing", "#/properties/none", "https://example.com/schema.json"])
def test_a_reference_to_what_is_not_there_is_refused_when_the_tool_is_made(ref):
    with pytest.raises(ToolRegistrationError, match="refers to"):
        arguments({"a": {"$ref": ref}})


def test_a_schema_that_names_no_dialect_is_read_in_the_first_in_which_it_is_legal():
    assert not fits(arguments(PAIR), {"at": ["N", 1]})
    old = arguments({"n": {"minimum": 0, "exclusiveMinimum": True}})
    assert fits(old, {"n": 1})
    assert not fits(old, {"n": 0})
    assert fits(arguments({"any": True}, **{"$schema": "https://example.com/my-own"}), {"any": "x"})


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "text",
        {"type": "array"},
        {"type": ["object", "null"]},
        {"properties": []},
        {"properties": {"a": 5}},
        {"properties": {"a": {"type": "text"}}},
        {"$schema": 5},
        {"$schema": D7, "properties": {"n": {"exclusiveMinimum": True}}},
    ],
)
def test_what_is_no_schema_of_an_object_is_refused_in_words(schema):
    with pytest.raises(ToolRegistrationError, match="move"):
        SchemaArguments("move", schema)


@pytest.mark.parametrize("keyword", [{"additionalProperties": True}, {"additionalProperties": {"type": "string"}}, {"patternProperties": {"^X": {"type": "string"}}}, {"additionalProperties": {}}])  # fmt: skip
def test_arguments_that_the_schema_allows_without_naming_them_are_passed_on(keyword):
    made = arguments({"name": {"type": "string"}}, **keyword)
    assert made.check({"name": "a", "Xtra": "b"}) == {"name": "a", "Xtra": "b"}


@pytest.mark.parametrize(
    "keyword", [{}, {"additionalProperties": False}, {"additionalProperties": {"type": "integer"}}]
)
def test_other_arguments_are_refused_by_name(keyword):
    with pytest.raises(WrongArguments, match="colour"):
        arguments({"name": {"type": "string"}}, **keyword).check({"name": "a", "colour": "red"})


def test_each_problem_is_named_with_its_place():
    made = arguments({"o": {"properties": {"n": {"type": "integer"}}}, "m": {"enum": ["a", "b"]}}, required=["k"])
    with pytest.raises(WrongArguments) as caught:
        made.check({"o": {"n": "x"}, "m": "c", "z": 1})
    for words in (
        "'o.n'",
        "'x' is not of type 'integer'",
        "'m'",
        "'k' is a required property",
        "'z' is not an argument",
    ):
        assert words in str(caught.value), words


OPTIONAL = {"q": {"type": "string"}, "limit": {"type": "integer"}, "sort": {"type": ["string", "null"]}}


def test_null_for_an_optional_argument_is_not_given():
    assert arguments(OPTIONAL, required=["q"]).check({"q": "a", "limit": None}) == {"q": "a"}


def test_null_is_kept_where_the_schema_allows_it():
    made = arguments(OPTIONAL, required=["q"])
    assert made.check({"q": "a", "limit": None, "sort": None}) == {"q": "a", "sort": None}
    assert made.check({"q": "a", "sort": None}) == {"q": "a", "sort": None}


def test_null_for_a_required_argument_is_refused():
    with pytest.raises(WrongArguments, match="'q': None is not of type 'string'"):
        arguments(OPTIONAL, required=["q"]).check({"q": None, "limit": None})


def test_null_inside_an_object_is_not_given_either():
    inner = {
        "type": "object",
        "properties": {"status": {"type": "string"}, "at": {"type": "string"}},
        "required": ["at"],
    }
    made = arguments({"filter": {"anyOf": [inner, {"type": "null"}]}})
    assert made.check({"filter": {"at": "noon", "status": None}}) == {"filter": {"at": "noon"}}
    assert made.check({"filter": None}) == {"filter": None}
    assert not fits(made, {"filter": {"at": None}})


def test_null_in_a_map_or_a_list_is_a_value():
    text = {"type": "string"}
    made = arguments({"env": {"additionalProperties": text}, "tags": {"items": text, "type": "array"}})
    assert not fits(made, {"env": {"FOO": None}})
    assert not fits(made, {"tags": ["a", None]})


def test_the_arguments_that_came_stay_as_they_are():
    args = {"q": "a", "limit": None}
    arguments(OPTIONAL, required=["q"]).check(args)
    assert args == {"q": "a", "limit": None}


def test_a_functions_arguments_read_a_null_in_the_same_way():
    def find(q: str, limit: int = 10, sort: str | None = "up", tags: list[str] = []) -> str:  # noqa: B006
        """Find."""
        return q

    made, _ = function_arguments("find", find)
    assert isinstance(made, ModelArguments)
    assert made.check({"q": "a", "limit": None, "sort": None, "tags": None}) == {"q": "a", "sort": None}
    with pytest.raises(WrongArguments, match=r"'q': .*got 'null'"):
        made.check({"q": None, "limit": None})
    with pytest.raises(WrongArguments, match="'limit'"):
        made.check({"q": "a", "limit": "many", "tags": None})
