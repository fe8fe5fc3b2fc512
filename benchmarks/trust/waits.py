"""How long does one client of a server wait while another sends the worst? ``python -m benchmarks.trust.waits OUT.json``.

A real ``ace serve`` on loopback. One client sends conversations of a million characters: the texts of `trust_bounds.py` as
an answer, as the task and as an argument, and a thousand calls whose answers are running text. Meanwhile another asks for
lessons and opens a page, again and again. The figure is the longest that it waited.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from rich.console import Console
from rich.progress import track

from benchmarks.command import command
from benchmarks.trust.bounds import run_of, texts

TOKENS = {"bad": "token-of-bad-0123456789", "good": "token-of-good-0123456789"}


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run ``ace serve`` over a new book, and yield its address."""
    tokens = folder / "tokens.toml"
    tokens.write_text("".join(f'[{name}]\ntoken = "{token}"\n' for name, token in TOKENS.items()))
    tokens.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ace", "serve", str(folder / "team.db"), "--port", str(port), "--no-browser"]
    process = subprocess.Popen([*command, "--token-file", str(tokens)], stdout=subprocess.DEVNULL, env=os.environ)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 0.1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@asynccontextmanager
async def client_of(url: str, name: str) -> AsyncGenerator[Any]:
    """Connect an MCP client of one person."""
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKENS[name]}"}, timeout=120)
    async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
        yield client


def conversations() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the worst that may be sent."""
    for name, text in texts().items():
        answer = text[:990_000]
        yield f"an answer: {name}", run_of("Ship order 41.", "41", answer)
        yield f"the task: {name}", run_of(answer, "41", "open")
        yield f"an argument: {name}", run_of("Ship order 41.", answer[:490_000], "open")
    for kind in ("running text", "arguments", "fields"):
        yield f"a thousand calls: {kind}", list(many_calls(kind, 990))


def many_calls(kind: str, calls: int) -> Iterator[dict[str, Any]]:
    """Yield a conversation of many calls, just below a million characters."""
    yield {"role": "user", "content": "Ship the orders of Ana."}
    prose = "Please do send the parcel number {} to the house of Ana near us. "
    for number in range(calls):
        given = {f"k{n}": f"value {number} {n}" for n in range(20)} if kind == "arguments" else {"order": f"W-{number}"}
        call = {"name": "ship_order" if number % 2 else "get_order", "arguments": json.dumps(given)}
        yield {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}", "function": call}]}
        said = json.dumps({"id": f"W-{number}", "note": prose}) if kind == "fields" else prose.format(number)
        yield {"role": "tool", "tool_call_id": f"c{number}", "content": said * (10 if kind == "running text" else 1)}
    yield {"role": "assistant", "content": "Done."}


async def measured(url: str, every: int) -> dict[str, Any]:
    """Send every `every`-th conversation while somebody else asks, and measure."""
    waits: list[tuple[float, str]] = []
    sent: dict[str, Any] = {"now": "nothing", "refused": 0, "learned": 0, "longest": 0.0}
    draw = random.Random(0)

    async def wait_for(what: str, ask: Callable[[], Awaitable[Any]]) -> None:
        started = time.monotonic()
        await ask()
        waits.append((time.monotonic() - started, f"{what} during {sent['now']}"))

    async with client_of(url, "bad") as bad, client_of(url, "good") as good, httpx2.AsyncClient(timeout=120) as page:
        shown = {"authorization": f"Bearer {TOKENS['good']}"}
        await good.call_tool("recall", {"task": "Ship order 41."})
        await bad.call_tool("remember", {"messages": run_of("Ship order 40.", "40", "open"), "success": True})

        async def others() -> None:
            while True:
                await wait_for("recall", lambda: good.call_tool("recall", {"task": f"Ship order {draw.random()}."}))
                await wait_for("a page", lambda: page.get(f"{url}/", headers=shown))
                await asyncio.sleep(0.02)

        asking = asyncio.create_task(others())
        for name, messages in track(list(conversations())[::every], "conversations", console=Console(stderr=True)):
            sent["now"], started = name, time.monotonic()
            done = await bad.call_tool("remember", {"messages": messages, "success": True})
            sent["longest"] = max(sent["longest"], time.monotonic() - started)
            sent["refused" if done.is_error else "learned"] += 1
        asking.cancel()
    waits.sort(reverse=True)
    return {"asked": len(waits), "seconds": waits[0][0], "longest": waits[:10], "sent": sent}


def main(every: int = 1) -> dict[str, Any]:
    """Return the report."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as url:
        return asyncio.run(measured(url, every))


if __name__ == "__main__":
    command(main)
