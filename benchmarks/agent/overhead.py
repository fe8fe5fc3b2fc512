"""What the loop itself costs: CPU per LM call with a zero-latency model, side by side in one run.

``make bench`` or ``python -m benchmarks.agent.overhead [OUT.json]``. Contestants: plain `dspy.ReActV2`, `ReActGenerator`,
one bare `dspy.Predict` (the floor), LangGraph's prebuilt agent and Pydantic AI's agent. The last two run in virtual
environments of their own (``benchmarks/peers``), made on first use. Rounds are interleaved, so that a noisy machine hits
all alike; figures are medians, and ratios are medians of the ratios within a round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import dspy

from ace import ReActGenerator, Tool
from ace.react.program import REACT
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt, render_reply
from benchmarks.command import command
from benchmarks.peers.peer import Peer

ROUNDS = 9
STEPS = (10, 50)
TOOLS = (10, 50, 100)
PEERS = {"langgraph": "LangGraph", "pydantic_ai": "Pydantic AI"}


def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


def model(steps: int) -> tuple[FunctionLM, list[int]]:
    """Make a model that looks up `steps` keys and finishes, and a count of how often it was asked."""
    asked = [0]

    def answer(prompt: Prompt) -> str:
        asked[0] += 1
        if "tool_calls" not in prompt.wants:
            return render_reply(reasoning="r", answer="done")
        done = prompt.whole.count("value of k")
        return decision("lookup", key=f"k{done}") if done < steps else decision("submit", answer="done")

    return FunctionLM("bench/lookup", answer), asked


def cpu_per_call(run: Callable[[], object], asked: list[int]) -> float:
    """Return milliseconds of CPU per LM call."""
    asked[0] = 0
    started = time.process_time()
    run()
    return 1_000 * (time.process_time() - started) / asked[0]


def agent_of(name: str) -> Peer:
    """Return another framework's agent."""
    return Peer(name, f"{name}_agent.py")


def spent(peer: Peer, steps: int) -> float:
    """Return milliseconds of CPU per LM call of one run."""
    answer = peer.ask({"steps": steps})
    if not answer["ok"]:
        raise RuntimeError(f"the peer's run went wrong: {answer}")
    return answer["cpu_ms_per_call"]


def contestants(steps: int, peers: dict[str, Peer]) -> dict[str, Callable[[], float]]:
    """Name to one measurement."""
    lm, asked = model(steps)
    bare, asked_bare = model(0)
    plain = REACT("task -> answer", tools=[lookup], max_iters=steps + 1)
    ours = ReActGenerator(tools=[lookup], max_iters=steps + 1, lm=lm)
    floor = dspy.Predict("task -> answer")

    def predict() -> float:
        with dspy.context(lm=bare):
            return cpu_per_call(lambda: [floor(task="x") for _ in range(10)], asked_bare)

    def react() -> float:
        with dspy.context(lm=lm):
            return cpu_per_call(lambda: plain(task="x"), asked)

    found: dict[str, Callable[[], float]] = {
        "dspy.ReActV2": react,
        "ReActGenerator": lambda: cpu_per_call(lambda: ours.run("x"), asked),
        "bare Predict": predict,
    }
    return found | {PEERS[name]: (lambda peer=peer: spent(peer, steps)) for name, peer in peers.items()}


def with_tools(n: int) -> Callable[[], float]:
    """Make one measurement at 10 steps with `n` tools in the catalog."""
    lm, asked = model(10)
    others = [Tool.from_function(lookup, name=f"lookup_{i}") for i in range(n - 1)]
    ours = ReActGenerator(tools=[lookup, *others], max_iters=11, lm=lm)
    return lambda: cpu_per_call(lambda: ours.run("x"), asked)


def interleaved(measures: dict[Any, Callable[[], float]]) -> dict[Any, list[float]]:
    """Measure each contestant once per round, after one round that does not count."""
    times: dict[Any, list[float]] = {name: [] for name in measures}
    for number in range(ROUNDS + 1):
        for name, measure in measures.items():
            taken = measure()
            if number:
                times[name].append(taken)
    return times


def ratio(times: dict[Any, list[float]], one: Any, other: Any) -> float:
    """Return the median of the ratios within a round."""
    return statistics.median(a / b for a, b in zip(times[one], times[other], strict=True))


def calls_per_task() -> dict[str, int]:
    """Count the LM calls of one finished task of ten steps."""
    lm, asked = model(10)
    ReActGenerator(tools=[lookup], max_iters=20, lm=lm).run("x")
    ours, asked[0] = asked[0], 0
    with dspy.context(lm=lm):
        REACT("task -> answer", tools=[lookup], max_iters=20)(task="x")
    return {"ours": ours, "dspy": asked[0], "fewer": asked[0] - ours}


def main() -> dict[str, Any]:
    """Measure, and return the report."""
    dspy.configure(trace=None, disable_history=True)
    peers = {name: agent_of(name) for name in PEERS}
    report: dict[str, Any] = {"versions": {"dspy": dspy.__version__}, "steps": {}}
    for peer in peers.values():
        report["versions"] |= peer.versions
    names = ("dspy.ReActV2", "ReActGenerator", "bare Predict", *PEERS.values())
    for steps in STEPS:
        times = interleaved(contestants(steps, peers))
        row: dict[str, Any] = {name: statistics.median(values) for name, values in times.items()}
        row["ratios"] = {name: ratio(times, "ReActGenerator", name) for name in names if name != "ReActGenerator"}
        report["steps"][str(steps)] = row
    for peer in peers.values():
        peer.close()
    flat = interleaved({n: with_tools(n) for n in TOOLS})
    report["tools"] = {str(n): statistics.median(values) for n, values in flat.items()}
    report["tools_ratio"] = max(ratio(flat, n, TOOLS[0]) for n in TOOLS)
    report["calls"] = calls_per_task()
    return report


if __name__ == "__main__":
    command(main)
