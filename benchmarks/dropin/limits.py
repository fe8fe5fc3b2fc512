"""Limits that hold whatever hangs: ``python -m benchmarks.dropin.limits OUT.json``.

A budget of two seconds is given to runs whose model sleeps for thirty, sync and async, and 200 calls of a tool that hangs
are made from sync runs side by side and from async ones. Counted are the seconds until a run is back, and the threads that
are left behind.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio.to_thread
import dspy

from ace import Policy, ReActGenerator, UsageLimits
from ace.testing import FunctionLM, decision
from ace.testing.engine import AsyncEngine, FunctionEngine, render_reply
from ace.tools import tool
from benchmarks.command import command

MODEL_SECONDS, BUDGET, CALLS = 30.0, 2.0, 200


class SleepingLM(dspy.LM):
    """Answers after thirty seconds."""

    def __init__(self) -> None:
        class Engine(FunctionEngine):
            supports_function_calling = supports_response_schema = supports_reasoning = False
            supported_params = frozenset({"temperature"})

            def complete(self, request: Any) -> Any:
                time.sleep(MODEL_SECONDS)
                raise TimeoutError

        class InThread(AsyncEngine):
            async def complete(self, request: Any) -> Any:
                return await anyio.to_thread.run_sync(self.engine.complete, request)

        engine = Engine(str)
        super().__init__("test/sleeping", engine=engine, async_engine=InThread(engine), cache=False, num_retries=0)


@tool(timeout=0.2, read_only=True)
def hang(key: str) -> str:
    """Hang."""
    time.sleep(600)
    return key


def answer(prompt: Any) -> str:
    """Make one call, then give the answer."""
    if "tool_calls" not in prompt.wants:
        return render_reply(reasoning="r", answer="done")
    return decision("finish", answer="done") if prompt.steps else decision("hang", key="a")


def budget(mode: str) -> tuple[float, str]:
    """Measure seconds until a run under a budget is back, and why it ended."""
    agent = ReActGenerator(tools=[], lm=SleepingLM(), limits=UsageLimits(seconds=BUDGET))
    started = time.monotonic()
    out = agent.run("x") if mode == "sync" else asyncio.run(_arun(agent))
    return time.monotonic() - started, out.termination_reason


async def _arun(agent: ReActGenerator) -> Any:
    return await agent.arun("x")


def hanging_calls() -> dict[str, int]:
    """Make runs that each make a call that hangs: how many ended, and the threads that are left."""
    agent = ReActGenerator(tools=[hang], lm=FunctionLM("t/hang", answer), policy=Policy(tool_retry=None, breaker=None))

    async def many() -> list[Any]:
        return await asyncio.gather(*(agent.arun("x") for _ in range(CALLS // 2)))

    with ThreadPoolExecutor(20) as pool:
        outputs = [*pool.map(lambda _: agent.run("x"), range(CALLS // 2)), *asyncio.run(many())]
    return {
        "answered": sum(out.answer == "done" for out in outputs),
        "threads": sum(thread.name == "ace-tool" for thread in threading.enumerate()),
    }


def main() -> dict[str, Any]:
    """Measure, print, write, and leave at once: the hanging threads are daemons."""
    sync, asynchronous = budget("sync"), budget("async")
    return {
        "budget_seconds": {"sync": sync[0], "async": asynchronous[0]},
        "slowest_seconds": max(sync[0], asynchronous[0]),
        "ended_by": [sync[1], asynchronous[1]],
        "hanging": hanging_calls(),
    }


if __name__ == "__main__":
    command(main)
