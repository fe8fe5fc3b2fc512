"""Are the lessons of honest runs shown? ``python -m benchmarks.trust.honest DATA OUT.json``.

WorkBench's recorded GPT-4, GPT-3.5 and Llama-2 runs, BFCL's reference solutions, recorded airline conversations that
succeeded and STATE-Bench's: each run is reflected on, and its lessons that would wait for a person are counted, after one
run and after a second of another task. Then twenty honest runs of small domains whose words sound dangerous, written for
this: the lesson that is mined, and one that a model wrote.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ace_suites.state_bench import TRUSTED, calls, read_domain, runs_of
from rich.console import Console
from rich.progress import track

from ace import Feedback, Reflector
from ace.evaluation.episodes import AgentPool
from ace.evaluation.models import choose_model
from ace.evaluation.stats import share_interval
from ace.learner import read_requests
from ace.playbook import MiniLMEmbedder
from ace.playbook.insight import Insight
from ace.suites.check import _played
from ace.suites.registry import load_suite
from ace.testing import ScriptedLM
from ace.testing.engine import render_reply
from benchmarks.command import command

RUNS = ("gpt-4_domains", "gpt-3.5_domains", "llama2-70b_domains")
EMBEDDER = MiniLMEmbedder()
CHANGES = ("book_", "cancel_", "send_", "transfer_", "update_")


def workbench(data: Path) -> Iterator[list[Insight]]:
    """Yield the lessons of each recorded run."""
    suite = load_suite(f"workbench:{data / 'workbench'}", toolkits="domains")
    for name in RUNS:
        choice = choose_model(f"recorded:{name}", suite)
        pool = AgentPool(suite, choice.policy)
        for task in suite.tasks:
            if choice.knows(task):
                episode = suite.episode(task)
                output = pool.agent(episode, choice.lm_for(0), None).run(episode.task)
                yield Reflector(embedder=EMBEDDER).reflect(
                    output, episode.score(output), schemas=episode.registry.schemas
                )


def bfcl(_: Path) -> Iterator[list[Insight]]:
    """Yield the lessons of each reference solution."""
    suite = load_suite("bfcl")
    for task in suite.tasks:
        episode = suite.episode(task)
        output, _failed = _played(episode, task)
        yield Reflector(embedder=EMBEDDER).reflect(output, episode.score(output), schemas=episode.registry.schemas)


def airline(data: Path) -> Iterator[list[Insight]]:
    """Yield the lessons of each request of the conversations that succeeded."""
    lines = (data / "tau_airline_runs" / "runs.jsonl").read_text(encoding="utf-8").split("\n")
    runs = [run for run in map(json.loads, filter(None, lines)) if run["reward"] == 1]
    names = {c["function"]["name"] for run in runs for m in run["traj"] for c in m.get("tool_calls") or ()}
    schemas: dict[str, Any] = {name: {"read_only": not name.startswith(CHANGES)} for name in names}
    reads = [name for name in names if schemas[name]["read_only"]]
    for run in runs:
        for output in read_requests(run["traj"], read_only=reads):
            yield Reflector(embedder=EMBEDDER).reflect(output, Feedback(success=True), schemas=schemas)


def state_bench(data: Path, domain: str) -> Iterator[list[Insight]]:
    """Yield the lessons of each request of STATE-Bench's recorded conversations."""
    talks = list(read_domain(data / "state_bench" / domain).train.values())
    runs, reads = runs_of(talks)
    tools = {call["name"] for talk in talks for call in calls(talk)}
    schemas = {name: {"read_only": name in reads, "trusted": name in TRUSTED} for name in tools}
    for run in chain.from_iterable(runs):
        yield Reflector(embedder=EMBEDDER).reflect(run, Feedback(success=True), schemas=schemas)


SETS: dict[str, Callable[[Path], Iterator[list[Insight]]]] = {
    "WorkBench": workbench,
    "BFCL": bfcl,
    "airline": airline,
    "customer support": partial(state_bench, domain="customer_support"),
    "travel": partial(state_bench, domain="travel"),
}


