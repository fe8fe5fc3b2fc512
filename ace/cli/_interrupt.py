"""Ctrl-C that stops a command also when Python has dropped the first one."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

RETRY_SECONDS = 0.05


def insist_on_ctrl_c() -> None:
    """Send Ctrl-C again when Python has dropped it.

    Python raises `KeyboardInterrupt` between any two bytecodes of the main thread. When those belong to a finalizer or a
    weak reference's callback, as they do in about one of a hundred interrupts of `ace learn` (the garbage collector frees
    what PyTorch and SQLAlchemy watch), the exception is printed and dropped, and the command would go on for hours.
    """
    before = sys.unraisablehook

    def again(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        # not from here: it would be raised inside this very hook, and be dropped once more
        main = threading.main_thread().ident or 0
        timer = threading.Timer(RETRY_SECONDS, signal.pthread_kill, [main, signal.SIGINT])
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
