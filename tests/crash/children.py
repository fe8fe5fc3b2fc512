"""Children that are forked after the imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def in_child(work: Callable[[], object]) -> int:
    """Run something in a fork; its exit code says whether it raised."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid
