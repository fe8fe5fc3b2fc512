"""What observing costs the agent: ``python -m benchmarks.learning.background [OUT.json]``; one run, paired.

An agent whose model answers after 20 ms does the same tasks twice, in turns: alone, and with `Learner.observe` after each
run and a thread that learns meanwhile, over a state. Reported: the time inside `observe`, and how much longer runs are.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ace import Learner, Playbook, ReActGenerator
from ace.testing import FunctionLM
from ace.testing.engine import render_reply
from benchmarks.command import command

RUNS, LATENCY = 100, 0.02


def look(item: str) -> str:
    """Look an item up."""
    return f"{item}: id-{len(item)}, " + "in stock, " * 50


def sell(item_id: str) -> str:
    """Sell an item."""
    return f"sold {item_id}"


def clerk(prompt: Any) -> str:
    """Look up, sell, finish."""
    time.sleep(LATENCY)
    done = len(prompt.steps)
    if done == 0:
        return render_reply(
            next_thought="First.", next_tool_name="look", next_tool_args={"item": prompt.fields["task"]}
        )
    if done == 1:
        return render_reply(next_thought="Then.", next_tool_name="sell", next_tool_args={"item_id": "id-7"})
    return render_reply(next_thought="Done.", next_tool_name="finish", next_tool_args={"answer": "sold"})


def main() -> dict[str, Any]:
    """Return the report."""
    agent = ReActGenerator(tools=[look, sell], lm=FunctionLM("clerk", clerk))
    alone, watched, inside = [], [], []
    with tempfile.TemporaryDirectory() as folder, Playbook.open(Path(folder) / "book.db") as book:
        book.retrieve("warm up")
        with Learner(book, tools=agent.registry, state=Path(folder) / "runs") as learner:
            for n in range(RUNS):
                started = time.perf_counter()
                agent.run(f"Sell the item number {n} to a customer")
                alone.append(time.perf_counter() - started)
                started = time.perf_counter()
                output = agent.run(f"Sell another item, number {n}, to a customer")
                before = time.perf_counter()
                learner.observe(output, n % 3 > 0)
                now = time.perf_counter()
                inside.append(now - before)
                watched.append(now - started)
            learner.flush()
            learned = learner.report.runs
    return {
        "runs": RUNS,
        "learned": learned,
        "observe_ms": 1_000 * statistics.median(inside),
        "observe_p95_ms": 1_000 * statistics.quantiles(inside, n=20)[-1],
        "added_ms": 1_000 * statistics.median(w - a for w, a in zip(watched, alone, strict=True)),
        "run_ms": 1_000 * statistics.median(alone),
    }


if __name__ == "__main__":
    command(main)
