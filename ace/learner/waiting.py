"""Runs that wait to be learned from: each a file of its own in a folder, until it was."""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel, Field, ValidationError

from ace.core import PlaybookError, clean_text, describe_error, json_line
from ace.core.durable import digest, write_atomic
from ace.playbook import Playbook
from ace.playbook.database import cache_folder
from ace.tasks import Feedback, TaskOutput

MAX_LONG = 20
"""Runs that took too long to learn from, and wait beside a playbook."""
_OF_BOOKS: WeakKeyDictionary[Playbook, WaitingRuns] = WeakKeyDictionary()
_OF_BOOKS_LOCK = threading.Lock()
_log = logging.getLogger(__name__)


class ObservedRun(BaseModel, frozen=True, extra="forbid"):
    """A run with what is needed to learn from it."""

    key: str
    """Names the run among those that wait."""
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
    """Return the fields of an `ObservedRun` that say what is known of its tools.

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


class WaitingRuns:
    """Keeps runs until they were learned from; in memory without a folder, and where a run cannot be written.

    Args:
        folder: Made with the first run; None keeps them in memory alone.

    Examples:
        >>> runs = WaitingRuns(getfixture("tmp_path") / "waiting")
        >>> list(runs), runs.learned("p1")
        ([], None)
    """

    @classmethod
    def of(cls, playbook: Playbook) -> WaitingRuns:
        """Return those beside a playbook: all learners of it in this process share them."""
        with _OF_BOOKS_LOCK:
            return _OF_BOOKS.setdefault(playbook, cls(playbook.postponed))

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[str, ObservedRun] = {}
        self._retrying = threading.Lock()

    def put(self, run: ObservedRun, *, power_cut: bool = False) -> None:
        """Keep a run; on return it survives the end of the process.

        Args:
            run: In place of one of the same key.
            power_cut: Whether it survives a power cut as well.

        Raises:
            PlaybookError: Its steps hold what JSON cannot hold.
        """
        if self.folder is None:
            self._memory[run.key] = run
            return
        try:
            line = json_line(run)
        except (ValueError, RecursionError) as error:
            raise PlaybookError(
                f"cannot keep run {run.output.run_id!r}: {error}; its steps hold what JSON cannot hold"
            ) from error
        # the user's cache may not be there yet; a book's folder that was moved away is not created again
        self.folder.mkdir(mode=0o700, parents=self.folder.is_relative_to(cache_folder()), exist_ok=True)
        file = self.folder / f"{_named(run.key)}-{run.seconds:g}.json"
        write_atomic(file, line, power_cut=power_cut, private=True)
        self._forget(run.key, but=file)

    def done(self, run: ObservedRun, success: bool) -> None:
        """Take away a run that was learned from, and remember its place."""
        if run.place and self.folder is not None:
            write_atomic(self._mark(run.place), json.dumps(success), private=True)
        self._forget(run.key)

    def learned(self, place: str) -> bool | None:
        """Say whether the run at a place succeeded; None where none was learned from."""
        try:
            return json.loads(self._mark(place).read_text(encoding="utf-8")) if self.folder is not None else None
        except (FileNotFoundError, ValueError):  # a power cut may leave a file empty
            return None

    def get(self, key: str) -> ObservedRun | None:
        """Return the run of a key; None when it does not wait."""
        found = self._files(f"{_named(key)}-*.json")
        return self._memory.get(key) or (_read(found[0]) if found else None)

    def __iter__(self) -> Iterator[ObservedRun]:
        """Yield the runs that wait, those that came first before the others."""
        return self.within(math.inf)

    def within(self, seconds: float, *, sound: bool = False) -> Iterator[ObservedRun]:
        """Yield the runs that wait, without those for which so many seconds of CPU time are not enough.

        Args:
            seconds: Of CPU time.
            sound: Whether damaged files are passed by, with a warning.
        """
        yield from [run for run in self._memory.values() if run.seconds < seconds]
        for file in self._files("*.json"):
            if float(file.stem.partition("-")[2]) < seconds:
                try:
                    run = _read(file)
                except FileNotFoundError:  # another process has learned from it
                    continue
                except PlaybookError as error:
                    if not sound:
                        raise
                    _log.warning("%s", error)
                    continue
                yield run

    # -- beside a playbook -----------------------------------------------------------------------------------------------

    def keep(self, run: ObservedRun, why: Exception) -> None:
        """Keep a run that could not be learned from now; on return it survives the process.

        Raises:
            PlaybookError: It is kept in this process only, or too many wait that took too long.
        """
        reason = describe_error(why)
        if isinstance(why, PlaybookError) and why.seconds:
            run = run.model_copy(update={"seconds": why.seconds})
        failed = f"could not learn from run {run.output.run_id!r} ({reason})"
        if run.seconds and len(self._files("*.json")) - len(self._files("*-0.json")) >= MAX_LONG:
            raise PlaybookError(
                f"{failed}, and {MAX_LONG} runs that took too long wait already beside the playbook: learn from them with "
                "Reflector(seconds=...), or take that folder away"
            ) from why
        try:
            if self.folder is None:
                raise PlaybookError("there is no folder for it")
            self.put(run, power_cut=True)
        except (OSError, PlaybookError) as error:
            self._memory[run.key] = run
            # where the folder lies is for the log: a model may read the error
            _log.warning("run %s cannot be kept in a file: %s", run.output.run_id, describe_error(error))
            raise PlaybookError(
                f"{failed}, nor keep it for later in a file; it waits in this process, and the next `learn` tries it again"
            ) from why
        _log.warning("could not learn from run %s now (%s); it is kept and learned later", run.output.run_id, reason)

    def retry(self, learn: Callable[[ObservedRun], object], seconds: float = math.inf) -> None:
        """Learn from what waits, in order, until that fails.

        Args:
            learn: Learns from one of them.
            seconds: Of CPU time that it takes for one at most: runs that took longer wait on.
        """
        with self._retrying:
            for run in self.within(seconds, sound=True):
                try:
                    learn(run)
                except PlaybookError as error:
                    if not error.seconds:
                        raise
                    still = run.model_copy(update={"seconds": error.seconds})
                    self._memory.update({run.key: still} if run.key in self._memory else {})
                    if run.key not in self._memory:
                        self.put(still, power_cut=True)
                else:
                    self._forget(run.key)

    def replace(self, run: ObservedRun, *, keep: bool) -> None:
        """Replace a run that waits by a later verdict; with `keep` that waits in its stead."""
        if run.key in self._memory or self._files(f"{_named(run.key)}-*.json"):
            if keep:
                self.put(run, power_cut=True)
            else:
                self._forget(run.key)

    def _forget(self, key: str, but: Path | None = None) -> None:
        self._memory.pop(key, None)
        for file in self._files(f"{_named(key)}-*.json"):
            if file != but:
                file.unlink(missing_ok=True)

    def _files(self, pattern: str) -> list[Path]:
        """Return the files of runs, the oldest first; another process may take one away meanwhile."""
        found: list[tuple[int, str, Path]] = []
        for file in self.folder.glob(pattern) if self.folder is not None else ():
            with suppress(FileNotFoundError):
                found.append((file.stat().st_mtime_ns, file.name, file))
        return [file for _, _, file in sorted(found)]

    def _mark(self, place: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{_named(place)}.learned"


def _named(key: str) -> str:
    """Return how the files of a key begin, as it is read out of one."""
    return digest(clean_text(key))


def _read(file: Path) -> ObservedRun:
    try:
        return ObservedRun.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise PlaybookError(
            f"{str(file)!r} is damaged: {error.error_count()} fields are wrong; move it away to go on without that run"
        ) from error
