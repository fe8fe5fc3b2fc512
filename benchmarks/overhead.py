"""What the loop itself costs: CPU per LM call against `dspy.ReAct`, same tools, same zero-latency model, one run.

``make bench``. Prints a table and the ratio at 10 and 30 steps; the floor is one bare `dspy.Predict`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import dspy
from rich.console import Console
from rich.table import Table

from ace import ReActGenerator
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt, render_reply

ROUNDS = 5


def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


def model(steps: int) -> tuple[FunctionLM, list[int]]:
    """A model that looks up `steps` keys and finishes; and how often it was asked."""
    asked = [0]

    def answer(prompt: Prompt) -> str:
        asked[0] += 1
        if "next_tool_name" not in prompt.wants:
            return render_reply(reasoning="r", answer="done")
        done = prompt.text.count("[[ ## observation_")
        return decision("lookup", key=f"k{done}") if done < steps else decision("finish", answer="done")

    return FunctionLM("bench/lookup", answer), asked


def cpu_per_call(run: Callable[[], object], asked: list[int]) -> float:
    """Milliseconds of CPU per LM call."""
    asked[0] = 0
    started = time.process_time()
    run()
    return 1_000 * (time.process_time() - started) / asked[0]


def main() -> None:
    """Interleave the contestants, so that a noisy machine hits both alike."""
    table = Table(title="CPU milliseconds per LM call (median of 5, interleaved)", title_justify="left")
    for name in ("steps", "dspy.ReAct", "ReActGenerator", "bare Predict", "ratio to dspy.ReAct"):
        table.add_column(name, justify="right")
    for steps in (10, 30):
        lm, asked = model(steps)
        plain = dspy.ReAct("task -> answer", tools=[lookup], max_iters=steps + 1)
        ours = ReActGenerator(tools=[lookup], max_iters=steps + 1, lm=lm)
        floor = dspy.Predict("task -> answer")
        bare, asked_bare = model(0)
        times: dict[str, list[float]] = {"plain": [], "ours": [], "floor": []}
        for _ in range(ROUNDS):
            with dspy.context(lm=lm, trace=None):
                times["plain"].append(cpu_per_call(lambda plain=plain: plain(task="x"), asked))
                times["ours"].append(cpu_per_call(lambda ours=ours: ours.run("x"), asked))
            with dspy.context(lm=bare, trace=None):
                times["floor"].append(
                    cpu_per_call(lambda floor=floor: [floor(task="x") for _ in range(10)], asked_bare)
                )
        medians = {name: statistics.median(values) for name, values in times.items()}
        ratio = medians["ours"] / medians["plain"]
        table.add_row(str(steps), *(f"{medians[n]:.2f}" for n in ("plain", "ours", "floor")), f"{ratio:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
