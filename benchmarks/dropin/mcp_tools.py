"""MCP servers that answer, hang, die and come back: ``python -m benchmarks.dropin.mcp_tools OUT.json``.

A server with 50 tools runs in a process of its own, over stdio and over HTTP on loopback. Sync and async runs call every
tool; then a tool that hangs, then the server is killed during a call, and is called again when it is back. Counted are the
calls that did not give their answer, and the longest time over a tool's time limit.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ace.tools import McpServer, Tool, ToolCall, acall_tool, call_tool
from benchmarks.command import command

LIMIT, TOOLS = 3.0, 50
SERVER = """
import os, sys, time
from pathlib import Path
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench", log_level="ERROR")
Path(sys.argv[2]).write_text(str(os.getpid()))
def make(number):
    def answer(text: str) -> str:
        "Answers."
        return f"{number}: {text}"
    answer.__name__ = f"tool_{number}"
    server.tool()(answer)
for number in range(48):
    make(number)
@server.tool()
def hang() -> str:
    "Hangs."
    time.sleep(600)
    return "late"
@server.tool()
def die() -> str:
    "Kills the server."
    os._exit(1)
if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


def made(tool: Tool, args: dict[str, Any], mode: str) -> tuple[str, str, float]:
    """Make one call: outcome, text, seconds."""
    call = ToolCall(id="c", name=tool.name, args=args)
    started = time.monotonic()
    result = call_tool(tool, call) if mode == "sync" else asyncio.run(acall_tool(tool, call))
    return result.outcome, result.text, time.monotonic() - started


class Http:
    """The server over HTTP, that can be started again on its port."""

    def __init__(self, script: Path, pid: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [sys.executable, str(script), str(self.port), str(pid)]
        self.source = f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def measure(transport: str, folder: Path) -> dict[str, Any]:
    """Make all calls over one transport."""
    from mcp import StdioServerParameters

    script, pid = folder / "server.py", folder / "pid"
    script.write_text(SERVER, encoding="utf-8")
    web = Http(script, pid) if transport == "http" else None
    if web is not None:
        web.start()
    stdio = StdioServerParameters(command=sys.executable, args=[str(script), "stdio", str(pid)], env=dict(os.environ))
    wrong, over, listed = [], 0.0, 0
    with McpServer(web.source if web is not None else stdio, timeout=30.0) as server:
        tools = {tool.name: tool for tool in server.tools(timeout=LIMIT)}
        listed = len(tools)
        for mode in ("sync", "async"):
            for number in range(48):
                outcome, text, seconds = made(tools[f"tool_{number}"], {"text": "hi"}, mode)
                over = max(over, seconds - LIMIT)
                if (outcome, text) != ("success", f"{number}: hi"):
                    wrong.append(f"{transport} {mode} tool_{number}: {outcome} {text}")
            outcome, text, seconds = made(tools["hang"], {}, mode)
            over = max(over, seconds - LIMIT)
            wrong += [] if outcome == "failed" else [f"{transport} {mode} hang: {outcome} {text}"]
            outcome, text, seconds = made(tools["die"], {}, mode)
            over = max(over, seconds - LIMIT)
            wrong += [] if outcome == "failed" else [f"{transport} {mode} die: {outcome} {text}"]
            if web is not None:
                outcome, text, seconds = made(tools["tool_1"], {"text": "away"}, mode)  # nobody listens
                over = max(over, seconds - LIMIT)
                wrong += [] if outcome == "failed" else [f"{transport} {mode} away: {outcome} {text}"]
                web.stop()
                web.start()
            until, outcome = time.monotonic() + 30, "failed"
            while outcome != "success" and time.monotonic() < until:
                outcome, text, seconds = made(tools["tool_1"], {"text": "back"}, mode)
                over = max(over, seconds - LIMIT)
            wrong += [] if text == "1: back" else [f"{transport} {mode} back: {outcome} {text}"]
    if web is not None:
        web.stop()
    return {"tools": listed, "wrong": wrong, "seconds_over_limit": over}


def main() -> dict[str, Any]:
    """Measure both transports, and return the report."""
    report: dict[str, Any] = {}
    for transport in ("stdio", "http"):
        with tempfile.TemporaryDirectory() as folder:
            report[transport] = measure(transport, Path(folder))
    report["tools"] = min(report[name]["tools"] for name in ("stdio", "http"))
    report["wrong"] = sum(len(report[name]["wrong"]) for name in ("stdio", "http"))
    report["seconds_over_limit"] = max(report[name]["seconds_over_limit"] for name in ("stdio", "http"))
    return report


if __name__ == "__main__":
    command(main)
