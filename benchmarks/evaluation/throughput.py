"""What evaluating costs beside the model: ``python -m benchmarks.evaluation.throughput OUT.json``.

A stand-in answers at once, or after 200 ms. Its requests are counted, and made once by bare `dspy.Predict` and once by
`ace.evaluation.evaluate`, agent, trace, scorer and log on disk included: CPU per request, requests per second with 64 under
way in threads in one process, in each of two, and over two together; and the memory that finished runs leave.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextvars import copy_context
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.command import command

STEPS = 4
"""Requests of each run: three calls and the finish."""
LATENCY = 0.2
IN_FLIGHT = 64


def stand_in(latency: float) -> Any:
    """Make a model that calls `look` three times and finishes, whatever it is asked."""
    from ace.testing.engine import FunctionLM, render_reply

    def answer(prompt: Any) -> str:
        if latency:
            time.sleep(latency)
        if "tool_calls" not in prompt.wants:
            return render_reply(reasoning="r", answer="a")
        made = prompt.whole.count("[[ ## result")  # little work of its own: it is no part of what is measured
        name, args = ("finish", {"answer": "a"}) if made >= STEPS - 1 else ("look", {"name": f"n{made}"})
        return render_reply(next_thought="on", next_tool_name=name, next_tool_args=args)

    return FunctionLM("bench", answer)


def suite_of(n: int) -> Any:
    """Make this number of tasks over one tool."""
    from ace.agent.episode import Episode
    from ace.suites.protocol import GoldCall, SuiteTask
    from ace.tasks import Feedback, TaskInput
    from ace.tools import Tool, ToolRegistry

    def look(name: str) -> str:
        """Look something up."""
        return f"{name} is there"

    made = Tool.from_function(look, read_only=True)

    class Bench:
        name = "bench"
        instructions = "Look."
        writing_tools = frozenset[str]()
        tasks = tuple(
            SuiteTask(
                task=TaskInput(task_id=f"t{i}", inputs={"task": f"Look up {i}"}),
                domain="d",
                group=f"g{i % 12}",
                gold=(GoldCall(name="look"),),
            )
            for i in range(n)
        )

        def episode(self, task: SuiteTask) -> Episode:
            return Episode(
                task.task, ToolRegistry([made]), lambda output: Feedback(success=output.completed), task.group
            )

    return Bench()


def bare(requests: int, latency: float, workers: int) -> tuple[float, float]:
    """Measure CPU and wall seconds per request of `dspy.Predict`."""
    import dspy

    lm, predict = stand_in(latency), dspy.Predict("task -> answer")

    def ask(i: int) -> None:
        predict(task=f"Look up {i}", lm=lm)

    ask(-1)
    cpu, wall = time.process_time(), time.perf_counter()
    if workers == 1:
        for i in range(requests):
            ask(i)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda i, context=None: copy_context().run(ask, i), range(requests)))
    return (time.process_time() - cpu) / requests, (time.perf_counter() - wall) / requests


def ours(requests: int, latency: float, workers: int) -> tuple[float, float]:
    """Measure the same of an evaluation."""
    from ace.evaluation import evaluate
    from ace.evaluation.log import RunLog

    lm, suite = stand_in(latency), suite_of(requests // STEPS)
    list(evaluate(suite, lambda _: lm, tasks=suite.tasks[:1]))
    with TemporaryDirectory() as folder, RunLog(Path(folder) / "runs.jsonl") as log:
        runs = evaluate(suite, lambda _: lm, log=log, workers=workers)
        cpu, wall, made = time.process_time(), time.perf_counter(), 0
        for attempt in runs:
            made += attempt.output.usage.lm_calls
    assert made == requests // STEPS * STEPS, made
    return (time.process_time() - cpu) / made, (time.perf_counter() - wall) / made


def growth(runs: int) -> float:
    """Measure the bytes that a finished run leaves in memory."""
    from ace.evaluation import evaluate
    from ace.evaluation.log import RunLog

    lm, suite = stand_in(0.0), suite_of(2 * runs)
    with TemporaryDirectory() as folder, RunLog(Path(folder) / "runs.jsonl") as log:
        made = evaluate(suite, lambda _: lm, log=log)
        for _ in range(runs):
            next(made)
        gc.collect()
        tracemalloc.start()
        for _ in range(runs):
            next(made)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return size / runs


def main(requests: int = 1_920) -> dict[str, Any]:
    """Measure side by side, and return the report."""
    cpu = [(bare(requests, 0.0, 1)[0], ours(requests, 0.0, 1)[0]) for _ in range(3)]
    added = sorted(1_000 * (own - plain) for plain, own in cpu)[1]
    rate: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(3):
        for name, made in (("bare", bare), ("ours", ours)):
            rate[name].append(1 / made(4 * requests, LATENCY, IN_FLIGHT)[1])
    median = {name: sorted(found)[1] for name, found in rate.items()}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:

        def in_two(made: Any, in_flight: int) -> float:
            """Measure requests per second of two processes together, with this number under way over both."""
            share = 2 * requests * in_flight // IN_FLIGHT
            halves = [pool.submit(made, share, LATENCY, in_flight // 2) for _ in range(2)]
            return sum(1 / half.result()[1] for half in halves)

        ideal = IN_FLIGHT / LATENCY
        both, doubled, floor = in_two(ours, IN_FLIGHT), in_two(ours, 2 * IN_FLIGHT), in_two(bare, 2 * IN_FLIGHT)
    return {
        "cpu_ms_added_per_request": added,
        "requests_per_second": median,
        "ideal": ideal,
        "kept_in_one_process": median["ours"] / median["bare"],
        "two_processes": doubled,
        "kept_in_two_processes": doubled / (2 * ideal),
        "kept_in_two_processes_by_bare": floor / (2 * ideal),
        "kept_by_64_over_two_processes": both / ideal,
        "bytes_left_per_run": growth(requests // STEPS),
    }


if __name__ == "__main__":
    command(main)
