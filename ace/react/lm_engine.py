"""The engine contract of DSPy 3.4, for models of our own, and the `rollout_id` that DSPy does not pass on to an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextvars import ContextVar
from typing import Any, cast

import anyio.to_thread
import dspy
from dspy import lm15

_ROLLOUT: ContextVar[int | None] = ContextVar("rollout", default=None)


def current_rollout() -> int | None:
    """Of the request under way; None when it names none."""
    return _ROLLOUT.get()


class LMEngine(ABC):
    """The synchronous engine contract of DSPy 3.4."""

    @abstractmethod
    def complete(self, request: lm15.Request) -> lm15.Response:
        """The answer to one request."""

    def stream(self, request: lm15.Request) -> Any:
        """The whole answer, as the events of a stream."""
        yield from lm15.response_to_events(self.complete(request))

    def close(self) -> None:  # noqa: B027
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> LMEngine:
        return self


class AsyncLMEngine:
    """An engine for async callers.

    Args:
        engine: What answers.
        in_thread: Whether it may block, and so runs in a thread.
    """

    def __init__(self, engine: LMEngine, in_thread: bool = True) -> None:
        self.engine = engine
        self.in_thread = in_thread

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """The answer to one request."""
        if self.in_thread:
            return await anyio.to_thread.run_sync(self.engine.complete, request)
        return self.engine.complete(request)

    async def stream(self, request: lm15.Request) -> Any:
        """The whole answer, as the events of a stream."""
        for event in lm15.response_to_events(await self.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncLMEngine:
        return self


class RolloutLM(dspy.LM):
    """A language model whose engine can ask for `current_rollout`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As `dspy.LM`."""
        before = _ROLLOUT.set(kwargs.get("rollout_id", self.kwargs.get("rollout_id")))
        try:
            return cast(Any, super()).__call__(*args, **kwargs)
        finally:
            _ROLLOUT.reset(before)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """As `dspy.LM`."""
        before = _ROLLOUT.set(kwargs.get("rollout_id", self.kwargs.get("rollout_id")))
        try:
            return await cast(Any, super()).acall(*args, **kwargs)
        finally:
            _ROLLOUT.reset(before)
