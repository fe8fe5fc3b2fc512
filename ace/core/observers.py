"""Delivery of events to observers that may raise or hang: each has a queue and a thread of its own.

The end of a run waits for its observers, all together for one period of grace. A process that ends after that drops what a
slow observer has not taken yet: its thread is a daemon, so that a hung observer keeps no process alive.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

MAX_BACKLOG = 10_000
"""Events that wait for a slow observer; further ones are dropped for it, never for the run."""

EventT = TypeVar("EventT")


class ObserverThread(Generic[EventT]):
    """One observer's own thread, started with its first event.

    Args:
        observer: Whatever it does, the run does not notice.
        grace: Seconds that the end of a run waits for the observer to catch up.

    Examples:
        >>> from ace.core import Event
        >>> seen: list[str] = []
        >>> thread = ObserverThread(lambda event: seen.append(event.kind))
        >>> thread.send(Event(kind="run_started", seq=0, run_id="r", correlation_id="t"))
        >>> ObserverThread.flush_all([thread])
        >>> seen
        ['run_started']
    """

    def __init__(self, observer: Callable[[EventT], None], grace: float = 1.0) -> None:
        self.observer = observer
        self.grace = grace
        self.failures = 0
        """How often it raised."""
        self._queue: queue.Queue[EventT | threading.Event | None] = queue.Queue(MAX_BACKLOG)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stuck = False

    def send(self, event: EventT) -> None:
        """Hand over one event; returns at once."""
        self._start()
        self._put(event)

    @staticmethod
    def flush_all(threads: Iterable[ObserverThread[Any]]) -> None:
        """Wait until all that was sent so far was delivered, `ObserverThread.flush_all(threads)`.

        However many hang, they cost one period of grace, and one that hung before is not waited for again.
        """
        started = time.monotonic()
        for thread, done in [(thread, thread._marker()) for thread in threads]:
            if done is not None:
                thread._stuck = not done.wait(max(0.0, started + thread.grace - time.monotonic()))

    @staticmethod
    async def aflush_all(threads: Iterable[ObserverThread[Any]]) -> None:
        """`flush_all` without blocking the event loop."""
        started = time.monotonic()
        for thread, done in [(thread, thread._marker()) for thread in threads]:
            if done is not None:
                while not done.is_set() and time.monotonic() < started + thread.grace:
                    await asyncio.sleep(0.001)
                thread._stuck = not done.is_set()

    def _marker(self) -> threading.Event | None:
        if self._thread is None:
            return None
        if self._stuck and not self._queue.empty():
            return None
        done = threading.Event()
        return done if self._put(done) else None

    def _put(self, item: EventT | threading.Event) -> bool:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            return False
        return True

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_deliver, args=(self._queue, weakref.ref(self)), daemon=True, name="ace-observer"
                )
                self._thread.start()
                weakref.finalize(self, _stop, self._queue)


def _stop(backlog: queue.Queue[EventT | threading.Event | None]) -> None:
    try:
        backlog.put_nowait(None)
    except queue.Full:
        return  # its observer hangs; the daemon thread ends with the process


def _deliver(backlog: queue.Queue[EventT | threading.Event | None], owner: weakref.ref[ObserverThread[EventT]]) -> None:
    while (item := backlog.get()) is not None:
        if isinstance(item, threading.Event):
            item.set()
            continue
        thread = owner()
        if thread is None:
            return
        try:
            thread.observer(item)
        except BaseException:  # border to foreign code: not even SystemExit may end the delivery
            thread.failures += 1
        del thread
