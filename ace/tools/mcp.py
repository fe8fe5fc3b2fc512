"""Tools of MCP servers: of a session that is open, or of a server whose session is kept open here."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from types import FunctionType, ModuleType
from typing import Any, cast

from ace.core import ToolError, ToolRegistrationError, current_context, describe_error, value_to_text
from ace.tools.foreign import from_json_schema
from ace.tools.media import Media
from ace.tools.tool import DEFAULT_TIMEOUT, Tool

_NO_DATA = (type, ModuleType, FunctionType)
"""What leads from a session to the whole program."""


def from_mcp(session: Any, tool: Any, *, prefix: str = "", **options: Any) -> Tool:
    """Convert an MCP server's tool, `from_mcp(session, mcp_tool)`; what the server's annotations say becomes its traits.

    Args:
        session: An open client session with `call_tool`. It lives on one event loop: calls from other threads and loops are
            made there. A sync run on that very loop would wait for itself, and is refused.
        tool: One of ``(await session.list_tools()).tools``.
        prefix: Put before the tool's name, where two servers have a tool of one name.
        **options: As for `Tool.from_function`; they win over the server's annotations. A tool that the server calls
            destructive needs approval.

    Raises:
        ToolRegistrationError: It is no MCP tool.
    """
    own = _loop_of(session)

    async def call(**arguments: Any) -> Any:
        if own is not None and (own.is_closed() or not own.is_running()):
            raise ToolError("network", f"the session of {tool.name!r} is gone with its event loop; open it again")
        return _answer(await _on_loop(own, session.call_tool(tool.name, arguments)))

    made = _made(tool, call, prefix, options)
    made.metadata["loop"] = own
    return made


_MAX_DEPTH = 10
"""How deep inside a session its tasks are looked for."""
_MAX_PARTS = 20_000
"""In how many of its parts."""


def _loop_of(session: Any) -> asyncio.AbstractEventLoop | None:
    """Find the loop that a session was opened on: that of the nearest task that it holds, else the one that runs here."""
    level, seen = [session], set[int]()
    for _ in range(_MAX_DEPTH):
        for part in level:
            if isinstance(part, asyncio.Future):
                return cast("asyncio.Future[Any]", part).get_loop()
        seen |= {id(part) for part in level}
        inner = [part for part in gc.get_referents(*level) if not isinstance(part, _NO_DATA)]
        level = [part for part in inner if id(part) not in seen][: max(0, _MAX_PARTS - len(seen))]
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None  # it is called on whatever loop the agent runs on


class McpServer:
    """An MCP server whose session is kept open on a background loop, and opened again when it was lost.

    Args:
        source: A URL, ``StdioServerParameters`` to start a process, or whatever else `mcp.Client` takes.
        timeout: Seconds for opening it, and for each call unless a tool says otherwise.

    Raises:
        ToolError: The server cannot be reached.

    Examples:
        >>> from mcp.server.mcpserver import MCPServer
        >>> server = MCPServer("shop", log_level="ERROR")
        >>> @server.tool()
        ... def stock(item: str) -> str:
        ...     "How many there are."
        ...     return f"7 {item}"
        >>> with McpServer(server) as shop:
        ...     [tool.name for tool in shop.tools()]
        ['stock']
    """

    def __init__(self, source: Any, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._source = source
        self._timeout = timeout
        self._session: _Session | None = None
        self._opening = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def tools(self, *, prefix: str = "", **options: Any) -> list[Tool]:
        """Return the server's tools; `prefix` and `options` as for `from_mcp`."""
        waiting = asyncio.run_coroutine_threadsafe(self._listed(), _BACKGROUND.loop())
        try:
            listed = waiting.result(self._timeout)
        except concurrent.futures.TimeoutError as error:
            waiting.cancel()
            raise ToolError("timeout", f"the MCP server did not list its tools within {self._timeout:g} s") from error
        options = {"timeout": self._timeout, **options}
        return [_made(tool, self._caller(tool.name), prefix, options) for tool in listed]

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            asyncio.run_coroutine_threadsafe(session.close(), _BACKGROUND.loop()).result(self._timeout)

    def __enter__(self) -> McpServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _caller(self, name: str) -> Any:
        async def call(**arguments: Any) -> Any:
            return _answer(await _on_loop(_BACKGROUND.loop(), self._called(name, arguments)))

        return call

    async def _listed(self) -> list[Any]:
        client = (await self._live_session()).opened.result()
        page = await client.list_tools()
        found = list(page.tools)
        while page.next_cursor:
            page = await client.list_tools(cursor=page.next_cursor)
            found += page.tools
        return found

    async def _called(self, name: str, arguments: dict[str, Any]) -> Any:
        session = await self._live_session()
        asking = asyncio.ensure_future(session.opened.result().call_tool(name, arguments))
        try:
            await asyncio.wait({asking, session.task}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ConnectionError("the session ended") from session.lost
            return asking.result()
        except Exception as error:  # border to the SDK and its transports: the session is opened anew
            self._session = None
            session.stop.set()
            why = describe_error(error if error.__cause__ is None else error.__cause__)
            text = f"the MCP server did not answer {name!r}: {why}; whether it did it is unknown"
            raise ToolError("network", text, "The server was lost during the call; its effect is unknown.") from error
        finally:  # also when the caller gives up
            asking.cancel()

    async def _live_session(self) -> _Session:
        if self._loop is not asyncio.get_running_loop():  # the first call, or one in a fork: the session stays behind
            self._loop, self._session, self._opening = asyncio.get_running_loop(), None, asyncio.Lock()
        async with self._opening:
            if self._session is None or self._session.task.done():
                session = _Session(self._source)
                try:
                    await asyncio.wait_for(asyncio.shield(session.opened), self._timeout)
                except BaseException as error:
                    session.stop.set()
                    session.task.cancel()
                    if isinstance(error, asyncio.CancelledError):
                        raise
                    text = f"cannot reach the MCP server: {describe_error(error)}"
                    raise ToolError("network", text, "The server cannot be reached.") from error
                self._session = session
            return self._session


class _Session:
    """One session, opened and closed in a task of its own, as its transport asks for."""

    def __init__(self, source: Any) -> None:
        self.stop = asyncio.Event()
        self.opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.lost: BaseException | None = None
        """What ended it, where that was not `close`."""
        self.task = asyncio.ensure_future(self._live(source))

    async def _live(self, source: Any) -> None:
        try:
            from mcp import Client

            async with Client(source) as client:
                self.opened.set_result(client)
                await self.stop.wait()
        except BaseException as error:  # told to whoever waits for it
            self.lost = error
            if not self.opened.done():
                self.opened.set_exception(error if isinstance(error, Exception) else ConnectionError(str(error)))
                self.opened.exception()

    async def close(self) -> None:
        """End it, and wait for that."""
        self.stop.set()
        await asyncio.wait({self.task}, timeout=5)


class _Background:
    """An event loop in a daemon thread, started when it is first needed, and again in a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, running."""
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="ace-mcp")
                self._thread.start()
            return self._loop


