"""One process, two doors: the inspector for people, and MCP over HTTP for agents."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Collection
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ace.core import PlaybookError
from ace.playbook import Playbook
from ace.serve.apart import Apart
from ace.serve.guard import LOOPBACK, MAX_BODY, Guard, Refused
from ace.serve.inspector.inspector import Inspector
from ace.serve.live import Live
from ace.serve.mcp_server import mcp_server
from ace.serve.operations import Operated
from ace.serve.people import People, Person, Sessions
from ace.serve.shared_memory import SharedMemory

MOST_CONNECTIONS = 500
HEAD_SECONDS = 10.0
"""For a request's headers to arrive, and between two requests of a connection."""


def web_app(
    book: Playbook,
    people: People,
    *,
    hosts: Collection[str] = LOOPBACK,
    secure: bool = False,
    apart: bool = False,
    **options: Any,
) -> ASGIApp:
    """Make the inspector, and MCP under ``/mcp``: `web_app(book, People({"a-token-of-ana-17": Person("ana")}))`.

    Args:
        book: The playbook; it is warmed when the app starts.
        people: Who may come in. Each has tools of their own, that write under their name and see their tenant only.
        hosts: Names under which the server is asked.
        secure: Whether browsers reach it by https only.
        apart: Whether a process of its own learns, as `ace serve` has it: the book is opened there again, with the same
            options, and the main module is imported, so that a script needs its ``if __name__ == "__main__":``.
        **options: As for the `Inspector`.
    """
    sessions, live = Sessions(), Live(book)
    learns = Apart(book) if apart and not book.in_memory else None
    inspector = Inspector(book, sessions, live, **options)
    tools: dict[Person, _Tools] = {}

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        await run_in_threadpool(book.warm)
        async with live.follow():
            yield
        await asyncio.gather(*(one.end() for one in tools.values()))

    async def mcp(request: Request) -> ASGIApp:
        person = request.state.person
        if person not in tools:  # the file of tokens may name somebody new at any time
            tools[person] = _Tools(book, person, learns)
        return tools[person]  # what answers a request is an app, as a response is

    async def come_in(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=4) as form:
            token = str(form.get("token") or request.query_params.get("token", ""))
        ticket = request.query_params.get("ticket", "")
        if not (token or ticket):
            return inspector.login_page()
        try:
            person = request.state.owner(token or ticket, ticket=not token)
        except Refused as refused:
            return inspector.login_page(str(refused), 429)
        if person is not None:
            return inspector.login(request, person, secure=secure)
        return inspector.login_page("that token is nobody's" if token else "that link was used; show the token", 401)

    routes = [
        Route("/login", come_in, methods=["GET", "POST"]),
        Route("/favicon.ico", RedirectResponse("/static/icon.svg", 308), methods=["GET"]),
        Mount("/static", StaticFiles(packages=[("ace.serve.inspector", "static")])),
        *(Route(path, mcp, methods=["GET", "POST", "DELETE"]) for path in ("/mcp", "/mcp/{rest:path}")),
        *inspector.routes(),
    ]
    places = {str(route.path).split("/")[1] for route in routes}
    return Operated(Guard(Starlette(routes=routes, lifespan=lifespan), people, sessions, hosts), book, places)


class _Tools:
    """The MCP server of one person."""

    def __init__(self, book: Playbook, person: Person, apart: Apart | None) -> None:
        memory = SharedMemory(book, author=person.name, tenant=person.tenant, read_only=person.read_only)
        self._server = mcp_server(memory, apart=apart)
        # hosts and origins have been checked; without sessions nothing is lost when a server is started again
        self._app = self._server.streamable_http_app(
            streamable_http_path="/",
            json_response=True,
            stateless_http=True,
            max_request_body_size=MAX_BODY,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Be ready to answer until `end`; a task of its own, as it has to begin and end in one."""
        async with self._server.session_manager.run():
            self._ready.set()
            await self._over.wait()

    async def end(self) -> None:
        """Answer no more."""
        self._over.set()
        await self._running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._ready.wait()
        await self._app({**scope, "path": "/", "root_path": "", "raw_path": b"/"}, receive, send)


class _Prompt(H11Protocol):
    """HTTP/1.1 that closes a connection on which no whole request arrives within `HEAD_SECONDS`, the first one included;
    when the server stops, it ends live feeds, which have no end of their own."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def on_response_complete(self) -> None:
        """Begin to wait for the next one."""
        self._late.cancel()
        self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for a request that is late: nobody is there any more."""
        self._late.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Finish what is being answered, and end a live feed."""
        super().shutdown()
        if self._busy() and self.scope["path"] == "/live":
            self.transport.close()

    def _give_up(self) -> None:
        if not self._busy():
            self.transport.close()

    def _busy(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete


class WebServer:
    """A web app on a port of this machine; `run` ends with Ctrl-C.

    Args:
        app: What answers.
        host: The address to listen at.
        port: The port; 0 takes one that is free.

    Raises:
        PlaybookError: The address cannot be listened at.

    Attributes:
        url: Where it is reached.

    Examples:
        >>> server = WebServer(Starlette())
        >>> server.url.rpartition(":")[0]
        'http://127.0.0.1'
        >>> server.close()
    """

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen()  # a browser that comes before the server has started waits, and is not refused
        except OSError as error:
            self._socket.close()
            raise PlaybookError(f"cannot listen at {host}:{port}: {error.strerror}; name another --port") from error
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._socket.getsockname()[1]}"
        self.server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=_Prompt,
                proxy_headers=False,  # a client could give itself any address
                log_level=logging.ERROR,
                access_log=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=int(HEAD_SECONDS),
                timeout_graceful_shutdown=2,
                ws="none",
            )
        )

    def close(self) -> None:
        """Give the port back, of a server that was not run."""
        self._socket.close()

    def run(self) -> None:
        """Serve until the process is told to stop, or `server.should_exit` is set."""
        # Ctrl-C is raised again by the server once it has ended in good order: that is how one ends it
        with self._socket, contextlib.suppress(KeyboardInterrupt):
            self.server.run([self._socket])
