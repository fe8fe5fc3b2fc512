"""A ten-step graph that is cut and killed for real: ``graph_harness.py FOLDER KILLS SEED``.

Each run is a process of its own, forked from one that has imported everything. A killed run is gone on with by others, which
may be killed, too, until one comes to the end; its state is compared with that of an undisturbed run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from children import in_child
from langgraph.graph import START, StateGraph

from ace import graph
from ace.graph import GraphError, JsonlCheckpointer, append, counter, merge_map, override
from ace.tasks import ReasoningStep

STEPS = 10


class State(TypedDict, total=False):
    seed: int
    n: Annotated[int, counter]
    log: Annotated[list[str], append]
    facts: Annotated[dict[str, Any], merge_map]
    steps: Annotated[list[ReasoningStep], append]
    last: Annotated[tuple[int, ...], override]


def node(name: str, slow: float):
    def run(state: State) -> dict[str, Any]:
        if slow:
            time.sleep(slow)
        value = (state["seed"] * 31 + state.get("n", 0) * 7) % 1_000
        step = ReasoningStep(
            iteration=1, tool_call_id=name, tool_name=name, outcome="success", observation=f"{value} ✓"
        )
        return {"n": 1, "log": [f"{name} {value}"], "facts": {name: [value, None]}, "steps": [step], "last": (value, 1)}

    return run


def workflow(folder: Path, slow: float = 0.0, wide: tuple[int, ...] = (3, 7)):
    """Ten steps; in those that are `wide`, two nodes run side by side."""
    builder, previous = StateGraph(State), START
    for i in range(STEPS):
        builder.add_node(f"n{i}", node(f"n{i}", slow))
        builder.add_edge(previous, f"n{i}")
        if i in wide:
            builder.add_node(f"m{i}", node(f"m{i}", slow))
            builder.add_edge(f"n{i - 1}", f"m{i}")
            builder.add_edge(f"m{i}", f"n{i + 1}")
        previous = f"n{i}"
    return graph.compile(builder, checkpointer=JsonlCheckpointer(folder))


def finish(folder: Path, seed: int, slow: float = 0.0) -> dict[str, Any]:
    """Begin, or go on, until the end."""
    made = workflow(folder, slow)
    if made.checkpointer.get_tuple({"configurable": {"thread_id": "t"}}) is None:
        return made.invoke({"seed": seed}, thread_id="t")
    return made.resume("t")


def undisturbed(folder: Path, seed: int) -> dict[str, Any]:
    return workflow(folder).invoke({"seed": seed}, thread_id="t")


def killed(folder: Path, draw: random.Random, whole: int, step: float) -> tuple[list[int | None], dict[str, Any]]:
    """One run, killed, then once more with probability one half, then gone on with: the steps of the deaths, the end.

    It dies when its file holds a random share of the `whole` run's bytes, and a random part of a `step`'s seconds have
    passed: on a machine of any speed the deaths fall everywhere in the run.
    """
    folder.mkdir()
    reached: list[int | None] = []
    checkpointer = JsonlCheckpointer(folder)
    while True:
        pid = in_child(lambda: finish(folder, 1, 0.001))
        wait_for(pid, checkpointer.path_of("t"), draw.random() * whole)
        time.sleep(draw.random() * step)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            break
        saved = checkpointer.history("t")
        reached.append(saved[0].step if saved else None)
        if draw.random() < 0.5:
            break
    return reached, finish(folder, 1)


def wait_for(pid: int, file: Path, size: float) -> None:
    """Return when the file is that large, or the process has ended."""
    while not (file.exists() and file.stat().st_size >= size):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.0002)


def main(folder: str, kills: str, seed: str) -> None:
    root, draw = Path(folder), random.Random(int(seed))
    expected = undisturbed(root / "whole", 1)
    begun = time.perf_counter()
    finish(root / "timed", 1, 0.001)
    step = (time.perf_counter() - begun) / STEPS
    whole = JsonlCheckpointer(root / "timed").path_of("t").stat().st_size
    wrong, reached, number = [], list[int | None](), 0
    while len(reached) < int(kills):
        number += 1
        deaths, state = killed(root / f"k{number}", draw, whole, step)
        reached += deaths
        if state != expected:
            wrong.append(number)
    print(json.dumps({"kills": len(reached), "wrong": wrong, "moments": len(set(reached)), "steps": reached}))


def cut_everywhere(folder: Path, every: int = 1, crew: int = 2) -> tuple[int, list[Any]]:
    """Cut a whole run's file at every byte, go on, and compare; how many cuts there were, and which went wrong."""
    os.fsync = lambda file: None  # no power cut is tested here, and syncing is slow
    made = workflow(folder / "whole", wide=())
    expected = made.invoke({"seed": 5}, thread_id="t")
    data = made.checkpointer.path_of("t").read_bytes()
    cuts = range(0, len(data), every)
    members: list[int] = []
    for member in range(crew):
        members.append(in_child(lambda member=member: cut(folder, data, cuts[member::crew], member, expected)))
    failed = [os.waitpid(pid, 0)[1] for pid in members]
    wrong = [json.loads((folder / f"wrong{member}.json").read_text()) for member in range(crew)]
    return len(cuts), [*filter(None, failed), *(one for found in wrong for one in found)]


def cut(folder: Path, data: bytes, cuts: range, member: int, expected: dict[str, Any]) -> None:
    """One member's share of the cuts."""
    wrong: list[Any] = []
    part = folder / f"cut{member}"
    part.mkdir()
    target = JsonlCheckpointer(part).path_of("t")
    for at in cuts:
        target.write_bytes(data[:at])
        made = workflow(part, wide=())
        try:
            begun = made.checkpointer.get_tuple({"configurable": {"thread_id": "t"}}) is not None
            state = made.resume("t") if begun else made.invoke({"seed": 5}, thread_id="t")
            if state != expected:
                wrong.append(at)
        except GraphError as error:
            wrong.append([at, str(error)])
        target.unlink()
    (folder / f"wrong{member}.json").write_text(json.dumps(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
