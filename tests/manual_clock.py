"""A clock that only a test moves."""

from __future__ import annotations

import asyncio

from ace.core import CancellationToken


class ManualClock:
    """A clock that moves only by `advance` and by sleeping, which takes no real time."""

    def __init__(self, start: float = 0.0) -> None:
        self.time = start
        self.slept: list[float] = []
        """Every sleep, in seconds."""

    def now(self) -> float:
        """See `ace.core.Clock`."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds

    def sleep(self, seconds: float, cancellation: CancellationToken) -> None:
        """See `ace.core.Clock`."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        """See `ace.core.Clock`."""
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)
