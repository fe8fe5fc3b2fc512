"""Cancellation: a stop token, seen by the run, its driver and its tools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class CancellationToken:
    """Set once, from any thread; never unset.

    Examples:
        >>> token = CancellationToken()
        >>> token.cancel("the user went away")
        >>> token.cancelled, token.reason
        (True, 'the user went away')
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason = ""

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self, reason: str = "cancelled") -> None:
        """Ask all watchers to stop; the first reason stays."""
        with self._lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until cancelled or until `timeout` seconds have passed; True when cancelled.

        A tool that polls something should wait like this instead of `time.sleep`.
        """
        return self._event.wait(timeout)

    def link(self, child: CancellationToken) -> None:
        """Cancel `child` together with this token."""
        self._when_cancelled(lambda: child.cancel(self.reason))

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Generator[None]:
        """Call `callback` on cancellation while the block runs; at once when that has already happened."""
        self._when_cancelled(callback)
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

    def _when_cancelled(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def __deepcopy__(self, memo: object) -> CancellationToken:
        return self
