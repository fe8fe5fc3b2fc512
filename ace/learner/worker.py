"""One thread that learns from observed runs, and the bounded queue before it."""

from __future__ import annotations

import logging
import queue
import threading
import time
import weakref
from collections.abc import Callable

from ace.core import PlaybookError
from ace.learner.waiting import ObservedRun

_log = logging.getLogger(__name__)


class BackgroundWorker:
    """Learns in a thread that starts with the first run.

    Args:
        work: Learns from one run.
        size: How many runs may wait.
    """

    def __init__(self, work: Callable[[ObservedRun], object], size: int) -> None:
        self._work = weakref.WeakMethod(work)  # the thread must not keep a forgotten learner alive
        self._size = size
        self._queue: queue.Queue[tuple[ObservedRun, bool] | None] = queue.Queue()
        self._free_places = threading.Semaphore(size)
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._error: BaseException | None = None
        self._closed = False
        self._pending = 0
        self._idle = threading.Condition()

    @property
    def used(self) -> bool:
        """Whether a run was ever put in."""
        return self._thread is not None

    def check_open(self) -> None:
        """Raises `PlaybookError` when the learner is closed."""
        if self._closed:
            raise PlaybookError("the learner is closed; make a new one to observe further runs")

    def put(self, run: ObservedRun, *, wait: bool = True) -> None:
        """Queue a run; waits while the queue is full, unless it comes out of the state file."""
        held = self._free_places.acquire(blocking=False)
        if wait and not held:
            _log.warning("%d runs wait to be learned from; the agent waits too", self._size)
            held = self._free_places.acquire()
        with self._idle:
            self._pending += 1
        self._queue.put((run, held))
        with self._start_lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, daemon=True, name="ace-learner")
                self._thread.start()

    def flush(self, seconds: float | None) -> bool:
        """Wait until nothing is left; raises what went wrong, once."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._idle:
            done = self._idle.wait_for(
                lambda: self._pending == 0, None if until is None else max(0.0, until - time.monotonic())
            )
        error, self._error = self._error, None
        if error is not None:
            raise error
        return done

    def stop(self) -> None:
        """End the thread after what it is doing."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            run, held = item
            work = self._work()
            try:
                if work is not None:
                    work(run)
            except BaseException as error:  # not even a judge that is cancelled may end this thread
                # the next run may teach something; with a state file this one is tried again
                _log.exception("could not learn from run %s", run.key)
                self._error = error
            finally:
                del work
                if held:
                    self._free_places.release()
                with self._idle:
                    self._pending -= 1
                    self._idle.notify_all()
