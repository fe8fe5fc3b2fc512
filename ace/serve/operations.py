"""What an operator asks a server: is it there, is its book, what does it do, who asked what.

``/healthz``, ``/readyz`` and ``/metrics`` need no token, as probes have none: they hold counts and times, and nothing of the
book. A request's line in the log holds no query, which may hold a token.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ace.playbook import Playbook

REQUESTS = logging.getLogger("ace.serve.requests")
"""One JSON line for each request; silent unless it is given a handler."""
READY_SECONDS = 1.5
"""For the book to answer."""
BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Seconds, of the histogram of requests."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Operated:
    """Counts, times and logs the requests of an app, and answers probes: `Operated(app, book, {"lessons"})`.

    Args:
        app: The app.
        book: What it serves.
        places: First parts of its paths; requests to others are counted together, however many others there are.
    """

    def __init__(self, app: ASGIApp, book: Playbook, places: Collection[str]) -> None:
        self._app, self._book, self._places = app, book, places
        self._begun = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds, self._under_way = 0.0, 0
        self._check: asyncio.Task[dict[str, Any]] | None = None
        self._probes: dict[str, Callable[[], Any]] = {
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe, or pass a request on and tell of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (probe := self._probes.get(scope["path"])) is not None:
            await (await probe())(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        begun, status, sent = time.perf_counter(), 500, 0

        async def told(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            sent += len(message.get("body", b""))
            await send(message)

        self._under_way += 1
        try:
            await self._app(scope, receive, told)
        finally:
            self._under_way -= 1
            self._tell(scope, request_id, status, sent, time.perf_counter() - begun)

    def _tell(self, scope: Scope, request_id: str, status: int, sent: int, seconds: float) -> None:
        place = scope["path"].split("/")[1]
        place = place if place in self._places else "other"
        self._requests[scope["method"], place, status] += 1
        self._seconds += seconds
        for bound in BUCKETS:
            self._within[bound] += seconds <= bound
        person = scope.get("state", {}).get("person")
        line = {
            "time": round(time.time(), 3),
            "id": request_id,
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 4),
            "bytes": sent,
            "person": getattr(person, "name", ""),
        }
        REQUESTS.info(json.dumps(line))

    async def _health(self) -> Response:
        return JSONResponse({"alive": True, "seconds": round(time.time() - self._begun)})

    async def _readiness(self) -> Response:
        found = await self._of_the_book()
        return JSONResponse({"ready": bool(found)} | found, 200 if found else 503)

    async def _of_the_book(self) -> dict[str, Any]:
        """Return what the book says; empty when it does not answer in time. One question is out at once, however many
        ask."""
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(run_in_threadpool(self._look))
        done, _ = await asyncio.wait({self._check}, timeout=READY_SECONDS)
        if not done or self._check.exception() is not None:
            return {}
        return self._check.result()

    def _look(self) -> dict[str, Any]:
        self._book.refresh()
        return {
            "lessons": len(self._book),
            "revision": self._book.revision,
            "waiting": len(self._book.review.pending()),
        }

    async def _metrics(self) -> Response:
        """Answer in the text format of Prometheus."""
        found, count = await self._of_the_book(), sum(self._requests.values())
        now = {"ready": int(bool(found)), "requests_under_way": self._under_way, **found}
        lines = [line for name, value in now.items() for line in (f"# TYPE ace_{name} gauge", f"ace_{name} {value}")]
        lines.append("# TYPE ace_requests_total counter")
        for (method, place, status), number in sorted(self._requests.items()):
            lines.append(f'ace_requests_total{{method="{method}",place="{place}",status="{status}"}} {number}')
        lines.append("# TYPE ace_request_seconds histogram")
        within = [(str(bound), self._within[bound]) for bound in BUCKETS]
        lines += [f'ace_request_seconds_bucket{{le="{le}"}} {number}' for le, number in (*within, ("+Inf", count))]
        lines += [f"ace_request_seconds_sum {self._seconds:.6f}", f"ace_request_seconds_count {count}"]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
