"""Clocks."""

import asyncio
import threading
import time

from ace.core import (
    CancellationToken,
    SystemClock,
)


def test_the_system_clock_sleeps_until_cancelled():
    token = CancellationToken()
    threading.Timer(0.05, token.cancel).start()
    started = time.monotonic()
    SystemClock().sleep(10, token)
    asyncio.run(SystemClock().asleep(0.01))
    assert time.monotonic() - started < 5
