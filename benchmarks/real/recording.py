"""What a model was asked and what it said, run by run: a recording that answers in the model's place afterwards.

A recording is a file of JSON lines, packed by gzip where its name ends in ``.gz``. The first line says of which model it is.
Each request is a line of its own with the key that a replay looks for (a hash of all that was sent), the reply, the seconds
that it took, and the tokens that the server counted. A last line for each run says how it ended. The file is replaced as a
whole after each run: one that was cut off is not in it, and is made again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

Request = dict[str, Any]
"""What is sent to the chat API, but for the model's name: `messages`, `max_tokens`, `temperature` ..."""
CONTEXT = "context_length_exceeded"
AROUND = 60
"""Characters that are shown on each side of a difference."""


_PLACE = re.compile(r'File \\+"[^"\\]*?([^"\\/]+\.py)\\+", line \d+')


class RecordingError(Exception):
    """What is wrong with a recording or the model's server, and what to do."""


class Exchange(BaseModel, frozen=True, extra="forbid"):
    """One request and its reply."""

    key: str
    request: Request
    text: str = ""
    finish_reason: str = "stop"
    error: str = ""
    """The API's code, where the model could not be asked: the prompt was too long."""
    seconds: float
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Ending(BaseModel, frozen=True, extra="forbid"):
    """How a run ended."""

    solved: bool
    """What the suite's score says: the world is right, and the agent said that it is done."""
    state_right: bool
    ended: str
    seconds: float
    """Of the whole run, by the clock."""


class RecordedRun(BaseModel, frozen=True, extra="forbid"):
    """One run, complete."""

    name: str
    exchanges: tuple[Exchange, ...]
    ending: Ending
    commit: str = ""
    """Whose prompts these are; empty where that was not kept."""


def commit() -> str:
    """Name the commit of this folder, with ``-dirty`` where files but recordings differ from it; empty where it is no
    clone."""
    names, differs = (
        ("rev-parse", "--short", "HEAD"),
        ("diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)*.jsonl.gz"),
    )
    found, dirty = (
        subprocess.run(["git", "-C", str(Path(__file__).parent), *asked], capture_output=True, text=True, check=False)
        for asked in (names, differs)
    )
    return found.stdout.strip() + "-dirty" * (found.returncode == 0 and dirty.returncode != 0)


def key_of(request: Request) -> str:
    """Hash what was sent; the order of keys does not matter, nor where the files of a traceback lie.

    `dspy.ReActV2` puts the tracebacks of its tools into its prompt, with the folders of the machine that it runs on.

    Examples:
        >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
        True
    """
    text = _PLACE.sub(r"File \1", json.dumps(request, sort_keys=True, ensure_ascii=False))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Recording:
    """The runs in a file, by name.

    Args:
        path: The file; it need not be there.

    Raises:
        RecordingError: It is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = ""
        self.runs: dict[str, RecordedRun] = {}
        if path.exists():
            try:
                self._read(path)
            except (OSError, EOFError, ValueError, KeyError, ValidationError) as error:
                raise RecordingError(
                    f"{path} is no recording, or a damaged one: {error}; restore or delete it"
                ) from error

    def _read(self, path: Path) -> None:
        open_text = gzip.open if path.suffix == ".gz" else open
        waiting: dict[str, list[Exchange]] = {}
        with open_text(path, "rt", encoding="utf-8") as lines:
            self.model = json.loads(next(lines))["model"]
            for line in lines:
                row = json.loads(line)
                name = row.pop("run")
                if "ending" in row:
                    exchanges = tuple(waiting.pop(name, ()))
                    self.runs[name] = RecordedRun(name=name, exchanges=exchanges, **row)
                else:
                    waiting.setdefault(name, []).append(Exchange(**row))

    def of_model(self, name: str) -> None:
        """Say which model is recorded.

        Raises:
            RecordingError: The recording is of another one.
        """
        if self.runs and name != self.model:
            raise RecordingError(
                f"{self.path} is of the model {self.model!r}, the server has {name!r}; name another file"
            )
        self.model = name

    def add(self, run: RecordedRun) -> None:
        """Keep a run, in place of one of that name, and write the file."""
        self.runs[run.name] = run
        self._write()

    def drop(self, names: Iterable[str]) -> None:
        """Forget runs, so that they are made again."""
        for name in names:
            self.runs.pop(name, None)

    def _write(self) -> None:
        lines: list[Any] = [{"recording": 1, "model": self.model}]
        for run in self.runs.values():
            lines += [{"run": run.name, **exchange.model_dump()} for exchange in run.exchanges]
            lines.append({"run": run.name, **run.model_dump(include={"ending", "commit"}, exclude_defaults=True)})
        data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        if self.path.suffix == ".gz":
            data = gzip.compress(data, mtime=0)  # without the time, equal recordings are equal files
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        fresh.write_bytes(data)
        fresh.replace(self.path)


class LiveModel:
    """Asks a server for one run, and keeps what it said.

    Attributes:
        exchanges: What was asked and said so far.
        problem: Why the run cannot count: an agent may take an exception for the model's and go on.
    """

    def __init__(self, url: str, timeout: float = 3_600.0) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        self.exchanges: list[Exchange] = []
        self.problem: RecordingError | None = None

    def ask(self, request: Request) -> Exchange:
        """Return the reply to a request.

        Raises:
            RecordingError: The server cannot be reached, or failed.
        """
        started = time.monotonic()
        body = json.dumps({"model": "local", **request}).encode()
        sent = urllib.request.Request(f"{self.url}/chat/completions", body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(sent, timeout=self.timeout) as answer:
                found = self._said(json.load(answer))
        except urllib.error.HTTPError as error:
            found = self._refused(error)
        except (OSError, ValueError, KeyError) as error:
            self.problem = RecordingError(
                f"the server at {self.url} gave no reply: {error!r}; start it and run this again"
            )
            raise self.problem from error
        exchange = Exchange(key=key_of(request), request=request, seconds=round(time.monotonic() - started, 3), **found)
        self.exchanges.append(exchange)
        return exchange

    def _said(self, reply: dict[str, Any]) -> dict[str, Any]:
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        return {
            "text": choice["message"]["content"] or "",
            "finish_reason": choice.get("finish_reason") or "stop",
            "prompt_tokens": usage.get("prompt_tokens", 0),
            "completion_tokens": usage.get("completion_tokens", 0),
        }

    def _refused(self, error: urllib.error.HTTPError) -> dict[str, Any]:
        """Return a prompt that is too long as the run's own affair; any other refusal is not."""
        with error:
            said = error.read().decode("utf-8", "replace")
        try:
            told = json.loads(said)["error"]
            if told["code"] == CONTEXT:
                return {"error": CONTEXT, "text": told["message"]}
        except (ValueError, KeyError, TypeError):
            pass
        self.problem = RecordingError(f"the server at {self.url} answered {error.code}: {said[:300]}")
        raise self.problem from error


