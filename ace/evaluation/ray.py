"""Runs on a Ray cluster: workers build the suite and the model for themselves, and exchange JSON with the driver.

The driver keeps the log, the caps and what arms remember; a worker makes runs. A playbook on a PostgreSQL server is
read by the workers themselves; what another memory shows for a task, the driver looks up and sends along.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ace.core import AceError, SuiteError, describe_error, json_line
from ace.evaluation.engines import Work, without_dspy_history
from ace.evaluation.episodes import AgentPool, EpisodeResult, pools_of, set_up
from ace.evaluation.hosted import ModelServer
from ace.evaluation.memories import FixedBullets
from ace.evaluation.models import load_suite_for, with_others
from ace.playbook import Filters, Playbook, PlaybookBullet
from ace.react.saved_program import load_optimized
from ace.suites.protocol import Suite


@dataclass
class WorkerSetup:
    """What a worker needs to make runs."""

    suite: Suite
    lm_for: Callable[[int], Any]
    pools: Mapping[str, AgentPool]
    """By arm; that of other arms under the empty name."""
    models: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    """Of arms that have a language model of their own."""
    _books: dict[str, Playbook] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._tasks = {task.id: task for task in self.suite.tasks}
        self._lms: dict[tuple[str, int], Any] = {}

    def make(self, order: Mapping[str, Any]) -> EpisodeResult:
        """Make one run; several threads may."""
        seed, task = order["seed"], self._tasks[order["task"]]
        key = (order["arm"] if order["arm"] in self.models else "", seed)
        with self._lock:
            if key not in self._lms:
                self._lms[key] = self.models.get(key[0], self.lm_for)(seed)
            source = self._source(order)
        agent, given, finish = set_up(self.suite, self.pools, order["arm"], self._lms[key], task, source)
        with without_dspy_history():
            return finish(agent.run(given))

    def _source(self, order: Mapping[str, Any]) -> Any:
        if "book" in order:
            stored = order["book"]
            if stored["url"] not in self._books:
                self._books[stored["url"]] = Playbook.open(stored["url"])
            book = self._books[stored["url"]]
            if book.revision < stored["revision"]:  # it would look by itself, only not before every run
                book.refresh()
            guard = Filters(
                exclude_tasks=tuple(stored["exclude_tasks"]), exclude_groups=tuple(stored["exclude_groups"])
            )
            return book.view(guard)
        if "bullets" in order:
            return FixedBullets([PlaybookBullet.model_validate(value) for value in order["bullets"]])
        return None


def setup_of(options: Mapping[str, Any]) -> WorkerSetup:
    """Return what a worker of `Study` builds: the suite, the models and the agents that a `StudyConfig` names."""
    lm, models, server = options["lm"], options["models"], ModelServer(options["api_base"], options["cache"])
    suite = load_suite_for(options["suite"], lm, options["judge_lm"], server, models.values())
    choice = with_others(lm, models, suite, server)
    prepare = partial(load_optimized, Path(options["program"])) if options["program"] else None
    return WorkerSetup(suite, choice.lm_for, pools_of(suite, choice.policy, prepare), choice.others)


BUILD = "ace.evaluation.ray:setup_of"
READY_SECONDS = 600
"""Seconds that workers may take to start and to load the suite; a cluster without a free CPU never gets there."""


class _Worker:
    """An actor in a process of the cluster."""

    def __init__(self, build: str, arguments: str) -> None:
        module, _, name = build.partition(":")
        options = json.loads(arguments)
        # relative paths mean what they mean to the driver, where that folder is shared
        with contextlib.suppress(OSError):
            os.chdir(options.pop("cwd"))
        self._setup: WorkerSetup = getattr(importlib.import_module(module), name)(options)

    def ready(self) -> str:
        """Answer when the suite is loaded."""
        return self._setup.suite.name

    def pid(self) -> int:
        """Return the id of its process."""
        return os.getpid()

    def make(self, order: str) -> str:
        """Make one run; ``{"error": ...}`` when what is wrong is the suite's or the user's fault."""
        try:
            return json_line(self._setup.make(json.loads(order)))
        except AceError as error:
            return json.dumps({"error": str(error)})


def _start_here(ray: Any, **options: Any) -> None:
    """Start Ray on this machine, listening on loopback only, because whoever reaches its ports can run code."""
    from ray._private import ray_constants  # Ray has a public setting for this on Windows and macOS only

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        ray.init(**options)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


class RayCluster:
    """Runs on a Ray cluster, as `Engine`.

    Args:
        workers: How many runs are under way at once, over all processes; there is at most one process for each CPU.
        build: ``MODULE:NAME`` of a function from `arguments` to a `WorkerSetup`; each worker calls it.
        arguments: JSON-shaped.
        address: Of the cluster; without one, and without ``RAY_ADDRESS``, a local one is started for the time being.
        processes: Of the local cluster; as many as there are CPUs by default.

    Raises:
        SuiteError: Ray is missing, the cluster cannot be reached, or a worker cannot build its setup.
    """

    def __init__(
        self,
        workers: int,
        build: str,
        arguments: Mapping[str, Any],
        *,
        address: str | None = None,
        processes: int | None = None,
    ) -> None:
        if workers < 1:
            raise SuiteError(f"expected at least 1 worker, got {workers}")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            raise SuiteError('--engine ray needs Ray; install it with: pip install "dspy-ace[ray]"') from error
        self._ray = ray
        address = address or os.environ.get("RAY_ADDRESS")
        _reachable(address)
        self.workers = workers
        self._pending: dict[Any, tuple[Any, Work, int]] = {}
        self._ours = not ray.is_initialized()
        try:
            if self._ours:
                quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
                if address:
                    ray.init(address=address, **quiet)
                else:
                    _start_here(ray, num_cpus=processes, include_dashboard=False, **quiet)
            cpus = int(ray.cluster_resources().get("CPU", 1))
            count = max(1, min(workers, processes or cpus, cpus))
            remote = ray.remote(_Worker).options(
                num_cpus=1, max_restarts=3, max_task_retries=3, max_concurrency=-(-workers // count)
            )
            options = json.dumps({**arguments, "cwd": os.getcwd()})
            self._actors = [remote.remote(build, options) for _ in range(count)]
            ray.get([actor.ready.remote() for actor in self._actors], timeout=READY_SECONDS)
        except Exception as error:  # a border: Ray's errors have no common base
            self.close()
            raise SuiteError(f"the Ray cluster cannot be used: {_last_line(error)}") from error
        self._load = [0] * count

    @property
    def under_way(self) -> int:
        """See `Engine`."""
        return len(self._pending)

    def start(self, job: Any, work: Work) -> None:
        """See `Engine`; the worker with the least to do gets it."""
        number = self._load.index(min(self._load))
        self._load[number] += 1
        self._pending[self._actors[number].make.remote(work.to_json(job))] = job, work, number

    def result(self) -> tuple[Any, Any]:
        """See `Engine`; a run whose worker died was made again by Ray, in the worker's successor."""
        (done,), _ = self._ray.wait(list(self._pending), num_returns=1)
        job, work, number = self._pending.pop(done)
        self._load[number] -= 1
        try:
            answer: str = self._ray.get(done)
        except Exception as error:  # a border, as above
            raise SuiteError(f"a worker of the Ray cluster failed: {_last_line(error)}") from error
        if answer.startswith('{"error"'):
            raise SuiteError(json.loads(answer)["error"])
        return job, work.from_json(job, answer)

    def close(self) -> None:
        """See `Engine`; a local cluster ends."""
        if self._ours and self._ray.is_initialized():
            self._ray.shutdown()
        elif self._ray.is_initialized():
            for actor in getattr(self, "_actors", ()):
                self._ray.kill(actor)
        self._pending.clear()


def _reachable(address: str | None) -> None:
    """Find out at once that there is no cluster: Ray tries for minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise SuiteError(
            f"no Ray cluster answers at {address!r}: {error}; start one with `ray start --head`"
        ) from error


def _last_line(error: Exception) -> str:
    """Return the last line of Ray's error, which holds a whole traceback of the worker."""
    cause = getattr(error, "cause", None)
    text = describe_error(cause if isinstance(cause, Exception) else error)
    return text.strip().splitlines()[-1]
