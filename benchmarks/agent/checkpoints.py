"""What it costs to save a graph: ``python -m benchmarks.agent.checkpoints OUT.json``.

A loop of an agent and a tool takes ten steps: once with `JsonlCheckpointer`, once with LangGraph's SQLite saver and once
without a saver, in turns. Both savers wait for the disk. The ratio of their times per step is given with the interval of
a bootstrap over the pairs. So is the CPU of a step, of all threads, over the same graph compiled by LangGraph, both without
a saver. Memory is that of a process that has run a hundred such threads, with a saver and without one.
A hundred threads at once show what is lost or mixed.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from ace import graph
from ace.graph import JsonlCheckpointer, Message, append, counter
from ace.tasks import ReasoningStep
from benchmarks.command import command

STEPS = 10
RESAMPLES = 4_000


class State(TypedDict, total=False):
    """An agent's."""

    task: str
    turns: Annotated[int, counter]
    messages: Annotated[list[Message], append]
    steps: Annotated[list[ReasoningStep], append]
    answer: str


def agent(state: State) -> dict[str, Any]:
    """Decide; what it says is as long as what models say."""
    turn = state.get("turns", 0)
    text = f"Turn {turn}: the order was found, and what comes next is to look at it once more. " * 5
    done = {"answer": "done"} if turn + 1 >= STEPS // 2 else {}
    return {"turns": 1, "messages": [Message(role="assistant", content=text)], **done}


def tool(state: State) -> dict[str, Any]:
    """Observe."""
    turn = state.get("turns", 0)
    seen = ReasoningStep(
        iteration=turn,
        tool_call_id=f"c{turn}",
        tool_name="look",
        tool_args={"order": turn},
        outcome="success",
        observation="order 17: two chairs, one table, paid, not sent. " * 8,
    )
    return {"steps": [seen]}


def builder() -> StateGraph[Any, Any, Any, Any]:
    """Build a graph of agent, tool, agent, tool ... ten steps."""
    made = StateGraph(State).add_node("agent", agent).add_node("tool", tool).add_edge(START, "agent")
    made.add_edge("agent", "tool")
    return made.add_conditional_edges("tool", lambda state: END if state.get("answer") else "agent", ["agent", END])


def run(workflow: Any, thread_id: str) -> float:
    """Return the milliseconds per step of one thread."""
    begun = time.perf_counter()
    state = workflow.invoke({"task": "Where is order 17?"}, **({"thread_id": thread_id} if thread_id else {}))
    assert state["turns"] == STEPS // 2
    return 1_000 * (time.perf_counter() - begun) / STEPS


def savers(folder: Path) -> dict[str, Any]:
    """Make the workflows to compare."""
    connection = sqlite3.connect(folder / "threads.db", check_same_thread=False)
    return {
        "jsonl": graph.compile(builder(), checkpointer=JsonlCheckpointer(folder / "threads")),
        "sqlite": graph.compile(builder(), checkpointer=SqliteSaver(connection)),
        "none": graph.compile(builder()),
    }


def paired(folder: Path, pairs: int) -> dict[str, list[float]]:
    """Return each saver's milliseconds per step, in turns, so that a slow moment of the machine hits all."""
    made, order = savers(folder), random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in made}
    for number in range(-3, pairs):
        for name in order.sample(list(made), len(made)):
            took = run(made[name], f"{name}-{number}" if name != "none" else "")
            if number >= 0:
                times[name].append(took)
    return times


def processor(pairs: int) -> tuple[list[float], list[float]]:
    """Return milliseconds of CPU per step of ours and of LangGraph's own, in turns, without a saver."""
    times: dict[str, list[float]] = {"ours": [], "langgraph": []}
    graphs = {"ours": graph.compile(builder()), "langgraph": builder().compile()}
    for number in range(-10, pairs):
        for name, workflow in graphs.items():
            begun = time.process_time()
            run(workflow, "")
            if number >= 0:
                times[name].append(1_000 * (time.process_time() - begun) / STEPS)
    return times["ours"], times["langgraph"]


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Return the ratio of the medians, and its 95 % interval by a bootstrap over the pairs."""
    draw, pairs = random.Random(1), list(zip(ours, theirs, strict=True))
    found: list[float] = []
    for _ in range(RESAMPLES):
        sample = draw.choices(pairs, k=len(pairs))
        found.append(statistics.median(a for a, _ in sample) / statistics.median(b for _, b in sample))
    found.sort()
    middle = statistics.median(ours) / statistics.median(theirs)
    return middle, found[RESAMPLES // 40], found[-RESAMPLES // 40]


def memory(kind: str, threads: int) -> int:
    """Return the kilobytes that a process has taken at most after this many threads."""
    with TemporaryDirectory() as folder:
        workflow = savers(Path(folder))[kind]
        for number in range(threads):
            run(workflow, f"t{number}" if kind != "none" else "")
    # not `ru_maxrss`, which counts what the process was before it began
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def crowd(folder: Path, threads: int) -> dict[str, Any]:
    """Run this many threads of the graph at once on one saver, and find those that are not as they should be."""
    saver = JsonlCheckpointer(folder / "crowd")
    workflow = graph.compile(builder(), checkpointer=saver)

    def work(number: int) -> bool:
        name = f"thread-{number}"
        state = workflow.invoke({"task": name}, thread_id=name)
        return state["task"] == name and len(state["steps"]) == STEPS // 2

    begun = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        right = list(pool.map(work, range(threads)))
    seconds = time.perf_counter() - begun
    fresh = graph.compile(builder(), checkpointer=JsonlCheckpointer(folder / "crowd"))
    read = [fresh.graph.get_state({"configurable": {"thread_id": f"thread-{number}"}}) for number in range(threads)]
    wrong = sum(
        not ok or state.values["task"] != f"thread-{number}" or len(saver.history(f"thread-{number}")) != STEPS + 2
        for number, (ok, state) in enumerate(zip(right, read, strict=True))
    )
    return {"threads": threads, "wrong": wrong, "seconds": seconds, "steps_per_second": threads * STEPS / seconds}


def main(pairs: int = 60) -> dict[str, Any]:
    """Return the report."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        times, together = paired(folder, pairs), crowd(folder, 100)
    middle, low, high = ratio(times["jsonl"], times["sqlite"])
    ours, theirs = processor(3 * pairs)
    taken = {
        kind: int(subprocess.run([sys.executable, __file__, "--memory", kind], capture_output=True, check=True).stdout)
        for kind in ("none", "jsonl", "sqlite")
    }
    return {
        "steps": STEPS,
        "pairs": pairs,
        "ms_per_step": {name: statistics.median(values) for name, values in times.items()},
        "cpu_ms_per_step": {"ours": statistics.median(ours), "langgraph": statistics.median(theirs)},
        "cpu_ratio": ratio(ours, theirs)[0],
        "ratio": middle,
        "ratio_low": low,
        "ratio_high": high,
        "memory_mb": {kind: (taken[kind] - taken["none"]) / 1024 for kind in ("jsonl", "sqlite")},
        "crowd": together,
    }


if __name__ == "__main__":
    print(memory(sys.argv[2], 100)) if sys.argv[1:2] == ["--memory"] else command(main)