class ReplayedModel:
    """Answers the requests of one run from its recording, in their order.

    Attributes:
        exchanges: What was asked so far.
        problem: Why the replay is none: see `LiveModel`.
    """

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self.exchanges: list[Exchange] = []
        self.problem: RecordingError | None = None

    def ask(self, request: Request) -> Exchange:
        """Return the recorded reply to a request.

        Raises:
            RecordingError: The recording has another one there; it says what differs.
        """
        number = len(self.exchanges)
        if number == len(self.run.exchanges):
            self.problem = self._changed(f"there are {number} requests in the recording, and one more is made")
        elif key_of(request) != key_of(recorded := self.run.exchanges[number].request):
            self.problem = self._changed(
                f"request {number + 1} is not in the recording: {difference(recorded, request)}"
            )
        if self.problem is not None:
            raise self.problem
        self.exchanges.append(self.run.exchanges[number])
        return self.exchanges[-1]

    def check_end(self) -> None:
        """Say that the run has ended.

        Raises:
            RecordingError: The recorded one went on.
        """
        if self.problem is None and len(self.exchanges) < len(self.run.exchanges):
            asked, recorded = len(self.exchanges), len(self.run.exchanges)
            self.problem = self._changed(f"it made {asked} requests, and {recorded} are in the recording")
        if self.problem is not None:
            raise self.problem

    def _changed(self, what: str) -> RecordingError:
        return RecordingError(f"run {self.run.name!r}: {what}; record it again with --again")


def difference(recorded: Request, now: Request) -> str:
    """Say what two requests differ in: the first message that differs, and what stands there.

    Examples:
        >>> difference({"messages": [], "max_tokens": 10}, {"messages": [], "max_tokens": 20})
        'max_tokens was 10 and is 20'
    """
    before, after = recorded.get("messages", []), now.get("messages", [])
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        if old == new:
            continue
        if old.get("role") != new.get("role"):
            return f"message {number} was of the role {old.get('role')!r} and is of {new.get('role')!r}"
        was, text = str(old.get("content")), str(new.get("content"))
        place = next((i for i, (a, b) in enumerate(zip(was, text, strict=False)) if a != b), min(len(was), len(text)))
        shown = slice(max(0, place - AROUND), place + AROUND)
        return f"message {number} ({new['role']}) differs at character {place}: it was {was[shown]!r} and is {text[shown]!r}"
    if len(before) != len(after):
        return f"it had {len(before)} messages and has {len(after)}"
    names = sorted(recorded.keys() | now.keys())
    changed = [f"{name} was {recorded.get(name)!r} and is {now.get(name)!r}" for name in names]
    return ", ".join(text for text, name in zip(changed, names, strict=True) if recorded.get(name) != now.get(name))
