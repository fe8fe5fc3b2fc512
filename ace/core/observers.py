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
        self._queue: queue.SimpleQueue[EventT | threading.Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._given_up: threading.Event | None = None
        """Is set when the observer has caught up with what was waited for in vain."""

    def send(self, event: EventT) -> None:
        """Hand over one event; returns at once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_deliver, args=(self._queue, weakref.ref(self)), daemon=True, name="ace-observer"
                )
                self._thread.start()
                weakref.finalize(self, self._queue.put, None)
        if self._queue.qsize() < MAX_BACKLOG:
            self._queue.put(event)

    @staticmethod
    def flush_all(threads: Iterable[ObserverThread[Any]]) -> None:
        """Wait until all that was sent so far was delivered, `ObserverThread.flush_all(threads)`.

        However many hang, they cost one period of grace, and one that hung before is not waited for again.
        """
        started = time.monotonic()
        for thread, done in [(thread, thread._marker()) for thread in threads]:
            if done is not None and not done.wait(max(0.0, started + thread.grace - time.monotonic())):
                thread._given_up = done

    @staticmethod
    async def aflush_all(threads: Iterable[ObserverThread[Any]]) -> None:
        """Wait as `flush_all` does, without blocking the event loop."""
        started = time.monotonic()
        for thread, done in [(thread, thread._marker()) for thread in threads]:
            if done is not None:
                while not done.is_set() and time.monotonic() < started + thread.grace:
                    await asyncio.sleep(0.001)
                thread._given_up = None if done.is_set() else done

    def _marker(self) -> threading.Event | None:
        """Return what is set when all that was sent so far was delivered; None where nobody should wait for that."""
        if self._thread is None or (self._given_up is not None and not self._given_up.is_set()):
            return None
        done = threading.Event()
        self._queue.put(done)
        return done


def _deliver(
    backlog: queue.SimpleQueue[EventT | threading.Event | None], owner: weakref.ref[ObserverThread[EventT]]
) -> None:
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
