"""Each task's first read tool is broken for good, and another tool does the same: do runs get around it? (simulated)

``python -m benchmarks.agent.alternatives OUT.json [--limit N]``. The stand-in picks only among what the catalog in its
prompt offers. Printed beside it: the same without breaker, exclusion, retries and loop detection.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from rich.console import Console
from rich.progress import track

from ace.agent import Policy, RetryPolicy
from ace.agent.episode import Episode
from ace.core import ToolError
from ace.evaluation.arms import arm_source
from ace.evaluation.episodes import AgentPool
from ace.evaluation.stats import share_interval
from ace.learner import Learner
from ace.playbook import Playbook
from ace.suites.office import OfficeSuite
from ace.suites.protocol import SuiteTask
from ace.testing import FaultyTool, SimulatedLM
from ace.tools import Tool, ToolRegistry
from benchmarks.command import command

KINDS = ("timeout", "network", "exception")


def replica(tool: Tool) -> Tool:
    """Make another tool that does the same."""
    return dataclasses.replace(
        tool, name=f"{tool.name}_replica", description=f"Same as {tool.name}, answered by the replica."
    )


class OfficeWithReplicas:
    """`office` with a replica of each reading tool; a task's first reading tool fails for good when `broken`."""

    name = "office"

    def __init__(self, broken: bool) -> None:
        self.office = OfficeSuite()
        self.broken = broken

    def __getattr__(self, name: str) -> Any:
        return getattr(self.office, name)

    def primary(self, task: SuiteTask) -> str | None:
        """Name the first reading tool of the reference solution."""
        return next((call.name for call in task.gold if call.name not in self.office.writing_tools), None)

    def episode(self, task: SuiteTask) -> Episode:
        """See `Suite`."""
        plain = self.office.episode(task)
        tools = list(plain.registry)
        replicas = [replica(tool) for tool in tools if tool.read_only]
        primary = self.primary(task)
        if self.broken and primary is not None:
            kind = random.Random(task.id).choice(KINDS)
            error = ToolError(kind, f"{primary}: connection refused", f"{primary} cannot be reached.")
            tools = [FaultyTool(tool, then=error).tool if tool.name == primary else tool for tool in tools]
        return dataclasses.replace(plain, registry=ToolRegistry([*tools, *replicas]))


def run(suite: OfficeWithReplicas, tasks: list[SuiteTask], preset: str, arm: str, policy: Policy) -> dict[str, Any]:
    """Return task id to output, feedback and episode."""
    pool, lm, done = AgentPool(suite, policy), SimulatedLM(suite.office, preset), {}
    for task in track(tasks, description=f"{preset} {arm} {policy.name}", transient=True, console=Console(stderr=True)):
        episode = suite.episode(task)
        output = pool.agent(episode, lm, arm_source(arm, suite.office, task, None, seed=0)).run(episode.task)
        done[task.id] = (output, episode.score(output), episode)
    return done


def compare(tasks: list[SuiteTask], preset: str, arm: str) -> dict[str, Any]:
    """Count how many of the tasks that succeed without the fault still do, with and without protection."""
    policy = dataclasses.replace(Policy.lenient(), tool_retry=RetryPolicy(initial_interval=0.001))
    healthy = run(OfficeWithReplicas(False), tasks, preset, arm, policy)
    solved = [task for task in tasks if healthy[task.id][1].success]
    row: dict[str, Any] = {"tasks": len(tasks), "solved_without_fault": len(solved)}
    for name, used in (
        ("protected", policy),
        ("unprotected", dataclasses.replace(policy, tool_retry=None, breaker=None, no_progress=None)),
    ):
        got = run(OfficeWithReplicas(True), solved, preset, arm, used)
        still = sum(feedback.success for _, feedback, _ in got.values())
        row[name] = still / max(1, len(solved))
        row[f"{name}_interval"] = share_interval(still, len(solved))
        if name == "protected":
            row["got"] = got
    return row


def pitfalls(got: dict[str, Any], suite: OfficeWithReplicas, tasks: list[SuiteTask]) -> float:
    """Return the share of the runs that got around a broken tool after which the playbook warns of it and names the
    other."""
    asked = right = 0
    for task in tasks:
        if task.id not in got or not got[task.id][1].success:
            continue
        output, feedback, episode = got[task.id]
        with Playbook() as book:
            Learner(book).learn(output, feedback, episode.registry.schema_hashes)
            warned = [b.content for b in book.bullets if b.section == "Pitfalls"]
        primary = suite.primary(task)
        asked += 1
        right += any(f"{primary} was out of order" in text and f"{primary}_replica" in text for text in warned)
    return right / max(1, asked)


def main(limit: int | None = None) -> dict[str, Any]:
    """Return the shares."""
    suite = OfficeWithReplicas(True)
    tasks = [task for task in suite.tasks if suite.primary(task) is not None][:limit]
    report: dict[str, Any] = {"simulated": True}
    for preset, arm in (("oracle", "none"), ("learner", "gold")):
        row = compare(tasks, preset, arm)
        got = row.pop("got")
        if preset == "oracle":
            row["pitfall_learned"] = pitfalls(got, suite, tasks)
        report[preset] = row
    return report


if __name__ == "__main__":
    command(main)
