"""MCP sessions: of others on their own loop, and of ours on a background loop, over real transports."""

import asyncio
import base64
import concurrent.futures
import threading
import time

import pytest
from mcp import Client
from mcp.server.mcpserver import Image, MCPServer
from mcp.types import ToolAnnotations

from ace import ReActGenerator
from ace.core import ToolRegistrationError
from ace.testing import ScriptedLM, decision
from ace.tools import McpServer, ToolRegistry, from_mcp

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


def two_servers():
    books, films = MCPServer("books", log_level="ERROR"), MCPServer("films", log_level="ERROR")

    @books.tool(name="search")
    def search_books(q: str) -> str:
        """Search books."""
        return f"book {q}"

    @films.tool(name="search")
    def search_films(q: str) -> str:
        """Search films."""
        return f"film {q}"

    return books, films


def test_two_servers_with_a_tool_of_one_name_are_used_together():
    books, films = two_servers()
    with McpServer(books) as one, McpServer(films) as other:
        with pytest.raises(ToolRegistrationError, match="prefix="):
            ToolRegistry([*one.tools(), *other.tools()])
        agent = asks(
            [*one.tools(), *other.tools(prefix="films_")],
            decision("films_search", q="x"),
            decision("search", q="y"),
        )
        assert [step.observation for step in agent.run("x").structured_trace] == ["film x", "book y"]


def test_two_open_sessions_with_a_tool_of_one_name_are_used_together():
    books, films = two_servers()

    async def main():
        async with Client(books) as one, Client(films) as other:
            tools = [from_mcp(one, (await one.list_tools()).tools[0])]
            tools.append(from_mcp(other, (await other.list_tools()).tools[0], prefix="films_"))
            return await asks(tools, decision("films_search", q="x"), decision("search", q="y")).arun("x")

    assert [step.observation for step in asyncio.run(main()).structured_trace] == ["film x", "book y"]


@pytest.fixture(params=["legacy", "auto"])
def elsewhere(server, request):
    """A session that lives on the loop of another thread, its tools, and the loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def there(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    opened, stop = concurrent.futures.Future(), there(_event())

    async def hold():
        async with Client(server, mode=request.param) as session:
            opened.set_result(session)
            await stop.wait()

    holding = asyncio.run_coroutine_threadsafe(hold(), loop)
    session = opened.result(30)
    yield session, there(session.list_tools()).tools, loop
    loop.call_soon_threadsafe(stop.set)
    holding.result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


async def _event():
    return asyncio.Event()


@pytest.mark.parametrize("inner", [False, True])
def test_a_session_on_another_threads_loop_is_called_there_at_once(elsewhere, inner):
    session, listed, loop = elsewhere
    stock = from_mcp(session.session if inner else session, listed[0])
    assert stock.metadata["loop"] is loop
    began = time.monotonic()
    sync = asks([stock], decision("stock", item="pens")).run("x")
    late = asyncio.run(asks([stock], decision("stock", item="ink")).arun("x"))
    assert [out.structured_trace[0].observation for out in (sync, late)] == ["7 pens", "7 ink"]
    assert time.monotonic() - began < 10  # a call that waits for its time limit takes 30 s


def test_a_tool_of_a_server_tells_of_its_results():
    server = MCPServer("shop", log_level="ERROR")

    @server.tool()
    def stock(item: str) -> dict[str, int]:
        """How many, by shop."""
        return {"Bern": 7}

    with McpServer(server) as shop:
        (tool,) = shop.tools()
        assert tool.output_schema["additionalProperties"] == {"type": "integer"}
        assert asks([tool], decision("stock", item="pen")).run("x").structured_trace[0].observation == '{"Bern": 7}'