def runs_shown(found: Sequence[Sequence[Insight]]) -> dict[str, Any]:
    """Count how many successful runs leave a plan that is shown after one run, and after a second one of another task.

    A run that waits and whose plan no other task has made says nothing about the second figure.
    """
    plans = [lessons[0] for lessons in found if lessons and lessons[0].plan is not None]
    by_shape: dict[str, list[Insight]] = defaultdict(list)
    for plan in plans:
        by_shape[plan.shape].append(plan)
    waiting, freed, alone = [plan for plan in plans if plan.held], 0, 0
    for plan in waiting:
        others = [one for one in by_shape[plan.shape] if one.provenance.task_ids != plan.provenance.task_ids]
        alone += not others
        freed += any(
            not one.held or (one.after and plan.after and set(one.after).isdisjoint(plan.after)) for one in others
        )
    once, twice = len(plans) - len(waiting), len(plans) - alone
    return {"runs": len(plans), "once": once / len(plans), "twice": (once + freed) / twice, "without a second": alone}


def domains() -> dict[str, Any]:
    """Ask in twenty small domains: is the mined lesson shown, and the one that a model wrote?"""
    rows = json.loads(Path(__file__).with_name("domains.json").read_text(encoding="utf-8"))
    held: dict[str, list[str]] = {"mined": [], "written": []}
    for row in rows:
        (output,) = read_requests(
            messages_of(row), read_only=[name for name, tool in row["tools"].items() if tool["read_only"]]
        )
        written = {
            "section": "Strategies", "trigger": row["lesson"]["trigger"], "action": row["lesson"]["action"],
            "steps": list(range(1, len(row["calls"]) + 1)),
        }  # fmt: skip
        reflector = Reflector(lm=ScriptedLM([render_reply(lessons=[written])]), embedder=EMBEDDER)
        insights = reflector.reflect(output, Feedback(success=True), schemas=row["tools"])
        mined, said = insights[0], [insight for insight in insights if "model" in insight.words_from]
        held["mined"] += [f"{row['domain']}: {mined.held}"] if mined.held else []
        if not said or said[0].held:
            held["written"].append(f"{row['domain']}: {said[0].held if said else dict(reflector.refused)}")
    return {"n": len(rows), **{f"{kind}_shown": len(rows) - len(found) for kind, found in held.items()}, "held": held}


def messages_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Write a run of a small domain as messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": row["task"]}]
    for number, call in enumerate(row["calls"]):
        function = {"name": call["tool"], "arguments": json.dumps(call["args"])}
        messages.append({
            "role": "assistant", "content": "",
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
        })  # fmt: skip
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": call["answer"]})
    return [*messages, {"role": "assistant", "content": "Done."}]


def main(data: Path) -> dict[str, Any]:
    """Return the report."""
    report: dict[str, Any] = {"sets": {}}
    for name, runs in SETS.items():
        found = list(track(runs(data), name, console=Console(stderr=True)))
        lessons = [insight for of_run in found for insight in of_run]
        count = sum(not insight.held for insight in lessons)
        low, high = share_interval(count, len(lessons))
        report["sets"][name] = {
            "lessons": len(lessons), "share": count / len(lessons), "interval": (low, high), **runs_shown(found),
            "held": [insight.held for insight in lessons if insight.held],
        }  # fmt: skip
    sets = [report["sets"][name] for name in ("WorkBench", "BFCL", "airline")]
    report["twice"] = min(row["twice"] for row in report["sets"].values())
    report["all"] = sum(row["share"] * row["lessons"] for row in sets) / sum(row["lessons"] for row in sets)
    report["least"] = min(row["share"] for row in sets)
    report["domains"] = domains()
    report["domains_least"] = min(report["domains"]["mined_shown"], report["domains"]["written_shown"])
    return report


if __name__ == "__main__":
    command(main)
