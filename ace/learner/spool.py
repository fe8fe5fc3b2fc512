"""The spool: runs that wait to be learned from, on disk before anybody has to wait for the learning.

One JSON line per run, and one more when it has been learned. A line is written by one call, so that a process that is killed
leaves at most one torn line, the last, which is cut off when the file is opened again.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ace.core import PlaybookError, json_line
from ace.core.lines import append_line, open_lines, read_lines
from ace.tasks import Feedback, TaskOutput

COMPACT_AFTER = 10_000
"""After so many runs were learned from, the file is written anew without them."""
MAX_KEPT_RUNS = 1_000
"""So many successful runs are looked through for sub-sequences that recur."""


class Lived(BaseModel):
    """A run with what is needed to learn from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    """Names the run in this spool."""
    place: str = ""
    """Its place in a training set, which is remembered after it was learned; "" for a run that was only observed."""
    output: TaskOutput
    feedback: Feedback | None = None
    """None when a judge has to say."""
    schema_hashes: dict[str, str] = Field(default_factory=dict)
    group: str = ""


class Spool:
    """An append-only file of runs, each learned once.

    Args:
        path: Made when it is not there; one process at a time may hold it.

    Raises:
        PlaybookError: The file is damaged before its last line, or another process holds it.

    Example:
        >>> spool = Spool(getfixture("tmp_path") / "runs.jsonl")
        >>> len(spool.waiting), spool.learned
        (0, {})
    """

    def __init__(self, path: str | Path) -> None:
        from filelock import FileLock, Timeout

        self.path = Path(path)
        self._lock = threading.Lock()
        self._claim = FileLock(f"{self.path}.lock", timeout=0)
        try:
            self._claim.acquire()
        except Timeout as error:
            raise PlaybookError(
                f"{str(self.path)!r} is being learned from by another process; give each its own"
            ) from error
        except OSError as error:
            raise PlaybookError(f"cannot keep runs in {str(self.path)!r}: {error.strerror}") from error
        self.waiting: dict[str, Lived] = {}
        """Runs that have not been learned from, in order."""
        self.learned: dict[str, bool] = {}
        """Places of those that have, and whether they succeeded."""
        self.succeeded: dict[str, Lived] = {}
        """By place, the last of those that did: what recurs over tasks is looked for in them."""
        self._done = 0
        try:
            read_lines(self.path, self._take, self._damaged)
            self._file = open_lines(self.path)
        except BaseException:
            self._claim.release()
            raise

    def put(self, lived: Lived) -> None:
        """Keep a run; on return it survives the end of the process, after `sync` also a power cut."""
        line = _line(lived)
        with self._lock:
            self._append(line)
            self.waiting[lived.key] = lived

    def done(self, lived: Lived, success: bool) -> None:
        """A run has been learned from."""
        with self._lock:
            self._append(_learned(lived.key, lived.place, success))
            self._forget(lived, lived.key, lived.place, success)
            self._done += 1
            if self._done >= COMPACT_AFTER:
                self._compact()

    def sync(self) -> None:
        """Force what was written to the disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Write the file anew without what has been learned from, and let others have it."""
        with self._lock:
            if self._file < 0:
                return
            try:
                self._compact()
            finally:
                os.close(self._file)
                self._file = -1
                self._claim.release()

    def _forget(self, lived: Lived | None, key: str, place: str, success: bool) -> None:
        self.waiting.pop(key, None)
        if not place:
            return
        self.learned[place] = success
        if success and lived is not None:
            self.succeeded[place] = lived
            while len(self.succeeded) > MAX_KEPT_RUNS:
                self.succeeded.pop(next(iter(self.succeeded)))

    def _append(self, line: str) -> None:
        append_line(self._file, line)

    def _damaged(self, number: int, error: Exception) -> PlaybookError:
        return PlaybookError(
            f"line {number} of {str(self.path)!r} is damaged: {_short(error)}; move the file away to start anew, "
            "what was learned stays in the playbook"
        )

    def _take(self, entry: Mapping[str, object]) -> None:
        if "learned" in entry:
            key = str(entry["learned"])
            self._forget(self.waiting.get(key), key, str(entry["place"]), bool(entry["success"]))
        else:
            lived = Lived.model_validate(entry)
            self.waiting[lived.key] = lived

    def _compact(self) -> None:
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                for place, success in self.learned.items():
                    file.write(_learned("", place, success) + "\n")
                for lived in self.succeeded.values():
                    file.write(f"{_line(lived)}\n{_learned(lived.key, lived.place, True)}\n")
                for lived in self.waiting.values():
                    file.write(_line(lived) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        os.close(self._file)
        self._file = open_lines(self.path)
        self._done = 0


def _learned(key: str, place: str, success: bool) -> str:
    return json.dumps({"learned": key, "place": place, "success": success})


def _line(lived: Lived) -> str:
    try:
        return json_line(lived)
    except (ValueError, RecursionError) as error:
        raise PlaybookError(
            f"cannot keep run {lived.output.run_id!r}: {error}; its steps hold what JSON cannot hold"
        ) from error


def _short(error: Exception) -> str:
    return f"{error.error_count()} fields are wrong" if isinstance(error, ValidationError) else str(error)
