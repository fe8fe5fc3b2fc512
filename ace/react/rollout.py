"""Which sample of an answer is asked for: DSPy keeps a request's `rollout_id` to itself, and an engine is not told."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, cast

import dspy

_ROLLOUT: ContextVar[int | None] = ContextVar("rollout", default=None)


def current_rollout() -> int | None:
    """Of the request under way; None when it names none."""
    return _ROLLOUT.get()


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
