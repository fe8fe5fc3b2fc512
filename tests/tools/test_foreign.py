"""Tools of other frameworks, really converted."""

import asyncio
import functools

import pytest

from ace import ReActGenerator
from ace.core import InvalidModelAction, ToolRegistrationError
from ace.testing import ScriptedLM, decision
from ace.tools import ToolRegistry, acall_tool, check_call, from_dspy, from_json_schema, from_langchain, from_mcp

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


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


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


def test_dspy_tools_are_taken_whole():
    import dspy

    async def fetch(page: int, site: str = "home") -> str:
        """Fetch."""
        return f"{site} {page}"

    def free(a, b):
        return a + b

    described = dspy.Tool(fetch, name="get_page", desc="Get a page.", arg_desc={"page": "From 1."})
    plain = dspy.Tool(free)
    out = run(described, decision("get_page", page=2))
    assert (out.structured_trace[0].observation, described.name) == ("home 2", "get_page")
    registry = ReActGenerator(tools=[described, plain], lm=ScriptedLM([])).registry
    assert registry.get("get_page").schema["properties"]["page"]["description"] == "From 1."
    assert registry.get("get_page").schema["required"] == ["page"]
    assert run(plain, decision("free", a=1, b=2)).structured_trace[0].observation == "3"


def test_dspy_tools_made_of_langchain_and_mcp_tools_are_taken_whole():
    import dspy
    import langchain_core.tools as lc
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    @lc.tool
    def double(n: int, plus: int = 0) -> int:
        """Twice."""
        return 2 * n + plus

    server = MCPServer("shop", log_level="ERROR")

    @server.tool()
    def stock(item: str, shop: str = "Bern") -> str:
        """How many."""
        return f"7 {item} in {shop}"

    async def main():
        async with Client(server) as session:
            listed = (await session.list_tools()).tools
            tools = [dspy.Tool.from_langchain(double), dspy.Tool.from_mcp_tool(session, listed[0])]
            script = [decision("double", n=4), decision("stock", item="pens"), decision("finish", answer="ok")]
            return await ReActGenerator(tools=tools, lm=ScriptedLM(script)).arun("x")

    assert [step.observation for step in asyncio.run(main()).structured_trace] == ["8", "7 pens in Bern"]


def test_what_langchain_injects_is_the_callers_and_never_the_models():
    from typing import Annotated

    import langchain_core.tools as lc

    @lc.tool
    def pay(amount: int, user: Annotated[str, lc.InjectedToolArg], call: Annotated[str, lc.InjectedToolCallId]) -> str:
        """Pay."""
        return f"{user} pays {amount} in {call}"

    with pytest.raises(ToolRegistrationError, match="injected="):
        from_langchain(pay)
    tool = from_langchain(pay, injected={"user": lambda: "ana"})
    assert list(tool.schema["properties"]) == ["amount"]
    out = run(tool, decision("pay", amount=5))
    assert out.structured_trace[0].observation == "ana pays 5 in s1-c1"
    with pytest.raises(InvalidModelAction, match="'user' is not an argument"):
        check_call(ToolRegistry([tool]), "pay", {"amount": 5, "user": "mallory"}, "c1")


def test_langchain_tools_without_a_sync_body_and_with_artifacts():
    import langchain_core.tools as lc

    async def later(n: int) -> str:
        """Later."""
        return f"later {n}"

    only_async = lc.StructuredTool.from_function(coroutine=later, name="later", description="Later.")
    assert run(from_langchain(only_async), decision("later", n=1)).structured_trace[0].observation == "later 1"

    @lc.tool(response_format="content_and_artifact")
    def report(n: int) -> tuple[str, dict]:
        """Report."""
        return f"{n} rows", {"rows": [0] * n}

    assert run(from_langchain(report), decision("report", n=3)).structured_trace[0].observation == "3 rows"


def look(key: str, **options) -> str:
    """Look a key up; options: lang."""
    return f"{key} {sorted(options.items())}"


def many(*parts: str, sep: str = "-") -> str:
    """Join."""
    return sep.join(parts) or "none"


def bare(**kwargs) -> str:
    """Multiply c and d."""
    return str(kwargs.get("c", 1) * kwargs.get("d", 1))


@pytest.mark.parametrize(
    ("func", "args", "seen"),
    [
        (look, {"key": "a"}, "a []"),
        (look, {"key": "a", "lang": "de"}, "a [('lang', 'de')]"),
        (many, {"sep": "+"}, "none"),
        (bare, {"c": 5, "d": 4}, "20"),
    ],
)
def test_a_dspy_tool_takes_what_its_function_takes_without_naming_it(func, args, seen):
    import dspy

    for made in (dspy.Tool(func), dspy.Tool(func, arg_desc={"key": "The key."})):
        assert run(made, decision(func.__name__, **args)).structured_trace[0].observation == seen
    partial = dspy.Tool(functools.partial(look, lang="fr"), name="partly", desc="Look in French.")
    assert run(partial, decision("partly", key="a")).structured_trace[0].observation == "a [('lang', 'fr')]"
    assert "options" not in from_dspy(dspy.Tool(look)).schema["properties"]


def test_a_dspy_tool_gets_its_arguments_with_their_types():
    import dspy
    from pydantic import BaseModel

    class Item(BaseModel):
        name: str

    def buy(item: Item, **options) -> str:
        """Buy."""
        return f"{type(item).__name__} {item.name}"

    assert run(dspy.Tool(buy), decision("buy", item={"name": "pen"})).structured_trace[0].observation == "Item pen"


def test_a_langchain_tool_with_both_ways_takes_the_async_one_in_an_async_run():
    import langchain_core.tools as lc

    async def later(n: int) -> str:
        return f"async {n}"

    made = lc.StructuredTool.from_function(
        func=lambda n: f"sync {n}", coroutine=later, name="both", description="Both.", args_schema=NUMBER
    )

    class Own(lc.BaseTool):
        name: str = "own"
        description: str = "Own."

        def _run(self, n: int) -> str:
            return f"sync {n}"

        async def _arun(self, n: int) -> str:
            return f"async {n}"

    for tool in (from_langchain(made), from_langchain(Own())):
        agent = ReActGenerator(
            tools=[tool], lm=ScriptedLM([decision(tool.name, n=1), decision("finish", answer="x")] * 2)
        )
        assert agent.run("x").structured_trace[0].observation == "sync 1"
        assert asyncio.run(agent.arun("x")).structured_trace[0].observation == "async 1"


def test_a_langchain_tool_with_one_way_takes_it_in_every_run():
    import langchain_core.tools as lc

    @lc.tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    tool = from_langchain(double)
    assert tool.afunc is None
    single = from_langchain(lc.Tool(name="echo", description="Echo.", func=lambda text: f"got {text}"))
    assert run(single, decision("echo", tool_input="a")).structured_trace[0].observation == "got a"
    assert asyncio.run(acall_tool(tool, check_call(ToolRegistry([tool]), "double", {"n": 2}, "c"))).text == "4"
