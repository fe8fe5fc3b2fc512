"""The threads that tools run in are used again, end when nothing comes, and are left behind by a fork."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest

from ace.tools import Tool, ToolCall, acall_tool, call_tool, call_tools, execution, threads

FORKED = """
import os, warnings
from ace.tools import Tool, ToolCall, call_tool

def here() -> int:
    "Which process this is."
    return os.getpid()

tool = Tool.from_function(here)
assert call_tool(tool, ToolCall(id="c1", name="here")).content == os.getpid()
warnings.simplefilter("ignore")  # Python warns of forks in processes with threads
child = os.fork()
if not child:
    os._exit(0 if call_tool(tool, ToolCall(id="c2", name="here")).content == os.getpid() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def call() -> threading.Thread:
    """Call a tool; the thread in which it ran. Not its id: those of threads that ended are given again."""
    found: list[threading.Thread] = []

    def look() -> None:
        """Look which thread this is."""
        found.append(threading.current_thread())

    result = call_tool(Tool.from_function(look), ToolCall(id="c1", name="look"))
    assert result.outcome == "success", result.message
    return found[0]


def test_one_call_after_the_other_shares_threads():
    assert len({call() for _ in range(50)}) <= 5  # another one, where the last is not quite back yet


def test_a_thread_ends_when_nothing_comes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(execution, "TOOLS", threads.ThreadPool("test"))
    thread = call()
    thread.join(30)
    assert not thread.is_alive()
    assert not execution.TOOLS._idle
    assert call() is not thread


def test_a_call_right_when_its_thread_gives_up_is_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.002)
    monkeypatch.setattr(execution, "TOOLS", threads.ThreadPool("test"))
    for i in range(300):
        assert call()
        time.sleep(0.002 + (i % 5 - 2) * 0.0002)


def hanging(pool: threads.ThreadPool, monkeypatch: pytest.MonkeyPatch) -> tuple[Tool, threading.Event]:
    monkeypatch.setattr(execution, "TOOLS", pool)
    released = threading.Event()

    def hang() -> str:
        """Hang."""
        released.wait(60)
        return "late"

    return Tool.from_function(hang, timeout=0.05), released


def test_calls_that_hang_hold_a_bounded_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    pool = threads.ThreadPool("bounded", 4)
    tool, released = hanging(pool, monkeypatch)
    results = call_tools([(tool, ToolCall(id=f"c{n}", name="hang"), None) for n in range(20)])
    assert sum(thread.name == "bounded" for thread in threading.enumerate()) == 4
    assert [result.error_kind for result in results] == ["timeout"] * 4 + ["unavailable"] * 16
    refused = call_tool(tool, ToolCall(id="c", name="hang"))
    assert (refused.outcome, refused.text) == (
        "failed", "Not called: too many other calls hang. Go on without this tool, or finish.",
    )  # fmt: skip
    assert asyncio.run(acall_tool(tool, ToolCall(id="c", name="hang"))).error_kind == "unavailable"
    released.set()
    until = time.monotonic() + 30
    while pool.hanging and time.monotonic() < until:
        time.sleep(0.01)
    assert call_tool(tool, ToolCall(id="c", name="hang")).text == "late"  # the threads are free again


def test_a_call_waits_for_a_thread_and_a_tool_inside_a_tool_does_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution, "TOOLS", threads.ThreadPool("small", 2))

    def inner() -> str:
        """Inner."""
        return "inner"

    def outer() -> str:
        """Outer."""
        return call_tool(Tool.from_function(inner), ToolCall(id="i", name="inner")).text

    calls = [(Tool.from_function(outer), ToolCall(id=f"c{n}", name="outer"), None) for n in range(10)]
    assert [result.text for result in call_tools(calls)] == ["inner"] * 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_has_threads_of_its_own():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)
