"""A run as a stream of its events: for async callers on their loop, for sync ones from a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType

from ace.core import CancellationToken, Event, ResumeError
from ace.tasks import TaskOutput

Start = Callable[[Callable[[Event], None]], Awaitable[TaskOutput]]
"""Starts the run with a listener."""


class AsyncRunStream:
    """Events of a run as it goes; afterwards `output`. Leaving the block early cancels the run.

    Args:
        start: Starts the run.
        token: Cancels it.
    """

    def __init__(self, start: Start, token: CancellationToken) -> None:
        self._start = start
        self._token = token
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[TaskOutput] | None = None
        self._over = False

    @property
    def output(self) -> TaskOutput:
        """What came out.

        Raises:
            ResumeError: The stream was not read to its end.
        """
        if self._task is None or not self._task.done():
            raise ResumeError("the run is not over; read the stream to its end before asking for its output")
        return self._task.result()

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        while not self._over and (event := await self._events.get()) is not None:
            yield event
        self._over = True
        await self._task

    async def _run(self) -> TaskOutput:
        try:
            return await self._start(self._events.put_nowait)
        finally:
            self._events.put_nowait(None)

    async def aclose(self) -> None:
        """Cancel the run if it is still going, and wait for it to stop."""
        if self._task is not None and not self._task.done():
            self._token.cancel("the stream was closed")
            await asyncio.wait({self._task})

    async def __aenter__(self) -> AsyncRunStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class RunStream:
    """`AsyncRunStream` for sync callers.

    Args:
        stream: The run; it is driven by an event loop in a daemon thread.
    """

    def __init__(self, stream: AsyncRunStream) -> None:
        self._stream = stream
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._output: TaskOutput | None = None
        self._error: BaseException | None = None
        self._over = False

    @property
    def output(self) -> TaskOutput:
        """What came out.

        Raises:
            ResumeError: The stream was not read to its end.
        """
        if self._output is None:
            raise ResumeError("the run is not over; read the stream to its end before asking for its output")
        return self._output

    def __iter__(self) -> Iterator[Event]:
        if self._thread is None:
            work = contextvars.copy_context()
            self._thread = threading.Thread(target=work.run, args=(self._work,), daemon=True, name="ace-stream")
            self._thread.start()
        while not self._over and (event := self._events.get()) is not None:
            yield event
        self._over = True
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        async def read() -> TaskOutput:
            async for event in self._stream:
                self._events.put(event)
            return self._stream.output

        try:
            self._output = asyncio.run(read())
        except BaseException as error:  # handed to the thread that reads
            self._error = error
        finally:
            self._events.put(None)

    def close(self) -> None:
        """Cancel the run if it is still going, and wait for it to stop."""
        if self._thread is not None and self._thread.is_alive():
            self._stream._token.cancel("the stream was closed")  # pyright: ignore[reportPrivateUsage] - its other half
            self._thread.join()

    def __enter__(self) -> RunStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
