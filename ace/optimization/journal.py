"""A journal of completions that were paid for: run again with the same seed, an interrupted optimization replays them.

One JSON line per completion, written when it arrives. A request is known by its content and by how often it was made: an
optimizer that asks the same thing twice gets two answers, in the same order as the first time.
"""
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import dspy
from dspy import lm15
from dspy._vendor.lm15.serde import request_to_dict, response_from_dict, response_to_dict

from ace.core import AceError

_log = logging.getLogger(__name__)


class Journal:
    """Completions by request.

    Args:
        path: Made when it is not there; a torn last line is cut off.

    Attributes:
        replayed: Completions that came out of the journal.
        bought: Completions that were asked for and written down.

    Raises:
        AceError: A line before the last is damaged.

    Example:
        >>> journal = Journal(getfixture("tmp_path") / "journal.jsonl")
        >>> journal.replayed, journal.bought
        (0, 0)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.replayed = self.bought = 0
        self._known: dict[tuple[str, int], Any] = {}
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._read()
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def turn(self, key: str) -> tuple[int, Any]:
        """Which time this is for a request, and the answer that was written down for it; None when it has to be asked."""
        with self._lock:
            number = self._asked[key]
            self._asked[key] += 1
            known = self._known.get((key, number))
            self.replayed += known is not None
            return number, known

    def keep(self, key: str, number: int, answer: Any) -> None:
        """Write an answer down; on return it survives the end of the process."""
        line = f"{json.dumps({'key': key, 'number': number, 'answer': answer})}\n".encode()
        with self._lock:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
            self.bought += 1

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> None:
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        *lines, torn = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                self._known[entry["key"], entry["number"]] = entry["answer"]
            except (ValueError, KeyError, TypeError) as error:
                raise AceError(
                    f"line {number} of {str(self.path)!r} is damaged ({error}); restore it, or begin in a new folder"
                ) from error
        if torn:
            _log.warning("the last line of %s was torn when its process ended; it is cut off", self.path.name)
            with self.path.open("r+b") as file:
                file.truncate(len(data) - len(torn))

    def __deepcopy__(self, memo: dict[int, Any]) -> Journal:
        return self


def journaled(lm: dspy.LM, journal: Journal) -> dspy.LM:
    """A language model that answers out of a journal where it can, and asks `lm` where it cannot.

    Args:
        lm: Any DSPy language model.
        journal: Where completions are kept.

    Example:
        >>> from ace.testing import FunctionLM
        >>> journal = Journal(getfixture("tmp_path") / "journal.jsonl")
        >>> lm = journaled(FunctionLM("test/echo", lambda prompt: "hello"), journal)
        >>> lm("Say hello"), journal.bought
        (['hello'], 1)
    """
    engine = _Engine(lm, journal)
    options = {name: lm.kwargs[name] for name in ("temperature", "max_tokens") if lm.kwargs.get(name) is not None}
    return dspy.LM(lm.model, engine=engine, async_engine=_AsyncEngine(engine), cache=False, num_retries=0, **options)


class _Engine:
    """The synchronous engine contract of DSPy 3.4."""

    def __init__(self, lm: dspy.LM, journal: Journal) -> None:
        self.lm = lm
        self.journal = journal
        self.supports_function_calling = bool(getattr(lm, "supports_function_calling", False))
        self.supports_response_schema = bool(getattr(lm, "supports_response_schema", False))
        self.supports_reasoning = bool(getattr(lm, "supports_reasoning", False))
        self.supported_params = frozenset(getattr(lm, "supported_params", ()) or ("temperature", "max_tokens"))

    def complete(self, request: lm15.Request) -> lm15.Response:
        content = json.dumps(request_to_dict(request), sort_keys=True)
        key = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        number, known = self.journal.turn(key)
        if known is not None:
            return response_from_dict(known)
        response = self.lm(replace(request, model=self.lm.model))
        self.journal.keep(key, number, response_to_dict(response))
        return response

    def stream(self, request: lm15.Request) -> Any:
        yield from lm15.response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Engine:
        return self


class _AsyncEngine:
    def __init__(self, engine: _Engine) -> None:
        self.engine = engine

    async def complete(self, request: lm15.Request) -> lm15.Response:
        return await anyio.to_thread.run_sync(self.engine.complete, request)

    async def stream(self, request: lm15.Request) -> Any:
        for event in lm15.response_to_events(await self.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _AsyncEngine:
        return self
