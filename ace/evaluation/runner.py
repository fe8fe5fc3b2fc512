"""Runs suites: one agent per set of tools, a fresh world per task, one record per run."""
# pyright: basic, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from ace.agent import Policy
from ace.evaluation.arms import arm_source
from ace.evaluation.reports import ArmReport, DomainReport, InvalidAction, RunReport
from ace.evaluation.stats import mean, share
from ace.evaluation.suite import Suite, SuiteTask
from ace.generator import BulletSource, ReActGenerator
from ace.learner import Episode
from ace.playbook import Playbook
from ace.tasks import Feedback, TaskOutput

INVALID = frozenset({"unknown_tool", "invalid_args", "unparsable"})


@dataclass
class AgentPool:
    """Agents for the episodes of a suite; those with the same tools share one set of predictors."""

    suite: Suite
    policy: Policy
    prepare: Callable[[ReActGenerator], ReActGenerator] | None = None
    """Applied to each agent, to load an optimized program for example; its playbook serves where no other is given."""
    _agents: dict[tuple[str, ...], ReActGenerator] = field(default_factory=dict)

    def agent(self, episode: Episode, lm: Any, playbook: BulletSource | None = None) -> ReActGenerator:
        """An agent over the episode's world."""
        names = episode.registry.names
        if names not in self._agents:
            signature = dspy.Signature("task -> answer", self.suite.instructions)
            made = ReActGenerator(signature, tools=episode.registry, policy=self.policy)
            self._agents[names] = self.prepare(made) if self.prepare else made
        agent = self._agents[names]
        source = agent.playbook if playbook is None else playbook
        return agent.bound_to(episode.registry, playbook=source, lm=lm)


@dataclass(frozen=True)
class Attempt:
    """What one run of one task gave."""

    task: SuiteTask
    arm: str
    seed: int
    output: TaskOutput
    feedback: Feedback

    def report(self) -> RunReport:
        """As a row of the JSON report."""
        tables: dict[str, str] = self.feedback.details.get("state_sha256", {})
        invalid = [record for record in self.output.error_history if record.kind in INVALID]
        return RunReport(
            id=self.task.id,
            arm=self.arm,
            seed=self.seed,
            domain=self.task.domain,
            group=self.task.group,
            correct=self.feedback.success,
            iterations=self.output.usage.iterations,
            lm_calls=self.output.usage.lm_calls,
            termination=self.output.termination_reason,
            state_sha256=hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest(),
            tables_sha256=tables,
            invalid_actions=len(invalid) + self.output.usage.reprompts,
            errors=[InvalidAction(iteration=r.iteration, kind=r.kind, tool=r.tool, message=r.message) for r in invalid],
        )


def evaluate(
    suite: Suite,
    lm_for: Callable[[int], Any],
    *,
    tasks: Sequence[SuiteTask] | None = None,
    arms: Sequence[str] = ("none",),
    seeds: Iterable[int] = (0,),
    policy: Policy | None = None,
    playbook: Playbook | None = None,
    unseen: bool = False,
    prepare: Callable[[ReActGenerator], ReActGenerator] | None = None,
) -> Iterator[Attempt]:
    """Run tasks under arms and seeds, one after another, and yield each attempt as it is done.

    Args:
        suite: The suite.
        lm_for: The language model of a seed.
        tasks: Which tasks; all by default.
        arms: See `ace.evaluation.arms`.
        seeds: Each task is run once per arm and seed.
        policy: `Policy.lenient()` by default.
        playbook: For the arms that need one.
        unseen: Whether lessons of the task's own family are left out.
        prepare: See `AgentPool`.
    """
    pool = AgentPool(suite, policy or Policy.lenient(), prepare)
    lms = {seed: lm_for(seed) for seed in seeds}
    for arm in arms:
        for seed, lm in lms.items():
            for task in suite.tasks if tasks is None else tasks:
                episode = suite.episode(task)
                source = arm_source(arm, suite, task, playbook, seed=seed, unseen=unseen)
                output = pool.agent(episode, lm, source).run(episode.task)
                yield Attempt(task, arm, seed, output, episode.score(output))


def summarise(runs: Sequence[RunReport]) -> dict[str, ArmReport]:
    """Success and iterations per arm, with intervals that respect task families."""
    arms: dict[str, list[RunReport]] = {}
    for run in runs:
        arms.setdefault(run.arm, []).append(run)
    return {arm: _arm(rows) for arm, rows in arms.items()}


def _arm(rows: Sequence[RunReport]) -> ArmReport:
    groups = [row.group for row in rows]
    success, iterations = [float(row.correct) for row in rows], [float(row.iterations) for row in rows]
    return ArmReport(
        success=sum(success) / len(rows),
        iterations=sum(iterations) / len(rows),
        n=len(rows),
        success_interval=share(success, groups).interval,
        iterations_interval=mean(iterations, groups).interval,
        lm_calls=sum(row.lm_calls for row in rows) / len(rows),
    )


def by_domain(runs: Sequence[RunReport]) -> dict[str, DomainReport]:
    """Counts per domain."""
    domains: dict[str, DomainReport] = {}
    for run in runs:
        row = domains.setdefault(run.domain, DomainReport())
        row.n += 1
        row.correct += run.correct
        row.empty += run.empty
        row.error += run.termination != "completed"
    return domains


def closed(arms: dict[str, ArmReport]) -> dict[str, dict[str, float]]:
    """How much of the way from `none` to `gold` each arm goes; empty when the two do not differ."""
    none, gold = arms.get("none"), arms.get("gold")
    if none is None or gold is None:
        return {}
    shares: dict[str, dict[str, float]] = {}
    for name, arm in arms.items():
        shares[name] = {
            metric: (getattr(arm, metric) - getattr(none, metric)) / (getattr(gold, metric) - getattr(none, metric))
            for metric in ("iterations", "success")
            if getattr(gold, metric) != getattr(none, metric)
        }
    return shares
