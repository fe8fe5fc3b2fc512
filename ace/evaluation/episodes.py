"""One run of one task: the agent in the task's world, and its result."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from ace.agent import Policy
from ace.agent.episode import Episode
from ace.core import SuiteError
from ace.evaluation.row import InvalidAction, RunReport
from ace.playbook.render import count_tokens, render_bullets
from ace.react import BulletSource, ReActGenerator
from ace.suites.protocol import Suite, SuiteTask, signature_of
from ace.tasks import Feedback, TaskInput, TaskOutput

Preparation = Callable[[ReActGenerator], ReActGenerator]
"""Makes an agent of the one that a suite would use; it may be any other over the same tools."""
INVALID = frozenset({"unknown_tool", "invalid_args", "unparsable"})


@dataclass
class AgentPool:
    """Agents for the episodes of a suite; those with the same tools share one set of predictors."""

    suite: Suite
    policy: Policy
    prepare: Preparation | None = None
    """Applied to each agent, to load an optimized program for example; its playbook serves where no other is given."""
    _agents: dict[tuple[str, ...], ReActGenerator] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def agent(self, episode: Episode, lm: Any, playbook: BulletSource | None = None) -> ReActGenerator:
        """Make an agent over the episode's world."""
        names = episode.registry.names
        with self._lock:
            if names not in self._agents:
                made = ReActGenerator(
                    signature_of(self.suite), tools=episode.registry, policy=self.policy, memory_timeout=None
                )
                self._agents[names] = self.prepare(made) if self.prepare else made
        agent = self._agents[names]
        source = agent.playbook if playbook is None else playbook
        return agent.bound_to(episode.registry, playbook=source, lm=lm)


@dataclass(frozen=True)
class Attempt:
    """The record of one run of one task: `next(evaluate(suite, choice.lm_for))` gives one."""

    task: SuiteTask
    arm: str
    seed: int
    output: TaskOutput
    feedback: Feedback
    memory_tokens: int = 0
    """Of the playbook in the prompt."""
    learned_from: int = 0
    """How many runs its arm had learned from before."""

    def report(self) -> RunReport:
        """Write it as a row of the JSON report."""
        tables: dict[str, str] = self.feedback.details.get("state_sha256", {})
        invalid = [record for record in self.output.error_history if record.kind in INVALID]
        usage = self.output.usage
        return RunReport(
            id=self.task.id,
            arm=self.arm,
            seed=self.seed,
            domain=self.task.domain,
            group=self.task.group,
            correct=self.feedback.success,
            iterations=usage.iterations,
            lm_calls=usage.lm_calls,
            cached=usage.cached,
            termination=self.output.termination_reason,
            state_sha256=hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest(),
            tables_sha256=tables,
            invalid_actions=len(invalid) + usage.reprompts,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            memory_tokens=self.memory_tokens,
            cost=usage.cost,
            seconds=usage.seconds,
            confidence=self.output.confidence,
            bullets=list(self.output.injected_bullets),
            learned_from=self.learned_from,
            errors=[InvalidAction(iteration=r.iteration, kind=r.kind, tool=r.tool, message=r.message) for r in invalid],
        )


class _CountingSource:
    """Counts what a source of bullets shows."""

    def __init__(self, source: BulletSource) -> None:
        self.source = source
        self.tokens = 0

    def retrieve_for(self, task: TaskInput, tools: Mapping[str, str]) -> Any:
        found = self.source.retrieve_for(task, tools)
        self.tokens += count_tokens(render_bullets(found)) if found else 0
        return found


class EpisodeResult(BaseModel, frozen=True):
    """The result of one run, made here or on another machine."""

    output: TaskOutput
    feedback: Feedback
    memory_tokens: int
    tools: Mapping[str, Any]
    """Of the tools' schemas."""


def set_up(
    suite: Suite, pools: Mapping[str, AgentPool], arm: str, lm: Any, task: SuiteTask, source: BulletSource | None
) -> tuple[ReActGenerator, TaskInput, Callable[[TaskOutput], EpisodeResult]]:
    """Make an agent in a fresh world, its task, and what scores its run."""
    episode = suite.episode(task)
    agent = pools.get(arm, pools[""]).agent(episode, lm, source)
    watched = _CountingSource(agent.playbook) if agent.playbook is not None else None
    agent.playbook = watched

    def finish(output: TaskOutput) -> EpisodeResult:
        try:
            feedback = episode.score(output)
        except Exception as error:
            raise SuiteError(f"the scorer of task {task.id!r} failed: {error}") from error
        tokens = watched.tokens if watched else 0
        return EpisodeResult(output=output, feedback=feedback, memory_tokens=tokens, tools=episode.registry.schemas)

    return agent, episode.task, finish


def pools_of(
    suite: Suite, policy: Policy | None = None, prepare: Preparation | Mapping[str, Preparation] | None = None
) -> dict[str, AgentPool]:
    """Return agents by arm; those of arms that name none under the empty name."""
    own = own_preparations(prepare)
    pools = {name: AgentPool(suite, policy or Policy.forgiving(), made) for name, made in own.items()}
    pools[""] = AgentPool(suite, policy or Policy.forgiving(), prepare if callable(prepare) else None)
    return pools


def own_preparations(prepare: Preparation | Mapping[str, Preparation] | None) -> Mapping[str, Preparation]:
    """Return by arm, where arms have them, the functions of their own that make their agents."""
    return {} if prepare is None or callable(prepare) else prepare
