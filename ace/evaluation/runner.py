"""Runs suites: one agent per set of tools, a fresh world per task, one record per run, nothing that was paid for lost."""

from __future__ import annotations

import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ace.agent import Policy
from ace.core import RunUsage, SuiteError
from ace.evaluation.arms import LEARNING, arm_source
from ace.evaluation.engines import Engine, engine_of
from ace.evaluation.episodes import (
    AgentPool,
    Attempt,
    EpisodeResult,
    Preparation,
    own_preparations,
    pools_of,
    set_up,
)
from ace.evaluation.log import RunLog
from ace.evaluation.memories import FullHistory, Memory, Online
from ace.evaluation.reach import check_answered
from ace.playbook import Playbook, PlaybookView
from ace.react import BulletSource
from ace.reflector.reflector import OUTAGES
from ace.suites.protocol import Suite, SuiteTask
from ace.tasks import TaskInput, TaskOutput

TRANSIENT = ("LMRateLimitError", "LMServerError", "LMTimeoutError", "LMTransportError")
"""DSPy's names of temporary errors: the run is made again."""
UNREACHED = "LMTransportError"
"""That of a server that does not answer."""
OUTAGE_RETRIES = 3
"""How often a run that a model's outage ended is made again before it counts."""
PAUSE_SECONDS = 1.0
"""Seconds after an outage in which nothing new starts; twice as many after the next."""


@dataclass(frozen=True)
class Caps:
    """Where an evaluation stops, `Caps(cost=2.5, seconds=600)`; runs that are under way then are finished, and counted."""

    cost: float | None = None
    """US dollars."""
    requests: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    def reached(self, spent: RunUsage, seconds: float) -> str:
        """Name the one that was reached; empty when none was."""
        now = {
            "cost": spent.cost,
            "requests": spent.lm_calls,
            "tokens": spent.input_tokens + spent.output_tokens,
            "seconds": seconds,
        }
        names = [name for name, value in now.items() if (cap := getattr(self, name)) is not None and value >= cap]
        return f"{names[0]} reached {getattr(self, names[0])}" if names else ""


@dataclass
class _Job:
    """Tasks of one arm and seed that are run one after another: one task, or all of an arm that learns from them."""

    arm: str
    seed: int
    tasks: deque[SuiteTask]
    memory: Memory | None = None
    finished: int = 0
    outages: int = 0


