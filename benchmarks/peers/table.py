"""Ours beside its peers on the same tasks with the same stand-in: ``make bench-peers`` (simulated).

``python -m benchmarks.peers.table [OUT.json] [--seeds 3] [--limit N]``. Agents without a memory: plain `dspy.ReActV2`,
LangGraph's prebuilt agent, Pydantic AI's agent, and ours. With one: ours with its playbook, and `dspy.ReActV2` with the
memory of ace-framework, ace-playbook, mem0 or LangMem in front of it, which stands in the prompt as one more input.
Every peer lives in a virtual environment of its own (``benchmarks/peers``), made on first use; tools and the stand-in
stay here. One that cannot be installed is named, with the reason.

All learn on the first part of `office`, each task tried without notes until it is solved, at most five times. Our
playbook learns from all of these runs, failed ones included, as it does for users, without asking a model. The others,
which cannot do that without one, are given each solved run as a note of the same form, with the same MiniLM vector;
they show their three best notes or, where they retrieve nothing, all of them. Agents without a memory are compared with
ours without one, memories with our playbook in our loop and in front of `dspy.ReActV2`. The stand-in reads every note
wherever it stands: it is never distracted, so a memory that shows everything loses nothing but tokens.

The overhead is that of the loop with a model that answers at once (`overhead.py`), without the way between processes.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import dspy
from rich.progress import track

from ace.agent.history import SUBMIT
from ace.evaluation import evaluate
from ace.evaluation.arms import arm_source
from ace.evaluation.episodes import Attempt
from ace.evaluation.report.summary import comparisons, summarise
from ace.evaluation.row import RunReport
from ace.evaluation.study import TRAINING_SEED_OFFSET
from ace.learner import Learner
from ace.playbook import MiniLMEmbedder, Playbook, PlaybookBullet
from ace.playbook.render import count_tokens, render_bullet, render_bullets
from ace.react.program import REACT
from ace.reflector import Reflector
from ace.suites import load_suite, split
from ace.suites.protocol import Suite, SuiteTask, changing
from ace.tasks import TaskOutput
from ace.testing import SimulatedLM
from ace.testing.engine import Prompt
from ace.tools import ToolCall, call_tool, check_call
from benchmarks.agent import overhead
from benchmarks.command import command
from benchmarks.peers.peer import Peer

EPOCHS, K, MAX_ITERS = 5, 3, 20
OURS, BARE, SAME_LOOP = "ours, with its playbook", "ours, no memory", "dspy.ReActV2 + our playbook"
AGENTS = {"LangGraph": ("langgraph", "langgraph_tasks.py"), "Pydantic AI": ("pydantic_ai", "pydantic_ai_tasks.py")}
MEMORIES = {"ace-framework": "ace_framework", "ace-playbook": "ace_playbook", "mem0": "mem0", "LangMem": "langmem"}
NOTE = re.compile(r"\[b-\d+\] \(\w+\) For a task like <.*?>: .*? Tools: [\w.]+(?: -> [\w.]+)*")
"""A note, wherever a memory's own way of showing it puts it."""


@dataclass(frozen=True)
class Offered(Prompt):
    """A prompt whose tools stand elsewhere than in our catalog."""

    catalog: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """What the agent offers."""
        return dict(self.catalog)


@dataclass(frozen=True)
class Heard:
    """A conversation of native tool calls, as the stand-in reads prompts."""

    fields: Mapping[str, str]
    tools: Mapping[str, Any]
    steps: Sequence[Mapping[str, str]]
    rejected: tuple[str, ...] = ()
    must_end: bool = False


