"""A clock that can be injected: real by default, controlled by hand in tests."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from ace.core.cancellation import CancellationToken


class Clock(Protocol):
    """Tells the time and sleeps: `SystemClock().now()`."""

    def now(self) -> float:
        """Return the seconds since 1970."""
        ...

    def sleep(self, seconds: float, cancellation: CancellationToken) -> None:
        """Wait, but not longer than until `cancellation`."""

    async def asleep(self, seconds: float) -> None:
        """Sleep on an event loop, as `sleep` does in a thread; there, cancellation cancels the task."""


_EPOCH = time.time() - time.monotonic()


class SystemClock:
    """The clock of this machine as it was when the process began; it only goes forward, whoever sets the time meanwhile.

    Examples:
        >>> SystemClock().now() > 1_700_000_000
        True
    """

    def now(self) -> float:
        """See `Clock`."""
        return _EPOCH + time.monotonic()

    def sleep(self, seconds: float, cancellation: CancellationToken) -> None:
        """See `Clock`."""
        cancellation.wait(seconds)

    async def asleep(self, seconds: float) -> None:
        """See `Clock`."""
        await asyncio.sleep(seconds)