class Evaluation(Iterator[Attempt]):
    """Yields each run as it is done; see `evaluate`.

    Attributes:
        total: Runs that were to be made when it began, without those that the log held.
        spent: What the finished runs used.
        stopped: Why it ended early; empty when it did not.
    """

    def __init__(
        self,
        suite: Suite,
        lms: Mapping[tuple[str, int], Any],
        jobs: Sequence[_Job],
        pools: Mapping[str, AgentPool],
        sources: Callable[[_Job, SuiteTask], BulletSource | None],
        engine: Engine,
        log: RunLog | None,
        caps: Caps,
    ) -> None:
        self.suite = suite
        self.total = sum(len(job.tasks) for job in jobs)
        self.spent = RunUsage()
        self.stopped = ""
        self._lms, self._pools, self._sources = lms, pools, sources
        self._waiting = deque(job for job in jobs if job.tasks)
        self._engine, self._log, self._caps = engine, log, caps
        self._limit = engine.workers
        self._begun = time.monotonic()
        self._pause, self._again_at = PAUSE_SECONDS, 0.0
        self._error: Exception | None = None
        self._answered = log is not None and bool(log.done)

    @property
    def under_way(self) -> int:
        """Runs that have begun and not ended."""
        return self._engine.under_way

    def stop(self, why: str) -> None:
        """Begin no further run; those under way are still yielded."""
        self.stopped = self.stopped or why
        self._waiting.clear()

    def __next__(self) -> Attempt:
        while True:
            self._begin()
            if not self._engine.under_way:
                if self._waiting:  # after an outage
                    time.sleep(max(0.0, self._again_at - time.monotonic()))
                    continue
                self._engine.close()
                if self._error is not None:
                    raise self._error
                raise StopIteration
            try:
                job, attempt = self._engine.result()
                if self._record(job, attempt):
                    return attempt
            except Exception as error:  # a scorer's, or the model's: what else is under way is paid for, and kept
                self._error = self._error or error
                self.stop(str(error))

    def close(self) -> None:
        """Drop what is under way."""
        self._waiting.clear()
        self._engine.close()

    def _begin(self) -> None:
        while self._waiting and self._engine.under_way < self._limit and time.monotonic() >= self._again_at:
            why = self._caps.reached(self.spent, time.monotonic() - self._begun)
            if why:
                self.stop(why)
                return
            job = self._waiting.popleft()
            self._engine.start(job, self)

    def prepare(self, job: _Job) -> tuple[Any, TaskInput, Callable[[TaskOutput], Attempt]]:
        """See `Work`."""
        task = job.tasks[0]
        agent, given, finish = set_up(
            self.suite, self._pools, job.arm, self._lms[job.arm, job.seed], task, self._sources(job, task)
        )
        return agent, given, lambda output: self._attempt(job, finish(output))

    def to_json(self, job: _Job) -> str:
        """See `Work`: what to run, and what the agent is to be shown or where it finds it."""
        task = job.tasks[0]
        source = self._sources(job, task)
        order: dict[str, Any] = {"arm": job.arm, "seed": job.seed, "task": task.id}
        if isinstance(source, PlaybookView) and source.server_url:
            guard = {"exclude_tasks": source.filters.exclude_tasks, "exclude_groups": source.filters.exclude_groups}
            order["book"] = {"url": source.server_url, "revision": source.revision, **guard}
        elif source is not None:
            episode = self.suite.episode(task)
            shown = source.retrieve_for(episode.task, episode.registry.schema_hashes)
            order["bullets"] = [bullet.model_dump(mode="json") for bullet in shown]
        return json.dumps(order)

    def from_json(self, job: _Job, answer: str) -> Attempt:
        """See `Work`."""
        return self._attempt(job, EpisodeResult.model_validate(json.loads(answer)))

    def _attempt(self, job: _Job, result: EpisodeResult) -> Attempt:
        if job.memory is not None and result.output.termination_reason not in OUTAGES:
            job.memory.learn(job.tasks[0], result.output, result.feedback, result.tools)
        return Attempt(
            job.tasks[0], job.arm, job.seed, result.output, result.feedback, result.memory_tokens, job.finished
        )

    def _record(self, job: _Job, attempt: Attempt) -> bool:
        """Record a run and let the next of its job wait for its turn; or have it made again after an outage."""
        error = attempt.output.error
        message = error.message if error is not None and error.kind == "model_transport" else ""
        try:
            model = str(getattr(self._lms[job.arm, job.seed], "model", job.arm))
            check_answered(attempt.output, model, "what was run before is kept")
        except SuiteError:
            self.stop(message)
            raise
        outage = message.startswith(TRANSIENT)
        if outage and job.outages < OUTAGE_RETRIES and not self.stopped:
            job.outages += 1
            self.spent += attempt.output.usage
            self._limit = max(1, self._limit // 2)
            self._again_at = time.monotonic() + self._pause
            self._pause = min(60.0, 2 * self._pause)
            self._waiting.appendleft(job)
            return False
        if message.startswith(UNREACHED) and not self._answered:  # no outage: it has never answered
            self.stop(message)
            raise SuiteError(f"the language model cannot be reached: {message}; nothing was run")
        self._answered = True
        if not outage:
            self._limit, self._pause = min(self._engine.workers, self._limit + 1), PAUSE_SECONDS
        self.spent += attempt.output.usage
        if self._log is not None:
            self._log.put(attempt.report(), attempt.output, attempt.feedback)
        job.tasks.popleft()
        job.finished, job.outages = job.finished + 1, 0
        if job.tasks and not self.stopped:
            self._waiting.appendleft(job)
        return True


def evaluate(
    suite: Suite,
    lm_for: Callable[[int], Any] | None,
    *,
    tasks: Sequence[SuiteTask] | None = None,
    arms: Sequence[str] = ("none",),
    seeds: Iterable[int] = (0,),
    policy: Policy | None = None,
    playbook: Playbook | Mapping[int, Playbook] | None = None,
    playbooks: Mapping[str, Playbook] | None = None,
    models: Mapping[str, Callable[[int], Any]] | None = None,
    unseen: bool = False,
    prepare: Preparation | Mapping[str, Preparation] | None = None,
    log: RunLog | None = None,
    engine: str | Engine = "threads",
    workers: int = 1,
    caps: Caps | None = None,
    online_book: Callable[[int], Playbook] | None = None,
) -> Evaluation:
    """Run tasks under arms and seeds and yield each attempt as it is done.

    Args:
        suite: The suite.
        lm_for: The language model of a seed; None where every arm has its own.
        tasks: Which tasks; all by default.
        arms: See `ace.evaluation.arms`; and names in `playbooks`, `models` and `prepare`.
        seeds: Each task is run once per arm and seed.
        policy: `Policy.forgiving()` by default.
        playbook: For the arms that need one; or one for each seed.
        playbooks: Further arms, each with a playbook of its own.
        models: Further arms, each with a language model of its own, by seed, and no memory.
        unseen: Whether lessons of the task's own family are left out.
        prepare: See `AgentPool`; or further arms, each with a function that makes its generator.
        log: Where runs are kept; what it holds already is not run again, and arms that learn go on from there.
        engine: `threads` or `asyncio`; with one worker, everything runs in the caller's thread. Or an `Engine`, as
            `ace.evaluation.ray.RayCluster`.
        workers: How many runs are under way at once; an arm that learns makes one after another.
        caps: Where to stop.
        online_book: Where the arm `online` learns: from a seed to an empty playbook; one in memory by default.

    Raises:
        SuiteError: There is no such arm or engine, or an arm lacks its playbook.
    """
    books, seeds = playbooks or {}, tuple(seeds)
    own = own_preparations(prepare)
    pools = pools_of(suite, policy, prepare)
    models = models or {}
    lms = {(arm, seed): _model(arm, seed, models.get(arm, lm_for)) for arm in arms for seed in seeds}
    chosen = list(suite.tasks if tasks is None else tasks)

    def source(job: _Job, task: SuiteTask) -> BulletSource | None:
        if job.memory is not None:
            return job.memory.source(task)
        if job.arm in own or job.arm in models:
            return None
        book = books[job.arm] if job.arm in books else playbook[job.seed] if isinstance(playbook, Mapping) else playbook
        arm = "playbook" if job.arm in books else job.arm
        return arm_source(arm, suite, task, book, seed=job.seed, unseen=unseen, program=callable(prepare))

    jobs: list[_Job] = []
    for arm in arms:
        for seed in seeds:
            if arm in LEARNING:
                memory: Memory = FullHistory(unseen=unseen)
                if arm == "online":
                    label = str(getattr(lms[arm, seed], "label", ""))
                    memory = Online(label, unseen, online_book(seed) if online_book is not None else None)
                jobs.append(_learning(arm, seed, chosen, suite, memory, log))
                continue
            if chosen and arm not in own and arm not in models:
                source(_Job(arm, seed, deque()), chosen[0])  # what is missing shows before anything has been spent
            done = log.done if log is not None else ()
            jobs += [_Job(arm, seed, deque([task])) for task in chosen if (arm, seed, task.id) not in done]
    made = engine_of(engine, workers) if isinstance(engine, str) else engine
    return Evaluation(suite, lms, jobs, pools, source, made, log, caps or Caps())


def _model(arm: str, seed: int, lm_for: Callable[[int], Any] | None) -> Any:
    if lm_for is None:
        raise SuiteError(f"the arm {arm!r} has no language model")
    return lm_for(seed)


def _learning(
    arm: str, seed: int, tasks: Sequence[SuiteTask], suite: Suite, memory: Memory, log: RunLog | None
) -> _Job:
    """Make the job of an arm that learns while it goes, after the runs that the log holds."""
    order = list(tasks)
    random.Random(f"{seed}|order").shuffle(order)
    job = _Job(arm, seed, deque(order), memory)
    if log is not None and any(key[:2] == (arm, seed) for key in log.done):
        for row, output, feedback in log.runs(arm, seed):
            if not job.tasks or job.tasks[0].id != row.id:
                raise SuiteError(f"the runs of arm {arm!r} and seed {seed} in {str(log.path)!r} are of other tasks")
            task = job.tasks.popleft()
            job.finished += 1
            if output.termination_reason not in OUTAGES:
                memory.learn(task, output, feedback, suite.episode(task).registry.schemas)
    return job
