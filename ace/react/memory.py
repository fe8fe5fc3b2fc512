"""Memory is a help, never a condition: what a run gets from its playbook in time, and what was not learned yet."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import dspy

from ace.core import describe_error
from ace.react.spans import span
from ace.tasks import MemoryUse, TaskInput
from ace.tools.threads import ThreadPool

_log = logging.getLogger(__name__)
_READERS = ThreadPool("ace-memory")
MEMORY_TIMEOUT = 2.0
"""Default time limit of a retrieval, in seconds."""


@dataclass(frozen=True)
class Recalled:
    """What a retrieval gave, and how it ended."""

    bullets: Any = field(default_factory=list)
    use: MemoryUse | None = None


MAX_READERS = 16
"""Retrievals from one memory side by side, so that not more than these may hang; others wait for their turn in time."""


class Memory:
    """A playbook, or anything like it, as runs read it: within a time limit, and whatever it raises.

    Args:
        source: Has `retrieve_for`; None for no memory. One with `warm` is warmed up in a thread from now on.
        timeout: Seconds; None waits as long as it takes.

    Examples:
        >>> Memory(None).recall(TaskInput(inputs={"task": "x"}), {}).use is None
        True
    """

    def __init__(self, source: Any, timeout: float | None = MEMORY_TIMEOUT) -> None:
        self.source = source
        self.timeout = timeout
        self._out = threading.Event()
        self._warned = False
        self._places = threading.Semaphore(MAX_READERS)
        if timeout is not None and (warm := getattr(source, "warm", None)) is not None:
            _READERS.submit(partial(contextvars.copy_context().run, warm), extra=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, (self.source, self.timeout)

    def recall(self, task: TaskInput, tools: Mapping[str, str]) -> Recalled:
        """Find the bullets for a task; none, and the reason, where they do not come in time."""
        if self.source is None:
            return Recalled()
        with span("search_memory") as open_span:
            open_span.tell(memory__query__text=task.text)
            module: Any = PlaybookRetrieval(self)
            recalled = cast(Recalled, module(task=task, tools=tools).recalled)
            open_span.set(memory__record__count=len(recalled.bullets))
            if recalled.use is not None and recalled.use.status == "unavailable":
                open_span.fail("unavailable")
            return recalled

    def in_time(self, task: TaskInput, tools: Mapping[str, str]) -> Recalled:
        """Do what `recall` does, unseen by callbacks."""
        if self._out.is_set():  # an earlier retrieval still hangs: another would hang as well
            return self._unavailable("an earlier retrieval has not come back")
        retrieve = partial(_bullets, self.source, task, tools)
        try:
            job = None if self.timeout is None else self._in_thread(retrieve, self.timeout)
            if job is None and self.timeout is not None:
                return self._unavailable(f"no answer within memory_timeout={self.timeout:g} s")
            bullets = retrieve() if job is None else job.result()
        except (Exception, SystemExit, CancelledError) as error:  # a foreign memory may raise anything
            return self._unavailable(describe_error(error))
        self._warned = False
        return Recalled(bullets, MemoryUse(status="used" if bullets else "empty"))

    def _in_thread(self, retrieve: Callable[[], Any], seconds: float) -> Future[Any] | None:
        """Return a retrieval that is over; None for one that does not come back in time."""
        began = time.monotonic()
        if not self._places.acquire(timeout=seconds):
            return None
        inside = partial(contextvars.copy_context().run, retrieve)
        job = cast("Future[Any]", _READERS.submit(inside, extra=True))  # an extra job always gets a thread
        job.add_done_callback(self._came_back)
        wait([job], max(0.0, seconds - (time.monotonic() - began)))
        if not job.done():
            self._out.set()
            if job.done():  # it came back at this very moment
                self._out.clear()
            return None
        return job

    def _came_back(self, _: Future[Any]) -> None:
        self._places.release()
        self._out.clear()

    def _unavailable(self, reason: str) -> Recalled:
        if not self._warned:
            self._warned = True
            _log.warning("the playbook cannot be read, and runs go on without it: %s", reason)
        return Recalled([], MemoryUse(status="unavailable", reason=reason))


def _bullets(source: Any, task: TaskInput, tools: Mapping[str, str]) -> Any:
    """Return what a source gives; a list is taken as it is, with what it says beside its bullets.

    Raises:
        TypeError: It gives something else.
    """
    found = source.retrieve_for(task, tools)
    bullets = cast("list[Any]", found if isinstance(found, list) else list(found))
    for bullet in bullets:
        if not (hasattr(bullet, "id") and hasattr(bullet, "content")):
            raise TypeError(f"retrieve_for of {type(source).__name__} gave {bullet!r:.100}, expected playbook bullets")
    return bullets


class PlaybookRetrieval(dspy.Module):
    """A retrieval as callbacks and tracers see it: `PlaybookRetrieval(memory)(task=task, tools={})`."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._memory = memory

    def forward(self, task: TaskInput, tools: Mapping[str, str]) -> dspy.Prediction:
        """Return the bullets, and how they came."""
        recalled = self._memory.in_time(task, tools)
        shown = [{"id": bullet.id, "content": bullet.content} for bullet in recalled.bullets]
        return dspy.Prediction(bullets=shown, use=recalled.use, recalled=recalled)


class PlaybookLearning(dspy.Module):
    """Learning from a run as callbacks and tracers see it: `PlaybookLearning(learn)(run_id="r1", success=True)`."""

    def __init__(self, learn: Any) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._learn = learn

    def forward(self, run_id: str, success: bool) -> dspy.Prediction:
        """Return what was learned."""
        return dspy.Prediction(report=self._learn())
