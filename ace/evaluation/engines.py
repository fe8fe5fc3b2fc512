"""Where runs are made: in the caller's thread, in threads of their own, or on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, cast

import dspy

from ace.core import SuiteError


class Work(Protocol):
    """What an engine makes of a job."""

    def prepare(self, job: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
        """Make the agent, its task, and what makes a result of the output; called where the run is made."""
        ...

    def to_json(self, job: Any) -> str:
        """Write a job for another machine; called by the thread that starts jobs."""
        ...

    def from_json(self, job: Any, answer: str) -> Any:
        """Read the result from the JSON that another machine sent."""
        ...


def without_dspy_history() -> Any:
    """Keep neither requests nor calls in DSPy while a run is made: it would hold the last 10,000 of each in memory."""
    return cast(Any, dspy).context(disable_history=True, trace=None)


class Engine(Protocol):
    """Makes runs; `start` and `result` are called by one thread."""

    workers: int
    """How many runs may be under way."""

    @property
    def under_way(self) -> int:
        """Runs that have begun and not ended."""
        ...

    def start(self, job: Any, work: Work) -> None:
        """Begin a run."""
        ...

    def result(self) -> tuple[Any, Any]:
        """Wait for the next job that is done, with its result; raises what the run raised."""
        ...

    def close(self) -> None:
        """Begin nothing more; what is under way is dropped."""
        ...


class Inline:
    """One run at a time, in the caller's thread."""

    def __init__(self) -> None:
        self.workers = 1
        self.under_way = 0
        self._next: tuple[Any, Work] | None = None

    def start(self, job: Any, work: Work) -> None:
        """See `Engine`."""
        self._next, self.under_way = (job, work), 1

    def result(self) -> tuple[Any, Any]:
        """See `Engine`."""
        assert self._next is not None
        (job, work), self._next, self.under_way = self._next, None, 0
        agent, task, finish = work.prepare(job)
        with without_dspy_history():
            return job, finish(agent.run(task))

    def close(self) -> None:
        """See `Engine`."""


class _Queued:
    """What threads and the event loop share: results come back through a queue."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.under_way = 0
        self._results: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()

    def result(self) -> tuple[Any, Any]:
        """See `Engine`."""
        job, found, error = self._results.get()
        self.under_way -= 1
        if error is not None:
            raise error
        return job, found


class Threads(_Queued):
    """Each run in one of `workers` threads; they are daemons: an interrupted process need not wait for a model."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._jobs: queue.SimpleQueue[tuple[Any, Work] | None] = queue.SimpleQueue()
        self._started = 0

    def start(self, job: Any, work: Work) -> None:
        """See `Engine`."""
        if self._started < self.workers:
            self._started += 1
            # the thread sees the caller's context, DSPy's settings among it
            run = contextvars.copy_context().run
            threading.Thread(target=run, args=(self._serve,), daemon=True, name="ace-evaluate").start()
        self.under_way += 1
        self._jobs.put((job, work))

    def close(self) -> None:
        """See `Engine`."""
        for _ in range(self._started):
            self._jobs.put(None)
        self._started = 0

    def _serve(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, work = item
            try:
                agent, task, finish = work.prepare(job)
                with without_dspy_history():
                    self._results.put((job, finish(agent.run(task)), None))
            except BaseException as error:  # raised again where results are waited for
                self._results.put((job, None, error))


class EventLoop(_Queued):
    """Each run as a task of one event loop, in a thread of its own."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()

    def start(self, job: Any, work: Work) -> None:
        """See `Engine`."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._serve, args=(self._loop,), daemon=True, name="ace-evaluate").start()
        self.under_way += 1
        asyncio.run_coroutine_threadsafe(self._run(job, work), self._loop)

    def close(self) -> None:
        """See `Engine`."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            self._context.run(loop.run_forever)
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _run(self, job: Any, work: Work) -> None:
        try:
            agent, task, finish = await asyncio.to_thread(work.prepare, job)
            with without_dspy_history():
                output = await agent.arun(task)
            self._results.put((job, await asyncio.to_thread(finish, output), None))
        except BaseException as error:  # raised again where results are waited for
            self._results.put((job, None, error))


def engine_of(name: str, workers: int) -> Engine:
    """Return an engine by its name.

    Raises:
        SuiteError: There is none of that name, or no worker.

    Examples:
        >>> engine_of("threads", 4).workers
        4
    """
    made: dict[str, Callable[[int], Engine]] = {"threads": Threads, "asyncio": EventLoop}
    if name not in made:
        raise SuiteError(f"no engine {name!r}; there are {', '.join(made)} and ray")
    if workers < 1:
        raise SuiteError(f"expected at least 1 worker, got {workers}")
    return Inline() if workers == 1 and name == "threads" else made[name](workers)