class StandIn(SimulatedLM):
    """The stand-in behind other agents' prompts; it counts how often it is asked."""

    def __init__(self, suite: Suite, seed: int) -> None:
        super().__init__(suite, seed=seed)
        self.asked = 0
        self.offered: Mapping[str, Any] = {}

    def _answer(self, prompt: Any) -> str:
        self.asked += 1
        if isinstance(prompt, Prompt) and not prompt.tools:
            prompt = Offered(prompt.messages, self.offered)
        return super()._answer(prompt)

    def decide(self, task: str, steps: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """Make the next decision, for an agent with native tool calls."""
        reply = self._answer(Heard({"task": task}, self.offered, steps))
        found = dict(re.findall(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\Z)", reply, re.S))
        [call] = json.loads(found["tool_calls"])["tool_calls"]
        if call["name"] == SUBMIT:
            return {"answer": call["args"].get("answer", "Done.")}
        return {"tool": call["name"], "args": call["args"], "thought": found["next_thought"]}


def catalog(episode: Any) -> dict[str, Any]:
    """Return the tools of a world, as the stand-in reads them."""
    tools = {n: episode.registry.get(n) for n in episode.registry.names}
    found = {n: {"name": n, "description": t.description, "args": t.schema} for n, t in tools.items()}
    return found | {SUBMIT: {"name": SUBMIT, "description": "End.", "args": {"properties": {}}}}


def row(arm: str, task: SuiteTask, seed: int, episode: Any, completed: bool, iterations: int, **more: Any) -> RunReport:
    """Make a run of another agent a row of our tables; the suite's own scorer judges."""
    ended = "completed" if completed else "max_iterations"
    output = TaskOutput(task_id=task.id, run_id="peer", task=task.task, termination_reason=ended)
    feedback = episode.score(output)
    tables = feedback.details["state_sha256"]
    return RunReport(
        id=task.id, arm=arm, seed=seed, domain=task.domain, group=task.group, correct=feedback.success,
        iterations=iterations, termination=ended, state_sha256="", tables_sha256=tables, invalid_actions=0, **more,
    )  # fmt: skip


def through_dspy(arm: str, suite: Suite, task: SuiteTask, seed: int, shown: str | None) -> RunReport:
    """Run plain `dspy.ReActV2`; `shown` is what a memory puts into the prompt, and the stand-in finds the notes in it."""
    episode, lm = suite.episode(task), StandIn(suite, seed)
    lm.offered = catalog(episode)
    tools = [episode.registry.get(name) for name in episode.registry.names]
    wrapped = [dspy.Tool(tool.func, name=tool.name, desc=tool.description) for tool in tools]
    inputs = {"task": task.task.text}
    if shown is not None:
        inputs["playbook"] = "\n".join(NOTE.findall(shown))
    agent = REACT(
        dspy.Signature(f"{', '.join(inputs)} -> answer", suite.instructions), tools=wrapped, max_iters=MAX_ITERS
    )
    with dspy.context(lm=lm):
        completed = agent(**inputs).termination_reason == "submit"
    tokens = count_tokens(shown) if shown else 0
    return row(arm, task, seed, episode, completed, lm.asked, lm_calls=lm.asked, memory_tokens=tokens)


def through_peer(arm: str, suite: Suite, task: SuiteTask, seed: int, peer: Peer) -> RunReport:
    """Run another framework's agent; its tools and its model are here."""
    episode, lm = suite.episode(task), StandIn(suite, seed)
    lm.offered = catalog(episode)
    tools = [episode.registry.get(name) for name in episode.registry.names]
    described = [{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in tools]
    answer = peer.ask(
        {"task": task.task.text, "instructions": suite.instructions, "tools": described, "max_iters": MAX_ITERS}
    )
    while "done" not in answer:
        if "model" in answer:
            answer = peer.ask(lm.decide(task.task.text, answer["model"]))
        else:
            call: ToolCall = check_call(episode.registry, answer["call"], answer["args"], "c")
            answer = peer.ask({"observation": call_tool(episode.registry.get(call.name), call).text})
    if "error" in answer:
        ERRORS.setdefault(arm, []).append(f"{task.id}: {answer['error']}")
    return row(arm, task, seed, episode, answer.get("completed", False), lm.asked, lm_calls=lm.asked)


ERRORS: dict[str, list[str]] = {}
"""What frameworks raised, by arm; such a run has failed."""


def training_runs(suite: Suite, tasks: Sequence[SuiteTask], seed: int) -> list[Attempt]:
    """Run each task without notes, until it is solved."""
    left, made = list(tasks), list[Attempt]()
    for epoch in range(EPOCHS):
        now = list(
            evaluate(
                suite,
                lambda seed: SimulatedLM(suite, seed=seed),
                tasks=left,
                seeds=[TRAINING_SEED_OFFSET * (seed + 1) + epoch],
            )
        )
        made += now
        solved = {attempt.task.id for attempt in now if attempt.feedback.success}
        left = [task for task in left if task.id not in solved]
    return made


def notes_of(suite: Suite, runs: Sequence[Attempt]) -> list[str]:
    """Write a note for each solved run."""
    notes: list[str] = []
    for attempt in runs:
        if attempt.feedback.success:
            names = tuple(step.tool_name for step in attempt.output.structured_trace if step.tool_name)
            bullet = PlaybookBullet(
                id=f"b-{len(notes) + 1}",
                section="Strategies",
                trigger=" ".join(attempt.task.task.text.split()),
                content="This worked.",
                tool_sequence=names,
                changing_tools=changing(suite, attempt.task),
            )
            notes.append(render_bullet(bullet))
    return [note for note in notes if NOTE.fullmatch(note)]


def ours(suite: Suite, tasks: Sequence[SuiteTask], seed: int, runs: Sequence[Attempt]) -> list[RunReport]:
    """Run our agent without a memory and with what it learned, and that in front of `dspy.ReActV2`."""
    with Playbook() as book:
        with Learner(book, reflector=Reflector("simulated")) as learner:
            for attempt in runs:
                hashes = suite.episode(attempt.task).registry.schema_hashes
                learner.learn(attempt.output, attempt.feedback, hashes, group=attempt.task.group)
        made = evaluate(
            suite,
            lambda seed: SimulatedLM(suite, seed=seed),
            tasks=tasks,
            arms=("none", "playbook"),
            seeds=[seed],
            playbook=book,
        )
        rows = [attempt.report() for attempt in made]
        rows = [r.model_copy(update={"arm": OURS if r.arm == "playbook" else BARE}) for r in rows]
        for task in track(tasks, f"seed {seed}: our playbook in front of dspy.ReActV2"):
            source = arm_source("playbook", suite, task, book)
            assert source is not None
            shown = source.retrieve_for(task.task, suite.episode(task).registry.schema_hashes)
            rows.append(through_dspy(SAME_LOOP, suite, task, seed, render_bullets(shown)))
    return rows


def remembered(arm: str, peer: Peer, notes: Sequence[str], vectors: Mapping[str, Any]) -> None:
    """Fill another library's memory."""
    for note in notes:
        peer.ask({"add": note, "vector": vectors[note].tolist()})
    peer.ask({"learned": True})


def started(versions: dict[str, str], missing: dict[str, str], title: str, *words: str) -> Peer | None:
    """Start a peer, or say why there is none."""
    try:
        peer = Peer(*words)
    except (subprocess.CalledProcessError, RuntimeError, OSError) as error:
        missing[title] = str(error)
        return None
    versions |= peer.versions
    return peer


def main(seeds: int = 3, limit: int | None = None) -> dict[str, Any]:
    """Run everybody on at most so many of the tasks compared on, and return the report."""
    dspy.configure(trace=None, disable_history=True)
    suite, model = load_suite("office"), MiniLMEmbedder()
    train, test = split(suite.tasks, "halves")
    test = test[:limit]
    rows: list[RunReport] = []
    versions = {"dspy": version("dspy"), "dspy-ace": version("dspy-ace")}
    missing: dict[str, str] = {}
    looked_up: dict[str, list[float]] = {}
    agents = {name: started(versions, missing, name, *words) for name, words in AGENTS.items()}
    for seed in range(seeds):
        runs = training_runs(suite, train, seed)
        notes = notes_of(suite, runs)
        texts = [*notes, *(task.task.text for task in test)]
        vectors = dict(zip(texts, model.embed(texts), strict=True))
        rows += ours(suite, test, seed, runs)
        for task in track(test, f"seed {seed}: agents"):
            rows.append(through_dspy("dspy.ReActV2", suite, task, seed, None))
            rows += [through_peer(name, suite, task, seed, peer) for name, peer in agents.items() if peer is not None]
        for name, home in MEMORIES.items():
            arm = f"dspy.ReActV2 + {name}"
            peer = started(versions, missing, arm, home, "memories.py", home) if arm not in missing else None
            if peer is None:
                continue
            remembered(arm, peer, notes, vectors)
            for task in track(test, f"seed {seed}: {name}"):
                answer = peer.ask({"look_up": task.task.text, "vector": vectors[task.task.text].tolist(), "k": K})
                looked_up.setdefault(arm, []).append(answer["ms"])
                rows.append(through_dspy(arm, suite, task, seed, answer["shown"]))
            peer.close()
    for peer in agents.values():
        if peer is not None:
            peer.close()
    return compared(rows, loop_costs(missing), looked_up, versions, missing)


def loop_costs(missing: Mapping[str, str]) -> dict[str, float]:
    """Measure CPU milliseconds of each loop per LM call, side by side."""
    peers = {name: overhead.agent_of(name) for name, title in overhead.PEERS.items() if title not in missing}
    times = overhead.interleaved(overhead.contestants(10, peers))
    for peer in peers.values():
        peer.close()
    return {name: statistics.median(values) for name, values in times.items()}


def loop_of(arm: str) -> str:
    """Return which loop an arm runs in."""
    return "ReActGenerator" if arm in (OURS, BARE) else arm.partition(" + ")[0]


def pairs_of(cells: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pair who is compared: agents without a memory with ours without one, memories with ours, in either loop."""
    peers = [name for name in cells if name not in (OURS, BARE, SAME_LOOP)]
    memories = [name for name in peers if " + " in name]
    return [(BARE, name) for name in peers if name not in memories] + [
        (ours, name) for ours in (OURS, SAME_LOOP) for name in memories
    ]


def ahead(cell: Mapping[str, Any]) -> bool:
    """Check whether ours is better; equal is not."""
    if cell["metric"] == "success":
        return cell["our_value"] > cell["their_value"]
    return cell["our_value"] < cell["their_value"]


def compared(
    rows: Sequence[RunReport],
    costs: Mapping[str, float],
    looked_up: Mapping[str, Sequence[float]],
    versions: Mapping[str, str],
    missing: Mapping[str, str],
) -> dict[str, Any]:
    """Compare the arms, and name every cell where we are not ahead."""
    arms = summarise(rows)
    seeded = [arm for arm in arms if arm == OURS or " + " in arm]
    differences = [found for base in (OURS, BARE, SAME_LOOP) for found in comparisons(rows, base, seeded)]
    cells = {
        name: {
            "success": 100 * arm.success,
            "iterations": arm.iterations,
            "lm_calls": arm.lm_calls,
            "overhead": costs[loop_of(name)],
            "memory_tokens": arm.memory_tokens,
        }
        for name, arm in arms.items()
    }
    beside = [
        {"ours": ours, "peer": peer, "metric": metric, "our_value": cells[ours][metric], "their_value": value}
        for ours, peer in pairs_of(cells)
        for metric, value in cells[peer].items()
        if not (ours == SAME_LOOP and metric == "overhead")  # one loop, one overhead
    ]
    behind = [cell for cell in beside if not ahead(cell)]
    others = [figures["iterations"] for name, figures in cells.items() if " + " in name and name != SAME_LOOP]
    return {
        "simulated": True,
        "versions": dict(versions),
        "missing": dict(missing),
        "cells": cells,
        "arms": {name: arm.model_dump(mode="json") for name, arm in arms.items()},
        "differences": [d.model_dump(mode="json") for d in differences],
        "behind": behind,
        "look_up_ms": {name: statistics.median(values) for name, values in looked_up.items()},
        "errors": {name: {"runs": len(found), "for example": found[0]} for name, found in ERRORS.items()},
        "peers": len(arms) - 3,
        "cells_compared": len(beside),
        "cells_behind": len(behind),
        "iterations_ratio": cells[OURS]["iterations"] / min(others, default=float("nan")),
        "iterations_ratio_same_loop": cells[SAME_LOOP]["iterations"] / min(others, default=float("nan")),
    }


if __name__ == "__main__":
    command(main)
