"""Daemon threads for calls: at most so many, and one that is done serves the next, as starting one costs more than most.

`concurrent.futures` has no such pool: its threads are joined when the process ends, and a hung tool would keep it alive.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

IDLE_SECONDS = 10.0
"""Seconds without work after which a thread ends."""
MAX_THREADS = 32
"""Default number of threads of a pool."""


class Job(Future[T], Generic[T]):
    """What a body that was given to a pool will return: `pool.submit(body).result()`."""

    def __init__(self, pool: ThreadPool, body: Callable[[], T]) -> None:
        super().__init__()
        self._pool = pool
        self._body = body
        self._hangs = False

    def abandon(self) -> bool:
        """Give it up, because nobody waits for it any longer; return whether it never began, and never will."""
        if self.cancel():
            return True
        with self._pool.lock:
            if not self._hangs and not self.done():
                self._hangs = True
                self._pool.hanging += 1
        return False

    def run(self) -> None:
        """Do it, in this thread."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            settle = partial(self.set_result, self._body())
        except BaseException as error:  # border to any code: told to whoever waits
            settle = partial(self.set_exception, error)
        with self._pool.lock:
            self._pool.hanging -= self._hangs
            self._hangs = True  # it is over: from now on it cannot be given up
        settle()


class ThreadPool:
    """Daemon threads that see who has given up on them.

    Args:
        name: Of the threads.
        size: How many there are at most. Further bodies wait for one to be free.

    Examples:
        >>> ThreadPool("mine", 2).submit(lambda: threading.current_thread().name).result()
        'mine'
    """

    def __init__(self, name: str, size: int = MAX_THREADS) -> None:
        self.name = name
        self.size = size
        self.forget()
        _pools.add(self)

    def forget(self) -> None:
        """Forget the threads of the parent after a fork: work given to them would never be done."""
        self.lock = threading.Lock()
        self.hanging = 0
        """Threads whose caller has given up on them."""
        self._jobs: queue.SimpleQueue[Job[Any]] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0
        """Threads without work; below zero, how many jobs wait for one."""

    def submit(self, body: Callable[[], T], *, extra: bool = False) -> Job[T] | None:
        """Run `body` in a thread; returns at once.

        Args:
            body: What to run.
            extra: Whether it runs also when all threads are taken: what a running body waits for must not wait for it.

        Returns:
            The job; None where every thread hangs, so that none will be free.
        """
        job = Job(self, body)
        with self.lock:
            taken = self._idle <= 0 and self._threads >= self.size
            if taken and not extra and self.hanging >= self.size:
                return None
            if taken and extra:
                self._start(job.run)
                return job
            if self._idle <= 0 and not taken:
                self._start(self._serve)
                self._threads += 1
                self._idle += 1
            self._idle -= 1
        self._jobs.put(job)
        return job

    def _start(self, target: Callable[[], None]) -> None:
        threading.Thread(target=target, daemon=True, name=self.name).start()

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self.lock:
                    if self._idle <= 0:  # work is on its way
                        continue
                    self._idle -= 1
                    self._threads -= 1
                return
            job.run()
            del job  # else what it returned lives until the next one comes
            with self.lock:
                self._idle += 1


_pools: WeakSet[ThreadPool] = WeakSet()
TOOLS = ThreadPool("ace-tool")
"""Of all tools in this process; `TOOLS.size` may be set."""


def _after_fork() -> None:
    for pool in _pools:
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
