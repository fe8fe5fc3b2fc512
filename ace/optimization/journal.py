"""A journal of completions: what was paid for is replayed when an optimization is run again after an interruption.

Optimizers are seeded: the same run sends the same requests. Each completion is one JSON line, written before the optimizer
sees it, so that a job that was killed and is run again sends no request a second time; only one that was under way at that
moment, whose answer was not read, has to be sent again. As in DSPy's own cache, a request is known by its content and
its `rollout_id`; the same request is one request.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dspy
from dspy import lm15
from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedModelError

from ace.core import AceError
from ace.core.durable import JsonLog
from ace.core.text import any_json
from ace.react.lm_engine import AsyncLMEngine, LMEngine, RolloutLM, current_rollout


class CompletionJournal:
    """Answers by key, on disk.

    Args:
        path: Made when it is not there; a torn last line is cut off.

    Attributes:
        replayed: Answers that an earlier process had written down.
        bought: Answers that were requested and written down.
        tokens: Input and output tokens of all answers, those of earlier processes included.

    Raises:
        AceError: A line before the last is damaged.

    Examples:
        >>> journal = CompletionJournal(getfixture("tmp_path") / "journal.jsonl")
        >>> journal.answer("six times seven?", lambda: 42), journal.answer("six times seven?", lambda: 43)
        (42, 42)
        >>> journal.replayed, journal.bought
        (0, 1)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.replayed = self.bought = 0
        self.tokens = (0, 0)
        self._old: set[str] = set()
        self._known: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._log = JsonLog(self.path, self._take, self._damaged)
        self._old = set(self._known)

    def answer(self, key: str, ask: Callable[[], Any], *, counted: bool = True) -> Any:
        """The recorded answer; otherwise ask, and record it. Another thread that needs the same answer waits.

        Args:
            key: Names the answer.
            ask: Gives a JSON value; when it raises, nothing is recorded.
            counted: Whether it is a request to a model, for `replayed` and `bought`.

        Raises:
            AceError: The answer cannot be written down.
        """
        with self._lock:
            turn = self._asking.setdefault(key, threading.Lock())
        with turn:
            if key in self._known:
                with self._lock:
                    self.replayed += counted and key in self._old
                    self._old.discard(key)
                return self._known[key]
            value = ask()
            with self._lock:
                try:
                    self._log.append(json.dumps({"key": key, "answer": value}))
                except OSError as error:
                    raise AceError(f"cannot write to {str(self.path)!r}: {error.strerror}") from error
                self._remember(key, value)
                self.bought += counted
            return value

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def _take(self, entry: Any) -> None:
        self._remember(str(entry["key"]), entry["answer"])

    def _remember(self, key: str, value: Any) -> None:
        self._known[key] = value
        entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        usage: Any = entry.get("usage")
        if isinstance(usage, dict):
            counts = cast("dict[str, Any]", usage)
            read, written = self.tokens
            self.tokens = (
                read + int(counts.get("input_tokens") or 0),
                written + int(counts.get("output_tokens") or 0),
            )

    def _damaged(self, number: int, error: Exception) -> AceError:
        return AceError(
            f"line {number} of {str(self.path)!r} is damaged ({error}); restore it, or begin in a new folder"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> CompletionJournal:
        return self


class StopSwitch:
    """A switch that several models share: once it is set, none of them sends a request.

    Attributes:
        reason: Why it was set; None before.
    """

    def __init__(self) -> None:
        self.reason: BaseException | None = None

    def stop(self, reason: BaseException) -> None:
        """Set it; the first reason stays."""
        self.reason = self.reason or reason

    def __deepcopy__(self, memo: dict[int, Any]) -> StopSwitch:
        return self


class JournaledLM(RolloutLM):
    """A language model that answers from a journal where it can, and calls another model where it cannot.

    Args:
        lm: Any DSPy language model.
        journal: Where completions are kept.
        stop: Set when a request fails; afterwards none is sent: an optimizer would take what follows for the program's
            failures. A request that the model's API refuses, because it is too long for example, is the program's own.

    Examples:
        >>> from ace.testing import FunctionLM
        >>> journal = CompletionJournal(getfixture("tmp_path") / "journal.jsonl")
        >>> lm = JournaledLM(FunctionLM("test/echo", lambda prompt: "hello"), journal)
        >>> lm("Say hello"), lm("Say hello"), journal.bought
        (['hello'], ['hello'], 1)
    """

    def __init__(self, lm: Any, journal: CompletionJournal, *, stop: StopSwitch | None = None) -> None:
        engine = _Engine(lm, journal, stop)
        # the inner model has the options of the connection
        options = {name: value for name, value in lm.kwargs.items() if name not in CLIENT_KEYS and value is not None}
        cast(Any, super()).__init__(
            lm.model, engine=engine, async_engine=AsyncLMEngine(engine), cache=False, num_retries=0, **options
        )


class _Engine(LMEngine):
    """Calls the inner model for what the journal does not hold."""

    def __init__(self, lm: Any, journal: CompletionJournal, stop: StopSwitch | None) -> None:
        self.lm = lm
        self.journal = journal
        self.stop = stop or StopSwitch()
        # what a server behind an address can do is not known here: the caller who asks for native tool calling knows it
        addressed = isinstance(getattr(lm, "engine", ""), str) and bool(lm.kwargs.get("api_base"))
        self.supports_function_calling = addressed or bool(getattr(lm, "supports_function_calling", False))
        self.supports_response_schema = bool(getattr(lm, "supports_response_schema", False))
        self.supports_reasoning = bool(getattr(lm, "supports_reasoning", False))
        self.supported_params = frozenset(getattr(lm, "supported_params", ()) or ("temperature", "max_tokens"))

    def complete(self, request: lm15.Request) -> lm15.Response:
        """The journal's answer, or the model's, which is recorded first."""
        content = json.dumps([any_json(request), current_rollout()], sort_keys=True)
        key = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        rollout = {} if current_rollout() is None else {"rollout_id": current_rollout()}
        sent = replace(request, model=self.lm.model)

        def ask() -> Any:
            # the outer model counts this request and reports it to callbacks: here it would count twice
            with cast(Any, dspy).context(usage_tracker=None, callbacks=[], send_stream=None):
                return any_json(self.lm(sent, **rollout))

        reason = self.stop.reason
        if reason is not None:
            raise reason if isinstance(reason, Exception) else AceError("interrupted")
        try:
            answer = self.journal.answer(key, ask)
        except BaseException as error:
            if not isinstance(error, LMInvalidRequestError) or isinstance(error, LMUnsupportedModelError):
                self.stop.stop(error)
            raise
        try:
            return _response(answer)
        except (KeyError, TypeError, ValueError) as error:
            damage = AceError(
                f"{str(self.journal.path)!r} holds an answer that is no completion; begin in a new folder"
            )
            self.stop.stop(damage)
            raise damage from error


_PARTS: dict[str, Any] = {
    "text": lm15.TextPart,
    "thinking": lm15.ThinkingPart,
    "tool_call": lm15.ToolCallPart,
    "refusal": lm15.RefusalPart,
}
"""What a language model's reply is made of, as far as an optimizer reads it."""


def _response(answer: dict[str, Any]) -> lm15.Response:
    """A recorded reply: its text, its thoughts, its calls, and what it cost.

    Raises:
        KeyError: It is none.
    """
    parts = [part for part in answer["message"]["parts"] if part["type"] in _PARTS]
    made = [
        _PARTS[part["type"]](**{k: v for k, v in part.items() if k not in ("type", "continuation")}) for part in parts
    ]
    return lm15.Response(
        id=answer["id"],
        model=answer["model"],
        message=lm15.Message.assistant(made),
        finish_reason=answer["finish_reason"],
        usage=lm15.Usage(**answer["usage"]),
    )
