"""Daemon threads for calls: one that is done waits for the next call, because to start a thread costs more than most tools.

`concurrent.futures` will not do: its threads are joined when the process ends, and a hung tool would keep it alive.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

IDLE_SECONDS = 10.0
"""Seconds without work after which a thread ends."""

_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):  # a fork has no threads of its parent: work given to them would never be done
    os.register_at_fork(after_in_child=_idle.clear)


class _Worker:
    """One thread and what it is to do next."""

    def __init__(self) -> None:
        self.next: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True, name="ace-tool").start()

    def _serve(self) -> None:
        while True:
            try:
                self.next.get(timeout=IDLE_SECONDS)()
            except queue.Empty:
                try:
                    _idle.remove(self)
                except ValueError:
                    continue  # a caller has just taken this thread, and is about to give it work
                return
            _idle.append(self)


def run_in_thread(body: Callable[[], object]) -> None:
    """Run `body`, which raises nothing, in a daemon thread of its own; returns at once.

    Example:
        >>> found = queue.SimpleQueue()
        >>> run_in_thread(lambda: found.put(threading.current_thread().name))
        >>> found.get()
        'ace-tool'
    """
    try:
        worker = _idle.pop()  # the one that was busy last
    except IndexError:
        worker = _Worker()
    worker.next.put(body)