_BACKGROUND = _Background()


async def _on_loop(loop: asyncio.AbstractEventLoop | None, work: Coroutine[Any, Any, Any]) -> Any:
    """Run `work` on its own loop and return what comes of it; a call that is given up leaves nothing behind there."""
    if loop is None or loop is asyncio.get_running_loop():
        return await work
    future = asyncio.run_coroutine_threadsafe(work, loop)
    context = current_context()

    def give_up() -> None:
        future.cancel()

    with context.cancellation.calling(give_up) if context is not None else nullcontext():
        return await asyncio.wrap_future(future)


def _made(tool: Any, call: Any, prefix: str, options: Mapping[str, Any]) -> Tool:
    schema: Any = _either(tool, "input_schema", "inputSchema")
    if not isinstance(schema, dict):
        raise ToolRegistrationError(f"expected an MCP tool with name and input schema, got {tool!r}")
    hints = getattr(tool, "annotations", None)
    read_only = bool(_either(hints, "read_only_hint", "readOnlyHint"))
    output = cast("dict[str, Any]", _either(tool, "output_schema", "outputSchema") or {})
    wrapped = list(output.get("properties", ())) == ["result"]  # by the SDK; what is in it is the answer
    declared: dict[str, Any] = {
        "output": None if wrapped else output or None,
        "read_only": read_only,
        "idempotent": bool(_either(hints, "idempotent_hint", "idempotentHint")),
        "requires_approval": not read_only and bool(_either(hints, "destructive_hint", "destructiveHint")),
        "metadata": {},
    }
    text = tool.description or tool.name
    name = f"{prefix}{tool.name}"
    return from_json_schema(name, text, cast("dict[str, Any]", schema), call, **{**declared, **options})


def _answer(result: Any) -> Any:
    """Return what the model reads of a result: structured content, else text; other content is named.

    Raises:
        ToolError: The server says that the call failed.
    """
    parts = [_part(part) for part in result.content]
    if _either(result, "is_error", "isError"):
        raise ToolError("refused", "\n".join(parts))
    structured = _either(result, "structured_content", "structuredContent")
    if any(isinstance(part, Media) for part in parts):
        return parts
    if structured is None or any(getattr(part, "text", None) is None for part in result.content):
        return "\n".join(parts)
    own = cast("dict[str, Any]", structured) if isinstance(structured, dict) else {}
    if own.keys() == {"result"}:  # the SDK's own wrapper
        return "\n".join(parts) if parts else own["result"]
    return cast(Any, structured)


def _part(part: Any) -> str:
    """Return a part of a result: its text, or media that are named by their kind and size."""
    text = getattr(part, "text", None)
    if text is not None:
        return str(text)
    data, kind = getattr(part, "data", None), _either(part, "mime_type", "mimeType")
    if isinstance(data, str):
        return Media.of(str(getattr(part, "type", "content")), str(kind or ""), data)
    resource = getattr(part, "resource", None)
    if resource is not None and getattr(resource, "text", None) is not None:
        return str(resource.text)
    return value_to_text(part)


def _either(source: Any, new: str, old: str) -> Any:
    """Read a field as the MCP SDK calls it since version 2, or before."""
    found = getattr(source, new, None)
    return getattr(source, old, None) if found is None else found
