"""Runs that wait to be learned from, on disk before the learning begins.

One JSON line per run, and one more when it has been learned from.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from ace.core import PlaybookError, json_line
from ace.core.durable import JsonLog, locked
from ace.tasks import Feedback, TaskOutput

COMPACT_AFTER = 10_000
"""After this many runs were learned from, the file is written again without them."""


class ObservedRun(BaseModel, frozen=True, extra="forbid"):
    """A run with what is needed to learn from it."""

    key: str
    """Names the run in this queue."""
    place: str = ""
    """Its place in a training set, which is remembered after it was learned; "" for a run that was only observed."""
    output: TaskOutput
    feedback: Feedback | None = None
    """None when a judge has to decide."""
    schema_hashes: dict[str, str] = Field(default_factory=dict)
    schemas: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """Of the tools, in this process only."""
    group: str = ""
    seconds: float = 0.0
    """Of CPU time that were not enough to learn from it; it waits for somebody with more."""


def known_tools(tools: Any) -> dict[str, Any]:
    """The fields of an `ObservedRun` that say what is known of its tools.

    Args:
        tools: ``registry.schemas``, a registry, or only ``registry.schema_hashes``.

    Examples:
        >>> known_tools({"refund": "0a1b"})
        {'schema_hashes': {'refund': '0a1b'}, 'schemas': {}}
    """
    found = dict(getattr(tools, "schemas", tools) or {})
    hashes = {n: known if isinstance(known, str) else known.get("hash", "") for n, known in found.items()}
    hashes = {name: digest for name, digest in hashes.items() if digest}
    return {"schema_hashes": hashes, "schemas": {n: known for n, known in found.items() if not isinstance(known, str)}}


class RunQueue:
    """An append-only file of runs, each learned once.

    Args:
        path: Made when it is not there; one process at a time may hold it.

    Raises:
        PlaybookError: The file is damaged before its last line, or another process holds it.

    Examples:
        >>> queue = RunQueue(getfixture("tmp_path") / "runs.jsonl")
        >>> len(queue.waiting), queue.learned
        (0, {})
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._claim = ExitStack()
        taken = f"{str(self.path)!r} is being learned from by another process; give each its own"
        self._claim.enter_context(locked(Path(f"{self.path}.lock"), taken, PlaybookError))
        self.waiting: dict[str, ObservedRun] = {}
        """Runs that have not been learned from, in order."""
        self.learned: dict[str, bool] = {}
        """Places of those that have, and whether they succeeded."""
        self._done = 0
        try:
            self._log = JsonLog(self.path, self._take, self._damaged)
        except BaseException:
            self._claim.close()
            raise
        self._closed = False

    def put(self, run: ObservedRun) -> None:
        """Keep a run; on return it survives the end of the process, after `sync` also a power cut."""
        line = _line(run)
        with self._lock:
            self._log.append(line)
            self.waiting[run.key] = run

    def done(self, run: ObservedRun, success: bool) -> None:
        """A run has been learned from."""
        with self._lock:
            self._log.append(_learned(run.key, run.place, success))
            self._ended(run.key, run.place, success)
            self._done += 1
            if self._done >= COMPACT_AFTER:
                self._compact()

    def sync(self) -> None:
        """Force what was written to the disk."""
        self._log.sync()

    def close(self, *, remove_empty: bool = False) -> None:
        """Write the file again without what has been learned from, and let others have it.

        Args:
            remove_empty: Whether a file in which nothing waits is removed, before others may write to it.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with ExitStack() as stack:  # whatever fails, the lock is released
                stack.callback(self._claim.close)
                if remove_empty and not self.waiting:
                    stack.callback(self.path.unlink, missing_ok=True)
                stack.callback(self._log.close)
                self._compact()

    def _ended(self, key: str, place: str, success: bool) -> None:
        self.waiting.pop(key, None)
        if place:
            self.learned[place] = success

    def _damaged(self, number: int, error: Exception) -> PlaybookError:
        why = f"{error.error_count()} fields are wrong" if isinstance(error, ValidationError) else str(error)
        return PlaybookError(
            f"line {number} of {str(self.path)!r} is damaged: {why}; move the file away to start again, "
            "what was learned stays in the playbook"
        )

    def _take(self, entry: Mapping[str, object]) -> None:
        if "learned" in entry:
            self._ended(str(entry["learned"]), str(entry["place"]), bool(entry["success"]))
        else:
            run = ObservedRun.model_validate(entry)
            if {"withheld_bullets", "tossed_bullets"} & run.output.metadata.keys():
                raise ValueError("an earlier version wrote it, with other names for what an experiment decided")
            self.waiting[run.key] = run

    def _compact(self) -> None:
        lines = [_learned("", place, success) for place, success in self.learned.items()]
        self._log.replace([*lines, *map(_line, self.waiting.values())])
        self._done = 0


def _learned(key: str, place: str, success: bool) -> str:
    return json.dumps({"learned": key, "place": place, "success": success})


def _line(run: ObservedRun) -> str:
    try:
        return json_line(run)
    except (ValueError, RecursionError) as error:
        raise PlaybookError(
            f"cannot keep run {run.output.run_id!r}: {error}; its steps hold what JSON cannot hold"
        ) from error
