"""MCP sessions: of others on their own loop, and of ours on a background loop, over real transports."""

import asyncio
import base64
import threading

import pytest
from mcp import Client
from mcp.server.mcpserver import Image, MCPServer
from mcp.types import ToolAnnotations

from ace import ReActGenerator
from ace.core import ToolRegistrationError
from ace.testing import ScriptedLM, decision
from ace.tools import McpServer, from_mcp

END = decision("finish", answer="ok")


@pytest.fixture
def server():
    server = MCPServer("shop", log_level="ERROR")

    @server.tool()
    def stock(item: str) -> str:
        """How many."""
        return f"7 {item}"

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def wipe() -> str:
        """Delete all."""
        return "gone"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
    def picture() -> Image:
        """A picture."""
        return Image(data=base64.b64decode("iVBORw0KGgo="), format="png")

    return server


def asks(tools, *replies):
    return ReActGenerator(tools=tools, lm=ScriptedLM([*replies, END]))


def test_the_servers_hints_become_traits(server):
    with McpServer(server) as shop:
        stock, wipe, picture = shop.tools()
    assert (stock.read_only, stock.requires_approval) == (False, False)
    assert wipe.requires_approval
    assert (picture.read_only, picture.idempotent, picture.requires_approval) == (True, True, False)


def test_an_open_session_is_called_on_its_own_loop_and_a_sync_run_there_is_refused(server):
    async def main():
        async with Client(server) as session:
            tools = [from_mcp(session, tool) for tool in (await session.list_tools()).tools if tool.name == "stock"]
            agent = asks(tools, decision("stock", item="pens"))
            with pytest.raises(ToolRegistrationError, match="acall"):
                agent.run("x")
            here = await agent.arun("x")
            other = asks(tools, decision("stock", item="ink"))
            there = await asyncio.to_thread(other.run, "x")  # a sync run in another thread
            return here, there

    here, there = asyncio.run(main())
    assert [out.structured_trace[0].observation for out in (here, there)] == ["7 pens", "7 ink"]


def test_our_own_session_serves_sync_and_async_runs_and_threads(server):
    with McpServer(server) as shop:
        tools = shop.tools()
        assert asks(tools, decision("stock", item="a")).run("x").structured_trace[0].observation == "7 a"
        out = asyncio.run(asks(tools, decision("stock", item="b")).arun("x"))
        assert out.structured_trace[0].observation == "7 b"
        assert [thread.name for thread in threading.enumerate()].count("ace-mcp") == 1


def test_content_that_is_no_text_is_named(server):
    with McpServer(server) as shop:
        out = asks(shop.tools(), decision("picture")).run("x")
    assert out.structured_trace[0].observation == "[image: image/png, 9 bytes]"


class Looking(ScriptedLM):
    """Keeps the parts of its prompts that are images."""

    def __init__(self, replies, sees):
        super().__init__(replies)
        self.supports_vision, self.images = sees, []
        complete = self.engine.complete

        def watched(request):
            parts = [part for message in request.messages for part in message.parts]
            self.images.append([part for part in parts if type(part).__name__ == "ImagePart"])
            return complete(request)

        self.engine.complete = watched


@pytest.mark.parametrize("sees", [True, False])
def test_an_image_reaches_a_model_that_takes_images(server, sees):
    import dspy

    def draw() -> dspy.Image:
        """Draw."""
        return dspy.Image("https://example.com/drawn.png")

    with McpServer(server) as shop:
        lm = Looking([decision("picture"), decision("draw"), END], sees)
        out = ReActGenerator(tools=[*shop.tools(), draw], lm=lm).run("x")
    assert [len(found) for found in lm.images] == ([0, 1, 2] if sees else [0, 0, 0])
    assert [step.observation for step in out.structured_trace] == [
        "[image: image/png, 9 bytes]",
        "[image: https://example.com/drawn.png]",
    ]
