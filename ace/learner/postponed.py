"""Runs that could not be learned from, because the playbook was out of reach: kept until it is back."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

from ace.core import PlaybookError, describe_error
from ace.learner.run_queue import ObservedRun, RunQueue
from ace.playbook import Playbook

MAX_LONG = 20
"""Runs that took too long to learn from, and wait."""
BUSY_SECONDS = 2.0
"""How long another process may hold the queue."""
_ALL: WeakKeyDictionary[Playbook, PostponedRuns] = WeakKeyDictionary()
_ALL_LOCK = threading.Lock()
_log = logging.getLogger(__name__)


class PostponedRuns:
    """Keeps runs in a queue beside the playbook; in memory where that cannot be written.

    Args:
        file: Of the queue; None keeps them in memory alone.

    Examples:
        >>> runs = PostponedRuns(None)
        >>> runs.retry(lambda run: None)
        0
    """

    @classmethod
    def of(cls, playbook: Playbook) -> PostponedRuns:
        """Those of a playbook: all learners of it in this process share them."""
        with _ALL_LOCK:
            if playbook not in _ALL:
                _ALL[playbook] = cls(playbook.postponed)
            return _ALL[playbook]

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._memory: dict[str, ObservedRun] = {}
        self._lock = threading.Lock()
        self._all_too_long: tuple[int, int, float] = (0, 0, 0.0)
        """Time and size of a file of which every run takes longer than so many seconds."""

    def keep(self, run: ObservedRun, why: Exception) -> None:
        """Keep a run; on return it survives the process.

        Raises:
            PlaybookError: It is kept in this process only.
        """
        reason = describe_error(why)
        if isinstance(why, PlaybookError) and why.seconds:
            run = run.model_copy(update={"seconds": why.seconds})
        try:
            if self._file is None or not self._file.parent.is_dir():
                raise PlaybookError("there is no folder for it")
            with self._lock:
                queue = self._opened(self._file)
                try:
                    crowded = run.seconds > 0 and sum(other.seconds > 0 for other in queue.waiting.values()) >= MAX_LONG
                    if not crowded:
                        queue.put(run)
                        queue.sync()
                finally:
                    queue.close()
        except (OSError, PlaybookError) as error:
            self._memory[run.key] = run
            # where the file lies is for the log: a model may read the error
            _log.warning("run %s cannot be kept in a file: %s", run.output.run_id, describe_error(error))
            raise PlaybookError(
                f"could not learn from run {run.output.run_id!r} ({reason}), nor keep it for later in a file; it waits in "
                "this process, and the next `learn` tries it again"
            ) from why
        if crowded:
            raise PlaybookError(
                f"could not learn from run {run.output.run_id!r} ({reason}), and {MAX_LONG} runs that took too long wait "
                "already beside the playbook: learn from them with Reflector(seconds=...), or take that file away"
            ) from why
        _log.warning("could not learn from run %s now (%s); it is kept and learned later", run.output.run_id, reason)

    def retry(self, learn: Callable[[ObservedRun], object], seconds: float = math.inf) -> int:
        """Learn from what waits, in order, until that fails again; how many were learned from.

        Args:
            learn: Learns from one of them.
            seconds: Of CPU time that it takes for one at most: runs that took longer wait on.
        """
        done = 0
        for key, run in list(self._memory.items()):
            if (still := _tried(learn, run, seconds)) is not None:
                self._memory[key] = still
            else:
                self._memory.pop(key, None)
                done += 1
        if self._file is None or not self._file.exists():
            return done
        written, size, enough = self._all_too_long
        now = self._file.stat()
        if seconds <= enough and (now.st_mtime_ns, now.st_size) == (written, size):
            return done
        with self._lock:
            queue = self._opened(self._file)
            try:
                for run in list(queue.waiting.values()):
                    still = _tried(learn, run, seconds)
                    if still is None:
                        queue.done(run, success=True)
                        done += 1
                    elif still is not run:
                        queue.put(still)
            finally:
                queue.close(remove_empty=True)
            if self._file.exists():
                now = self._file.stat()
                self._all_too_long = (now.st_mtime_ns, now.st_size, seconds)
        return done

    def _opened(self, file: Path) -> RunQueue:
        """The queue; another process may be writing to it at this moment."""
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return RunQueue(file)
            except PlaybookError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)


def _tried(learn: Callable[[ObservedRun], object], run: ObservedRun, seconds: float) -> ObservedRun | None:
    """The run as it waits on, because it took too long once more or did with as much time; None when it was learned from."""
    if run.seconds >= seconds:
        return run
    try:
        learn(run)
    except PlaybookError as error:
        if not error.seconds:
            raise
        return run.model_copy(update={"seconds": error.seconds})
    return None
