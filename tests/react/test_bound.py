"""Replies that are bound to a JSON schema: what is asked of the server, and what becomes of one that does not keep to it."""

from typing import Literal

import dspy
import jsonschema
import pytest
from pydantic import BaseModel

from ace import ReActGenerator
from ace.core import SignatureError
from ace.react.bound import response_format
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.tools import Tool, from_json_schema, tool
from benchmarks.model_server import serve


class Place(BaseModel):
    """Where something is."""

    town: str
    kind: Literal["shop", "depot"] = "shop"


@tool(read_only=True)
def look_up(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
def move(item: str, to: Place, count: int = 1) -> str:
    """Move an item."""
    return f"{item} is in {to.town}"


def schema_of(*tools):
    return response_format([Tool.of(one) for one in tools])["json_schema"]["schema"]


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ({"name": "look_up", "args": {"key": "a"}}, True),
        ({"name": "move", "args": {"item": "a", "to": {"town": "Graz", "kind": "depot"}}}, True),
        ({"name": "move", "args": {"item": "a", "to": {"town": "Graz", "kind": "house"}}}, False),
        ({"name": "move", "args": {"item": "a", "to": {"kind": "depot"}}}, False),
        ({"name": "look_up", "args": {"item": "a"}}, False),
        ({"name": "look_up"}, False),
        ({"name": "find", "args": {"key": "a"}}, False),
        ({"name": "look_up", "args": {"key": "a"}, "why": "x"}, False),
    ],
)
def test_a_bound_reply_is_a_call_that_fits_its_tool(call, fits):
    schema = schema_of(look_up, move)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema.Draft202012Validator(schema).is_valid(call) is fits


def test_definitions_of_two_tools_do_not_meet():
    def with_definition(name, kind):
        definition = {"type": "object", "$defs": {"Id": {"type": kind}}, "properties": {"id": {"$ref": "#/$defs/Id"}}}
        return from_json_schema(name, "Do it.", definition, lambda **args: "")

    valid = jsonschema.Draft202012Validator(
        schema_of(with_definition("a", "string"), with_definition("b", "integer"))
    ).is_valid
    assert valid({"name": "a", "args": {"id": "x"}})
    assert valid({"name": "b", "args": {"id": 1}})
    assert not valid({"name": "a", "args": {"id": 1}})
    assert not valid({"name": "b", "args": {"id": "x"}})


def test_each_request_over_the_wire_carries_the_schema_and_the_last_one_ends_the_run():
    replies = [decision("look_up", key="a"), decision("look_up", key="b"), decision("submit", answer="found")]
    with serve(lambda prompt, native: replies.pop(0)) as (url, bodies):
        lm = dspy.LM("openai/local", api_base=url, api_key="none", cache=False)
        out = ReActGenerator(tools=[look_up, move], lm=lm, replies="bound", max_iters=2)("Find it")
    names = [
        [one["properties"]["name"]["const"] for one in body["response_format"]["json_schema"]["schema"]["anyOf"]]
        for body in bodies
    ]
    assert names == [["look_up", "move", "submit"]] * 2 + [["submit"]]
    assert out.answer == "found"


def test_a_server_that_drops_the_schema_is_checked_all_the_same():
    lm = ScriptedLM(['{"name": "look_up", "args": {"ky": "a"}}', decision("submit", answer="x")])
    out = ReActGenerator(tools=[look_up, move], lm=lm, replies="bound")("Find it")
    assert out.structured_trace[0].error.kind == "invalid_args"
    assert out.termination_reason == "completed"


def test_free_replies_carry_no_schema():
    asked = []
    lm = FunctionLM("m", lambda prompt: asked.append(prompt) or decision("submit", answer="x"))
    assert ReActGenerator(tools=[look_up], lm=lm).replies == "free"
    with serve(lambda prompt, native: decision("submit", answer="x")) as (url, bodies):
        ReActGenerator(tools=[look_up], lm=dspy.LM("openai/local", api_base=url, api_key="none", cache=False))(
            "Find it"
        )
    assert "response_format" not in bodies[0]


@pytest.mark.parametrize("options", [{"replies": "strict"}, {"replies": "bound", "tool_calling": "native"}])
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(SignatureError, match="replies"):
        ReActGenerator(tools=[look_up], **options)
