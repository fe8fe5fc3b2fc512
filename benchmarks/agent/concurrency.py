"""200 agents at once on one event loop, beside 200 equal programs of bare `dspy.Predict.acall`, in one run.

Equal: the same requests with the same prompts and replies, the same pauses for tools, and nothing else: no loop, no tools,
no checks, no books.

``python -m benchmarks.agent.concurrency [OUT.json]``. The model answers after 50 ms, the tool after 20 ms; each program
makes five calls and four looks. Rounds are interleaved.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import dspy

from ace import ReActGenerator, tool
from ace.react.catalog import ToolCatalog
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt
from benchmarks.command import command

PROGRAMS, LOOKS, ROUNDS = 200, 4, 3
LM_SECONDS, TOOL_SECONDS = 0.05, 0.02


class SlowAsync:
    """An async engine that takes its time without blocking."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    async def complete(self, request: Any) -> Any:
        """Answer later."""
        await asyncio.sleep(LM_SECONDS)
        return self.engine.complete(request)

    async def stream(self, request: Any) -> Any:
        """Stream as the engine does; it is not used here."""
        for event in self.engine.stream(request):
            yield event

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


def answer(prompt: Prompt) -> str:
    """Look four times with the task's own key, then answer with what was seen."""
    steps = prompt.steps
    if len(steps) < LOOKS:
        return decision("look", key=f"{prompt.fields['task']}.{len(steps)}")
    return decision("submit", answer=" ".join(step["observation"] for step in steps))


def model() -> FunctionLM:
    """Make the model, slow for async callers."""
    lm = FunctionLM("bench/slow", answer)
    lm.async_engine = SlowAsync(lm.engine)
    return lm


@tool(read_only=True)
async def look(key: str) -> str:
    """Look a key up."""
    await asyncio.sleep(TOOL_SECONDS)
    return f"saw-{key}"


async def stalls(longest: list[float]) -> None:
    """Watch the event loop: how long it did not come round."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        longest[0] = max(longest[0], time.perf_counter() - before - 0.001)


async def together(program: Callable[[int], Awaitable[bool]]) -> dict[str, float]:
    """Run all programs at once."""
    longest = [0.0]
    watcher = asyncio.create_task(stalls(longest))
    await asyncio.sleep(0.01)
    wall, cpu = time.perf_counter(), time.process_time()
    right = await asyncio.gather(*(program(i) for i in range(PROGRAMS)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    watcher.cancel()
    calls = PROGRAMS * (LOOKS + 1)
    return {
        "wall": wall,
        "cpu_ms_per_call": 1_000 * cpu / calls,
        "stall_ms": 1_000 * longest[0],
        "wrong": right.count(False),
    }


async def measure() -> dict[str, Any]:
    """Measure both, interleaved."""
    lm = model()
    agent = ReActGenerator(tools=[look], lm=lm, max_iters=10)
    predict = dspy.Predict(agent.agent.react.signature)
    catalog = ToolCatalog(agent.registry, agent.finish).text()

    async def ours(i: int) -> bool:
        out = await agent.arun(f"k{i}")
        return out.answer == " ".join(f"saw-k{i}.{n}" for n in range(LOOKS))

    async def bare(i: int) -> bool:
        turns: list[dict[str, Any]] = []
        said = {"task": f"k{i}", "tools": catalog}
        for n in range(LOOKS + 1):
            got = await predict.acall(**said, history=dspy.History(messages=list(turns)))
            if n < LOOKS:
                await asyncio.sleep(TOOL_SECONDS)
                [call] = got.tool_calls.tool_calls
                result = {"call_id": f"c{n}", "name": call.name, "value": f"saw-{call.args['key']}", "is_error": False}
                calls = {
                    "tool_calls": [{"id": f"c{n}", "name": call.name, "args": call.args}],
                    "tool_call_results": [result],
                }
                turns.append({**said, "next_thought": got.next_thought, "tool_calls": calls})
                said = {}
        return True

    rounds: dict[str, list[dict[str, float]]] = {"ours": [], "bare": []}
    with dspy.context(lm=lm):
        for number in range(ROUNDS + 1):
            if not number:
                gc.collect()
                gc.freeze()  # as servers do: a full collection of all that was imported stops any loop for 100 ms
            for name, program in (("bare", bare), ("ours", ours)):
                figures = await together(program)
                if number:
                    rounds[name].append(figures)
    report: dict[str, Any] = {
        name: {key: statistics.median(r[key] for r in rows) for key in rows[0]} for name, rows in rounds.items()
    }
    for key in ("wall", "cpu_ms_per_call"):
        pairs = zip(rounds["ours"], rounds["bare"], strict=True)
        report[f"{key}_ratio"] = statistics.median(a[key] / b[key] for a, b in pairs)
    report["stall_ms"] = max(r["stall_ms"] for r in rounds["ours"])
    report["agents"] = PROGRAMS * len(rounds["ours"])
    report["cross_talk"] = sum(r["wrong"] for r in rounds["ours"])
    return report


def main() -> dict[str, Any]:
    """Measure, and return the report."""
    dspy.configure(trace=None, disable_history=True)
    return asyncio.run(measure())


if __name__ == "__main__":
    command(main)
