"""What stands before every page and every tool: hosts, origins, tokens, limits on size, time and rate, safe headers.

Plain ASGI, because responses stream; sources: Fetch's ``Sec-Fetch-Site``, RFC 6750 (bearer tokens), OWASP's CSRF rules.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Collection
from functools import partial
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ace.serve.people import People, Person, Session, Sessions

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 8 * 1_024 * 1_024
"""Bytes of one request."""
MAX_UNKNOWN = 16 * 1_024
"""Bytes from somebody who has shown no token yet."""
BODY_SECONDS = 10.0
"""For a request to arrive."""
MOST_KEPT = 10_000
"""Addresses that are remembered."""
RATE = 400.0
"""Requests a second that one person may make, on average over `BURST_SECONDS`."""
BURST_SECONDS = 10.0
WRONG_TOKENS = 20
"""Wrong tokens a minute from one address; then no further one is looked at, but those that were right there before."""
WRONG_IN_ALL = 200
"""The same from all addresses together."""
_OPEN = re.compile(r"/(login|favicon\.ico|static/[\w.-]+)")
"""What needs no token: nothing of the book is in it."""
_SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, a form of our own would come from the origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Refused(Exception):
    """A request that is answered without asking the app: `Refused(403, "why")`."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.response: Response = PlainTextResponse(f"{why}\n", status, headers)


class Allowance:
    """So many events in a time, for each key: `Allowance(20, 60.0).take("127.0.0.1")`.

    Args:
        most: Events at once.
        seconds: Until all of them are there again; they come back one by one (a token bucket).
    """

    def __init__(self, most: float, seconds: float) -> None:
        self._most, self._per_second = most, most / seconds
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def left(self, key: str) -> float:
        """Return how many are left for a key, now."""
        left, at = self._left.get(key, (self._most, 0.0))
        return min(self._most, left + (time.monotonic() - at) * self._per_second)

    def take(self, key: str) -> bool:
        """Use one; false when there is none."""
        left = self.left(key)
        self._left[key] = (left - 1 if left >= 1 else left, time.monotonic())
        self._left.move_to_end(key)
        while len(self._left) > MOST_KEPT:
            self._left.popitem(last=False)
        return left >= 1


