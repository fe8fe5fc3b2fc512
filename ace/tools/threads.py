"""Daemon threads for calls: at most so many, and one that is done serves the next, as starting one costs more than most.

`concurrent.futures` will not do: its threads are joined when the process ends, and a hung tool would keep it alive.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from weakref import WeakSet

IDLE_SECONDS = 10.0
"""Seconds without work after which a thread ends."""
MAX_THREADS = 32
"""Default number of threads of a pool."""


class Ticket:
    """A body that was given to a pool, `pool.submit(body)`: it waits for a thread, or is run in one."""

    def __init__(self, pool: ThreadPool, body: Callable[[], object]) -> None:
        self._pool = pool
        self.body = body
        self.hangs = False
        """Whether its caller has given it up while it ran."""

    def abandon(self) -> bool:
        """Nobody waits for it any longer; whether it never began."""
        return self._pool._abandon(self)  # pyright: ignore[reportPrivateUsage]


class ThreadPool:
    """Daemon threads that see who has given up on them.

    Args:
        name: Of the threads.
        size: How many there are at most. Further bodies wait for one to be free.

    Examples:
        >>> found = queue.SimpleQueue()
        >>> ticket = ThreadPool("mine", 2).submit(lambda: found.put(threading.current_thread().name))
        >>> found.get()
        'mine'
    """

    def __init__(self, name: str, size: int = MAX_THREADS) -> None:
        self.name = name
        self.size = size
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._waiting: deque[Ticket] = deque()
        self._busy = 0
        self.hanging = 0
        """Threads whose caller has given up on them."""
        _pools.add(self)

    def submit(self, body: Callable[[], object], *, extra: bool = False) -> Ticket | None:
        """Run `body`, which raises nothing, in a thread; returns at once.

        Args:
            body: What to run.
            extra: Whether it runs also when all threads are taken: what a running body waits for must not wait for it.

        Returns:
            The body's ticket; None where every thread hangs, so that none will be free.
        """
        ticket = Ticket(self, body)
        with self._lock:
            if self._busy >= self.size and not extra:
                if self.hanging >= self.size:
                    return None
                self._waiting.append(ticket)
                return ticket
            self._busy += 1
            worker = self._idle.pop() if self._idle else None  # the one that was busy last
        (worker or _Worker(self)).next.put(ticket)
        return ticket

    def _abandon(self, ticket: Ticket) -> bool:
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                return True
            if not ticket.hangs and ticket.body is not _over:
                ticket.hangs = True
                self.hanging += 1
            return False

    def done(self, ticket: Ticket, worker: _Worker) -> Ticket | None:
        """A thread is done with a ticket; the next one for it."""
        with self._lock:
            ticket.body = _over
            self.hanging -= ticket.hangs
            if self._waiting and self._busy <= self.size:
                return self._waiting.popleft()
            self._busy -= 1
            self._idle.append(worker)
            return None

    def retire(self, worker: _Worker) -> bool:
        """Whether an idle thread may end; not when it is just being given work."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False

    def forget(self) -> None:
        """In a fork there are no threads of the parent: work given to them would never be done."""
        self._lock = threading.Lock()
        self._idle.clear()
        self._waiting.clear()
        self._busy = self.hanging = 0


def _over() -> None:
    """The body of a ticket that is done."""


class _Worker:
    """One thread and what it is to do next."""

    def __init__(self, pool: ThreadPool) -> None:
        self.next: queue.SimpleQueue[Ticket] = queue.SimpleQueue()
        self._pool = pool
        threading.Thread(target=self._serve, daemon=True, name=pool.name).start()

    def _serve(self) -> None:
        while True:
            try:
                ticket: Ticket | None = self.next.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                if self._pool.retire(self):
                    return
                continue
            while ticket is not None:
                ticket.body()
                ticket = self._pool.done(ticket, self)


_pools: WeakSet[ThreadPool] = WeakSet()
TOOLS = ThreadPool("ace-tool")
"""Of all tools in this process; `TOOLS.size` may be set."""


def _after_fork() -> None:
    for pool in _pools:
        pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
