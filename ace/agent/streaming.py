"""A run as a stream of its events: for async callers on their loop, for sync ones from a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from ace.core import CancellationToken, ResumeError

EventT = TypeVar("EventT")
OutputT = TypeVar("OutputT")

_NOT_OVER = "the run is not over; read the stream to its end before asking for its output"
_LEFT = "the loop over its stream was left"


class AsyncRunStream(Generic[EventT, OutputT]):
    """Events of a run as it goes; afterwards `output`. Leaving the loop over it, or its block, cancels the
    run: a call under way may end, no further one begins.

    Args:
        start: Starts the run with a listener, which any thread may call.
        token: Cancels it.
    """

    def __init__(
        self, start: Callable[[Callable[[EventT], None]], Awaitable[OutputT]], token: CancellationToken
    ) -> None:
        self._start = start
        self.token = token
        self._events: asyncio.Queue[EventT | None] = asyncio.Queue()
        self._task: asyncio.Task[OutputT] | None = None
        self._over = False

    @property
    def output(self) -> OutputT:
        """What came out.

        Raises:
            ResumeError: The stream was not read to its end.
        """
        if self._task is None or not self._task.done():
            raise ResumeError(_NOT_OVER)
        return self._task.result()

    def __aiter__(self) -> AsyncIterator[EventT]:
        return _Loop(self)

    async def read(self) -> EventT | None:
        """Return the next event; None at the end of the run."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
            # nobody may be there to take from the task what the run raised
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        event = None if self._over else await self._events.get()
        if event is None:
            self._over = True
            await self._task
        return event

    def leave(self) -> None:
        """Cancel the run if it is still going; returns at once."""
        if self._task is not None and not self._task.done():
            self.token.cancel(_LEFT)

    async def _run(self) -> OutputT:
        loop, mine = asyncio.get_running_loop(), threading.get_ident()

        def put(event: EventT | None) -> None:
            if threading.get_ident() == mine:
                self._events.put_nowait(event)
            else:
                loop.call_soon_threadsafe(self._events.put_nowait, event)

        try:
            return await self._start(put)
        finally:
            loop.call_soon(self._events.put_nowait, None)  # after what other threads have sent

    async def aclose(self) -> None:
        """Cancel the run if it is still going, and wait for it to stop."""
        self.leave()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def __aenter__(self) -> AsyncRunStream[EventT, OutputT]:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()


class _Loop(AsyncIterator[EventT]):
    """One loop over a stream. It is no generator: that would be closed only when the event loop comes to it."""

    def __init__(self, stream: AsyncRunStream[EventT, Any]) -> None:
        self._stream = stream

    async def __anext__(self) -> EventT:
        event = await self._stream.read()
        if event is None:
            raise StopAsyncIteration
        return event

    def __del__(self) -> None:
        self._stream.leave()


class RunStream(Generic[EventT, OutputT]):
    """`AsyncRunStream` for sync callers.

    Args:
        work: Does the whole run, in a daemon thread, and calls the listener that it is given with each event.
        token: Cancels it.
    """

    def __init__(self, work: Callable[[Callable[[EventT], None]], OutputT], token: CancellationToken) -> None:
        self._do = work
        self._token = token
        self._events: queue.SimpleQueue[EventT | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._result: Future[OutputT] = Future()
        self._over = False

    @classmethod
    def of(cls, stream: AsyncRunStream[EventT, OutputT]) -> RunStream[EventT, OutputT]:
        """Drive a stream for async callers, on an event loop of its own."""

        async def read(put: Callable[[EventT], None]) -> OutputT:
            async for event in stream:
                put(event)
            return stream.output

        return cls(lambda put: asyncio.run(read(put)), stream.token)

    @property
    def output(self) -> OutputT:
        """See `AsyncRunStream.output`."""
        if not self._result.done():
            raise ResumeError(_NOT_OVER)
        return self._result.result()

    def __iter__(self) -> Iterator[EventT]:
        if self._thread is None:
            work = contextvars.copy_context()
            self._thread = threading.Thread(target=work.run, args=(self._work,), daemon=True, name="ace-stream")
            self._thread.start()
        try:
            while not self._over and (event := self._events.get()) is not None:
                yield event
            self._over = True
        finally:
            self._leave()
        self._thread.join()
        self._result.result()  # raises what ended it

    def _work(self) -> None:
        try:
            self._result.set_result(self._do(self._events.put))
        except BaseException as error:  # handed to the thread that reads
            self._result.set_exception(error)
        finally:
            self._events.put(None)

    def _leave(self) -> None:
        if not self._over:
            self._token.cancel(_LEFT)

    def close(self) -> None:
        """Cancel the run if it is still going, and wait for it to stop."""
        if self._thread is not None and self._thread.is_alive():
            self._leave()
            self._thread.join()

    def __enter__(self) -> RunStream[EventT, OutputT]:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