class Guard:
    """Lets through what a known person asks in a sound way; puts ``person`` and ``session`` into the request's state.

    Args:
        app: What is guarded.
        people: Who may come in.
        sessions: Of browsers.
        hosts: Names under which the server may be asked, without ports: others are somebody's rebound DNS.

    Examples:
        >>> from ace.serve.people import People, Person, Sessions
        >>> guard = Guard(None, People({"a-token-of-ana-17": Person("ana")}), Sessions())
        >>> guard.max_body
        8388608
    """

    def __init__(
        self, app: ASGIApp | Any, people: People, sessions: Sessions, hosts: Collection[str] = LOOPBACK
    ) -> None:
        self.app = app
        self.people = people
        self.sessions = sessions
        self.hosts = frozenset(host.lower() for host in hosts)
        self.max_body = MAX_BODY
        self._rate = Allowance(RATE * BURST_SECONDS, BURST_SECONDS)
        self._wrong = Allowance(WRONG_TOKENS, 60.0)
        self._wrong_in_all = Allowance(WRONG_IN_ALL, 60.0)
        self._right: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send)
        try:
            headers = Headers(scope=scope)
            self._sound(scope, headers)
            self._known(scope, headers)
            body = await self._body(scope, headers, receive)
        except Refused as refused:
            await refused.response(scope, receive, send)
            return
        await self.app(scope, body, send)

    def _sound(self, scope: Scope, headers: Headers) -> None:
        """Check that it is asked for under a name of ours, by a page of ours, for a plain path."""
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD", "POST", "DELETE"):
            raise Refused(405, f"{method} is not known here", allow="GET, HEAD, POST")
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self.hosts:
            raise Refused(421, "this server does not answer to that name")
        for origin in headers.getlist("origin"):
            if origin.partition("://")[2].lower() != hosts[0].lower():
                raise Refused(403, "another page may not ask here")
        foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if foreign and (method not in ("GET", "HEAD") or (path == "/login" and scope.get("query_string"))):
            raise Refused(403, "another page may not ask here")
        raw = scope.get("raw_path", b"").lower()
        if ".." in path.split("/") or "\\" in path or not path.isprintable() or b"%2f" in raw or b"%5c" in raw:
            raise Refused(400, "there is no such path")

    def _known(self, scope: Scope, headers: Headers) -> None:
        """Find who asks, and check that this one may."""
        address = (scope.get("client") or ("",))[0]
        person, session = self._who(scope, headers, address)
        mcp = f"{scope['path']}/".startswith("/mcp/")
        if mcp and session is not None:
            person = session = None  # a browser's cookie comes with whatever a page sends: tools want the token itself
        scope.setdefault("state", {}).update(
            person=person, session=session, owner=partial(self._owner, address), cookie=cookie_name(scope)
        )
        if person is None and _OPEN.fullmatch(scope["path"]) is None:
            raise self._stranger(scope, headers, mcp)
        leaving = scope["path"] in ("/login", "/logout")
        if person is not None and person.read_only and scope["method"] not in ("GET", "HEAD") and not (mcp or leaving):
            raise Refused(403, f"{person.name} may only read")
        if not self._rate.take(person.name if person is not None else f"address {address}"):
            raise Refused(429, "too many requests; wait a second", **{"retry-after": "1"})

    def _stranger(self, scope: Scope, headers: Headers, mcp: bool) -> Refused:
        """Make the answer to somebody without a token: a page to show one, where a person would see it."""
        if headers.get("hx-request") == "true":
            return Refused(401, "a token is needed", **{"hx-redirect": "/login"})
        refused = Refused(401, "a token is needed", **{"www-authenticate": "Bearer"})
        if not mcp and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            refused.response = RedirectResponse("/login", 303)
        return refused

    def _who(self, scope: Scope, headers: Headers, address: str) -> tuple[Person | None, Session | None]:
        given = headers.getlist("authorization")
        if given:
            scheme, _, token = given[0].partition(" ")
            person = self._owner(address, token.strip() if len(given) == 1 and scheme.lower() == "bearer" else "")
            if person is None:
                raise Refused(401, "that token is nobody's", **{"www-authenticate": 'Bearer error="invalid_token"'})
            return person, None
        session = self.sessions.get(HTTPConnection(scope).cookies.get(cookie_name(scope), ""))
        if session is not None and session.person not in self.people.everybody():
            session = None  # the token was taken back
        return (session.person if session is not None else None), session

    def _owner(self, address: str, token: str, ticket: bool = False) -> Person | None:
        """Find whose token, or ticket, somebody at an address shows; None for nobody's.

        Raises:
            Refused: Too many were wrong: it is not looked at.
        """
        shown = address, hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        left = min(self._wrong.left(address), self._wrong_in_all.left(""))
        if shown not in self._right and left < 1:
            raise Refused(429, "too many wrong tokens; wait a minute", **{"retry-after": "60"})
        person = self.people.of_ticket(token) if ticket else self.people.of(token)
        if person is None:
            self._wrong.take(address)
            self._wrong_in_all.take("")
        elif not ticket:
            self._right[shown] = None
            while len(self._right) > MOST_KEPT:
                self._right.popitem(last=False)
        return person

    async def _body(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Read the whole body, to be received again, as long as it is not too long and does not take too long."""
        most = self.max_body if scope["state"]["person"] is not None else MAX_UNKNOWN
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise Refused(413, f"a request may have {most:,} bytes", connection="close")
        chunks: list[Message] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while not chunks or chunks[-1].get("more_body"):
                    chunks.append(await receive())
                    size += len(chunks[-1].get("body", b""))
                    if size > most:
                        raise Refused(413, f"a request may have {most:,} bytes", connection="close")
        except TimeoutError:
            raise Refused(408, f"the request did not arrive in {BODY_SECONDS:g} s", connection="close") from None
        left = iter(chunks)

        async def again() -> Message:
            return next(left, None) or await receive()

        return again


def _with_headers(send: Send) -> Send:
    async def safe(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY.items():
                headers.setdefault(name, value)
        await send(message)

    return safe


def _name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    return re.sub(r":\d+$", "", host.lower())


def cookie_name(scope: Scope) -> str:
    """Name the cookie of a session: browsers keep cookies by host, so that two servers on one machine need two names."""
    return f"ace_session_{(scope.get('server') or ('', 0))[1]}"
