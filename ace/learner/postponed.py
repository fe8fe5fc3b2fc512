"""Runs that could not be learned from, because the playbook was out of reach: kept until it is back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from ace.core import PlaybookError, describe_error
from ace.learner.run_queue import ObservedRun, RunQueue

_log = logging.getLogger(__name__)


class PostponedRuns:
    """Keeps runs in a queue beside the playbook; in memory where that cannot be written.

    Args:
        file: Of the queue; None keeps them in memory alone.

    Example:
        >>> runs = PostponedRuns(None)
        >>> runs.retry(lambda run: None)
        0
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._memory: dict[str, ObservedRun] = {}

    def keep(self, run: ObservedRun, why: Exception) -> None:
        """Keep a run; on return it survives the process.

        Raises:
            PlaybookError: It is kept in this process only.
        """
        reason = describe_error(why)
        try:
            if self._file is None or not self._file.parent.is_dir():
                raise PlaybookError("there is no folder for it")
            queue = RunQueue(self._file)
            try:
                queue.put(run)
                queue.sync()
            finally:
                queue.close()
        except (OSError, PlaybookError) as error:
            self._memory[run.key] = run
            raise PlaybookError(
                f"could not learn from run {run.output.run_id!r} ({reason}), nor keep it for later in a file "
                f"({describe_error(error)}); it waits in this process, and the next `learn` tries it again"
            ) from why
        _log.warning("could not learn from run %s now (%s); it is kept and learned later", run.output.run_id, reason)

    def retry(self, learn: Callable[[ObservedRun], object]) -> int:
        """Learn from what waits, in order, until that fails again; how many were learned from."""
        done = 0
        for key, run in list(self._memory.items()):
            learn(run)
            del self._memory[key]
            done += 1
        if self._file is None or not self._file.exists():
            return done
        queue = RunQueue(self._file)
        try:
            for run in list(queue.waiting.values()):
                learn(run)
                queue.done(run, success=True)
                done += 1
        finally:
            empty = not queue.waiting
            queue.close()
            if empty:
                self._file.unlink(missing_ok=True)
        return done
