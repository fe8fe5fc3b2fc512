"""One thread that learns from observed runs, and the bounded queue before it."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial

from ace.core import PlaybookError
from ace.learner.waiting import ObservedRun
from ace.tools.threads import ThreadPool

_log = logging.getLogger(__name__)


class BackgroundWorker:
    """Learns from one run after the other in a thread that starts with the first.

    Args:
        work: Learns from one run.
        size: How many runs may wait.
    """

    def __init__(self, work: Callable[[ObservedRun], object], size: int) -> None:
        self._work = weakref.WeakMethod(work)  # the thread must not keep a forgotten learner alive
        self._size = size
        self._free_places = threading.Semaphore(size)
        self._thread = ThreadPool("ace-learner", 1)
        self._jobs: set[Future[None]] = set()
        self._error: BaseException | None = None
        self._closed = False

    def check_open(self) -> None:
        """Raise `PlaybookError` when the learner is closed."""
        if self._closed:
            raise PlaybookError("the learner is closed; make a new one to observe further runs")

    def put(self, run: ObservedRun, *, wait: bool = True) -> None:
        """Queue a run; waits while the queue is full, unless it comes out of the state."""
        held = self._free_places.acquire(blocking=False)
        if wait and not held:
            _log.warning("%d runs wait to be learned from; the agent waits too", self._size)
            held = self._free_places.acquire()
        job = self._thread.submit(partial(self._run, run, held))
        assert job is not None, "nobody gives up on a job of this thread"
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def flush(self, seconds: float | None) -> bool:
        """Wait until nothing is left; raises what went wrong, once."""
        left = wait(set(self._jobs), seconds).not_done
        error, self._error = self._error, None
        if error is not None:
            raise error
        return not left

    def stop(self) -> None:
        """Take nothing more, and wait for what is there."""
        self._closed = True
        wait(set(self._jobs))

    def _run(self, run: ObservedRun, held: bool) -> None:
        try:
            if (learn := self._work()) is not None:
                learn(run)
        except BaseException as error:  # not even a judge that is cancelled may end this thread
            # the next run may teach something; with a state this one is tried again
            _log.exception("could not learn from run %s", run.output.run_id)
            self._error = error
        finally:
            if held:
                self._free_places.release()
