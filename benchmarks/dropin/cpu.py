"""What being seen costs: ``python -m benchmarks.dropin.cpu OUT.json``.

CPU per LM call of runs with ten tool calls and a zero-latency model, by the commit before tool calls were shown to tracers
and by this tree: with nothing listening, with a callback of DSPy, and with an OpenTelemetry provider that keeps spans in
memory. They take turns in processes of their own; the ratios are medians over the turns, with the 95 % interval of a
bootstrap.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.command import command
from benchmarks.worker import Worker

BEFORE = "1b38c3e"
KINDS = ("quiet", "callbacks", "otel")
PAIRS, WARM, RUNS, RESAMPLES = 60, 3, 12, 5_000
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, sys, time
import dspy
from ace import ReActGenerator
from ace.testing import FunctionLM, decision

def lookup(key: str) -> str:
    "Look a key up."
    return f"value of {key}"

asked = [0]
def answer(prompt):
    asked[0] += 1
    done = getattr(prompt, "whole", prompt.text).count("value of k")  # in either form of a prompt
    return decision("lookup", key=f"k{done}") if done < 10 else decision("finish", answer="done")

dspy.configure(trace=None, disable_history=True)
if sys.argv[1] == "otel":
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
if sys.argv[1] == "callbacks":
    dspy.configure(callbacks=[dspy.utils.callback.BaseCallback()])
agent = ReActGenerator(tools=[lookup], max_iters=11, lm=FunctionLM("bench/lookup", answer))
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    runs = json.loads(line)["runs"]
    asked[0], started = 0, time.process_time()
    for _ in range(runs):
        agent(task="x")
    print(json.dumps({"cpu": 1_000 * (time.process_time() - started) / asked[0]}), flush=True)
    if sys.argv[1] == "otel":
        exporter.clear()
"""


def worker(root: Path, kind: str) -> Worker:
    """Start a process that runs a tree."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    started = Worker([sys.executable, "-c", SCRIPT, kind], environment, root)  # the folder comes first on the path
    started.read()
    return started


def ratio(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Return the median of the ratios within a turn, with its interval."""
    ratios = np.array(ours) / np.array(theirs)
    drawn = np.random.default_rng(0).integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), [0.025, 0.975])
    return {"estimate": float(np.median(ratios)), "low": float(low), "high": float(high)}


def main() -> dict[str, Any]:
    """Take turns, and return the report."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", BEFORE, "ace"], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        trees = {"before": Path(folder), "now": ROOT}
        workers = {f"{name} {kind}": worker(root, kind) for kind in KINDS for name, root in trees.items()}
        taken: dict[str, list[float]] = {name: [] for name in workers}
        for turn in track(range(WARM + PAIRS), "turns", console=Console(stderr=True)):
            for name, process in workers.items():
                cpu = process.ask({"runs": RUNS})["cpu"]
                if turn >= WARM:
                    taken[name].append(cpu)
        for process in workers.values():
            process.close()
    ratios = {kind: ratio(taken[f"now {kind}"], taken[f"before {kind}"]) for kind in KINDS}
    return {
        "pairs": PAIRS,
        "cpu_ms_per_call": {name: float(np.median(values)) for name, values in taken.items()},
        "ratios": ratios,
        "traced_low": max(ratios[kind]["low"] for kind in KINDS if kind != "quiet"),
    }


if __name__ == "__main__":
    command(main)
