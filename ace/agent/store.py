"""Stores of runs that survive their process: one JSON file per run, replaced as a whole after each step."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

from ace.agent.record import RunSnapshot
from ace.core import RunStoreError
from ace.core.durable import locked, write_atomic

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


class RunStore(Protocol):
    """Keeps snapshots of runs, as `FolderRunStore("runs")` does."""

    @property
    def every_step(self) -> bool:
        """Whether a run is saved before each step, or only when it stops to wait."""
        ...

    def save(self, snapshot: RunSnapshot) -> None:
        """Keep this state of a run in place of an earlier one; on return, it is safe."""
        ...

    def has(self, run_id: str) -> bool:
        """Check whether a run of this id was saved."""
        ...

    def load(self, run_id: str) -> RunSnapshot:
        """Load the last state that was saved.

        Raises:
            RunStoreError: There is no such run, or what is stored is damaged.
        """
        ...

    def claim(self, run_id: str) -> AbstractContextManager[None]:
        """Hold a run while it is driven, so that no other process goes on with it at the same time."""
        ...


class FolderRunStore:
    """Runs as files in a folder.

    A save survives a power cut, and there is never half a run: see `ace.core.durable`. A file is signed (HMAC-SHA256) with
    the key in the folder's ``.key``, so that one which was edited or brought in is refused. A run that is driven is locked
    against other processes.

    Args:
        folder: Created when it is missing.

    Examples:
        >>> folder = getfixture("tmp_path")
        >>> FolderRunStore(folder).run_ids()
        ()
    """

    every_step = True

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    @cached_property
    def _key(self) -> bytes:
        """The folder's key, made where there is none; it appears whole, whichever process is first."""
        path = self.folder / ".key"
        if not path.exists():
            fresh = self.folder / f".key.{secrets.token_hex(8)}"
            write_atomic(fresh, secrets.token_hex(32), power_cut=True, private=True)
            with suppress(FileExistsError):
                os.link(fresh, path)
            fresh.unlink()
        return path.read_bytes()

    def _signed(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()

    def save(self, snapshot: RunSnapshot) -> None:
        """See `RunStore`."""
        body = snapshot.to_json()
        text = json.dumps({"hmac": self._signed(body), "run": body})
        write_atomic(self._path(snapshot.run_id), text, power_cut=True, private=True)

    def has(self, run_id: str) -> bool:
        """See `RunStore`."""
        return self._path(run_id).exists()

    def load(self, run_id: str) -> RunSnapshot:
        """See `RunStore`."""
        path = self._path(run_id)
        if not path.exists():
            raise RunStoreError(f"no run {run_id!r} in {self.folder}; there are {len(self.run_ids())}")
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            body = stored["run"]
            sound = hmac.compare_digest(self._signed(body), stored["hmac"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunStoreError(f"{path.name} is no stored run: {error}") from error
        if not sound:
            raise RunStoreError(f"{path.name} is damaged or was edited: its signature does not fit its content")
        run = RunSnapshot.from_json(body)
        if run.run_id != run_id:
            raise RunStoreError(f"{path.name} holds another run, {run.run_id!r}; give the file its own name again")
        return run

    def claim(self, run_id: str) -> AbstractContextManager[None]:
        """See `RunStore`."""
        taken = f"run {run_id!r} is being driven by another process; wait until it is done"
        return locked(self._path(run_id).with_suffix(".lock"), taken, RunStoreError)

    def delete(self, run_id: str) -> None:
        """Forget a run."""
        path = self._path(run_id)
        path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)

    def run_ids(self) -> tuple[str, ...]:
        """List all runs, the latest first."""
        files = sorted(self.folder.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
        return tuple(path.stem for path in files)

    def _path(self, run_id: str) -> Path:
        if not _NAME.fullmatch(run_id):
            raise RunStoreError(f"a run id holds letters, digits, '-' and '_' only, got {run_id!r}")
        return self.folder / f"{run_id}.json"


class MemoryRunStore:
    """Keeps the last runs that wait, in this process: `ReActGenerator(tools=[look_up], run_store=MemoryRunStore())`.

    Args:
        size: How many; the oldest is forgotten first.
    """

    every_step = False

    def __init__(self, size: int = 1_000) -> None:
        self.size = size
        self._runs: OrderedDict[str, RunSnapshot] = OrderedDict()
        self._driven: set[str] = set()
        self._lock = threading.Lock()

    def save(self, snapshot: RunSnapshot) -> None:
        """See `RunStore`."""
        self._runs[snapshot.run_id] = snapshot
        self._runs.move_to_end(snapshot.run_id)
        while len(self._runs) > self.size:
            self._runs.popitem(last=False)

    def has(self, run_id: str) -> bool:
        """See `RunStore`."""
        return run_id in self._runs

    def load(self, run_id: str) -> RunSnapshot:
        """See `RunStore`."""
        if run_id not in self._runs:
            raise RunStoreError(
                f"no waiting run {run_id!r} in this process; give the agent run_store=FOLDER to go on in another one"
            )
        return self._runs[run_id]

    @contextmanager
    def claim(self, run_id: str) -> Generator[None]:
        """See `RunStore`."""
        with self._lock:
            if run_id in self._driven:
                raise RunStoreError(f"run {run_id!r} is being driven already; wait until it is done")
            self._driven.add(run_id)
        try:
            yield
        finally:
            self._driven.discard(run_id)
