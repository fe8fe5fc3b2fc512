"""Tools of other frameworks, really converted."""

import asyncio

import pytest

from ace import ReActGenerator
from ace.core import InvalidModelAction, ToolRegistrationError
from ace.testing import ScriptedLM, decision
from ace.tools import ToolRegistry, check_call, from_json_schema, from_langchain, from_mcp

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "unit": {"$ref": "#/$defs/unit"},
    },
    "required": ["city"],
    "$defs": {"unit": {"enum": ["C", "F"]}},
}


def weather(city, days=1, unit="C"):
    return f"{city} {days} {unit}"


def run(tool, *replies):
    return ReActGenerator(tools=[tool], lm=ScriptedLM([*replies, decision("finish", answer="done")])).forward("x")


def test_a_hand_written_spec_becomes_a_checked_tool():
    tool = from_json_schema("weather", "The weather.", WEATHER, weather, read_only=True)
    assert tool.schema == WEATHER
    out = run(tool, decision("weather", city="Bern", unit="F"))
    assert out.structured_trace[0].observation == "Bern 1 F"
    registry = ToolRegistry([tool])
    for args, named in (
        ({"days": 9, "city": "Bern"}, "days"),
        ({"unit": "K", "city": "Bern"}, "unit"),
        ({}, "city"),
        ({"city": "Bern", "x": 1}, "'x'"),
    ):
        with pytest.raises(InvalidModelAction, match=named):
            check_call(registry, "weather", args, "c1")


@pytest.mark.parametrize(
    ("description", "schema"),
    [("", WEATHER), ("W", {"type": "array"}), ("W", {"type": "object", "properties": {"a": {"type": "text"}}})],
)
def test_a_spec_that_is_none_is_refused(description, schema):
    with pytest.raises(ToolRegistrationError, match="weather"):
        from_json_schema("weather", description, schema, weather)


def test_langchain_tools_run_here():
    import langchain_core.tools as lc

    @lc.tool
    def multiply(a: int, b: int = 2) -> int:
        """Multiply two integers."""
        return a * b

    tool = from_langchain(multiply)
    assert (tool.name, tool.description) == ("multiply", "Multiply two integers.")
    out = run(tool, decision("multiply", a=21))
    assert out.structured_trace[0].observation == "42"
    with pytest.raises(InvalidModelAction, match="'a'"):
        check_call(ToolRegistry([tool]), "multiply", {"a": "many"}, "c1")
    with pytest.raises(ToolRegistrationError, match="LangChain"):
        from_langchain(weather)


def test_mcp_tools_run_here():
    import mcp
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError as Refusal

    server = MCPServer("shop")

    @server.tool()
    def stock(item: str, warehouse: str = "main") -> str:
        """How many there are."""
        if item == "ghost":
            raise Refusal("no such item")
        return f"7 {item} in {warehouse}"

    async def main():
        async with mcp.Client(server) as session:
            (found,) = (await session.list_tools()).tools
            tool = from_mcp(session, found, read_only=True)
            replies = [
                decision("stock", item="pen"),
                decision("stock", item="ghost"),
                decision("finish", answer="done"),
            ]
            agent = ReActGenerator(tools=[tool], lm=ScriptedLM(replies))
            return tool, await agent.arun("x")

    tool, out = asyncio.run(main())
    assert (tool.name, tool.read_only) == ("stock", True)
    good, bad = out.structured_trace
    assert "7 pen in main" in good.observation
    assert (bad.outcome, bad.error.kind) == ("failed", "refused")
    assert "no such item" in bad.observation
    with pytest.raises(ToolRegistrationError, match="MCP"):
        from_mcp(None, weather)
