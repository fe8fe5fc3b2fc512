"""The drivers: they execute the steps of the machine, and nothing else."""

from __future__ import annotations

import asyncio
import contextvars
import queue
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol
from weakref import WeakKeyDictionary

from ace.agent.machine import AgentRun
from ace.agent.states import AskModel, CallTool, Done, ModelReply, Wait
from ace.core import AgentError, BudgetExceeded, ModelTransport, ObserverThread, ToolContext, current_context
from ace.tasks import TaskOutput
from ace.tools import Tool, ToolCall, ToolResult, acall_tool, call_tools
from ace.tools.threads import ThreadPool

Save = Callable[[AgentRun], None]
"""Called before each step is done, with the run as it is then."""


class Model(Protocol):
    """Asks a language model; raises only `AgentError`."""

    def ask(self, request: AskModel) -> ModelReply:
        """Make one request and return its one reply."""
        ...

    async def aask(self, request: AskModel) -> ModelReply:
        """Make a request as `ask` does, for async callers."""
        ...


class ToolRunner(Protocol):
    """Makes checked calls; what they raise is in their results."""

    def call(self, items: Sequence[tuple[Tool, ToolCall, ToolContext | None]]) -> list[ToolResult]:
        """Make calls side by side."""
        return call_tools(items)

    async def acall(self, tool: Tool, call: ToolCall, context: ToolContext | None) -> ToolResult:
        """Make one call, for async callers."""
        return await acall_tool(tool, call, context)


class _Plain(ToolRunner):
    """Calls that nobody watches."""


_PLAIN = _Plain()


def drive(run: AgentRun, model: Model, save: Save | None = None, tools: ToolRunner = _PLAIN) -> TaskOutput:
    """Run to the end: `drive(run, model)`. Ctrl-C leaves the run cancelled and saved, ready to be resumed."""
    try:
        while True:
            step = run.next_step()
            if save is not None:
                save(run)
            if isinstance(step, Done):
                break
            if not run.cancellation.cancelled:  # else nothing of this step has begun; the machine settles it
                _do(run, model, step, tools)
    except (KeyboardInterrupt, SystemExit):
        _cancel(run, "the process was asked to stop", save)
        raise
    ObserverThread.flush_all(run.spec.observers)
    return run.output()


def _do(run: AgentRun, model: Model, step: AskModel | CallTool | Wait, tools: ToolRunner) -> None:
    match step:
        case AskModel():
            try:
                reply = _reply(run, model, step)
            except AgentError as error:
                run.model_failed(error)
            else:
                if reply is not None:
                    run.model_replied(reply)
        case CallTool(calls):
            for result in tools.call([(run.tool(c), c, run.tool_context(c)) for c in calls]):
                run.tool_finished(result)
        case Wait(seconds):
            run.spec.clock.sleep(seconds, run.cancellation)


async def adrive(
    run: AgentRun,
    model: Model,
    save: Save | None = None,
    admission: AdmissionControl | None = None,
    tools: ToolRunner = _PLAIN,
) -> TaskOutput:
    """Drive as `drive` does, for async callers, `asyncio.run(adrive(run, model))`; cancelling the task cancels the run."""

    async def to_end() -> None:
        while True:
            step = run.next_step()
            if save is not None:
                await _saved(save, run)
            if isinstance(step, Done):
                return
            if not run.cancellation.cancelled:
                await _ado(run, model, step, admission, tools)

    try:
        await _stoppable(run, to_end)
    except asyncio.CancelledError:
        _cancel(run, "the task was cancelled", save)
        raise
    await ObserverThread.aflush_all(run.spec.observers)
    return run.output()


async def _stoppable(run: AgentRun, drive: Callable[[], Awaitable[None]]) -> None:
    """Drive a run; its token ends what is waited for right now, and the machine settles that."""
    loop, waiting = asyncio.get_running_loop(), asyncio.timeout(None)

    def stop() -> None:
        with suppress(RuntimeError):  # the run is over
            waiting.reschedule(loop.time())

    def from_any_thread() -> None:
        with suppress(RuntimeError):  # the loop is gone, and the run with it
            loop.call_soon_threadsafe(stop)

    try:
        async with waiting:
            with run.cancellation.calling(from_any_thread):
                await drive()
    except TimeoutError:
        if not waiting.expired():
            raise
        await drive()


async def _ado(
    run: AgentRun,
    model: Model,
    step: AskModel | CallTool | Wait,
    admission: AdmissionControl | None,
    tools: ToolRunner,
) -> None:
    match step:
        case AskModel():
            if admission is not None:
                await admission.turn()
            try:
                left = run.seconds_left()
                reply = await (model.aask(step) if left is None else _afenced(model, step, left))
            except AgentError as error:
                run.model_failed(error)
            else:
                run.model_replied(reply)
        case CallTool(calls):
            waiting = [tools.acall(run.tool(call), call, run.tool_context(call)) for call in calls]
            # a single call runs in this very task, which costs less than a task of its own
            results = [await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting)
            for result in results:
                run.tool_finished(result)
        case Wait(seconds):
            await run.spec.clock.asleep(seconds)


_MODELS = ThreadPool("ace-model")
"""Where requests run that a wall-time budget may end."""


def _out_of_time(left: float) -> BudgetExceeded:
    return BudgetExceeded(f"the model did not answer within the {left:.1f} s that were left of the run's time")


def _reply(run: AgentRun, model: Model, request: AskModel) -> ModelReply | None:
    """Return the reply; None where the run was cancelled meanwhile.

    A sync model cannot be stopped. Where the time or a token may end the run, it is asked in a thread that is left behind.
    """
    left = run.seconds_left()
    if left is None and run.spec.cancellation is None:
        return model.ask(request)
    box: queue.SimpleQueue[Future[ModelReply] | None] = queue.SimpleQueue()
    asked, context = Future[ModelReply](), contextvars.copy_context()

    def ask() -> None:
        try:
            asked.set_result(context.run(model.ask, request))
        except BaseException as error:  # handed to the thread that waits
            asked.set_exception(error)
        box.put(asked)

    ticket = _MODELS.submit(ask, extra=current_context() is not None)
    if ticket is None:
        raise ModelTransport(f"{_MODELS.size} requests to models hang, and no further one is begun")
    try:
        with run.cancellation.calling(lambda: box.put(None)):
            done = box.get(timeout=left)
    except BaseException as error:  # Ctrl-C among them
        ticket.abandon()
        if isinstance(error, queue.Empty):
            raise _out_of_time(left or 0.0) from None
        raise
    if done is None:
        ticket.abandon()
        return None
    return done.result()


async def _afenced(model: Model, request: AskModel, left: float) -> ModelReply:
    """Ask in a task that is cancelled when the time is over."""
    asking = asyncio.ensure_future(model.aask(request))
    try:
        done, _ = await asyncio.wait({asking}, timeout=left)
    except asyncio.CancelledError:
        asking.cancel()
        raise
    if not done:
        asking.cancel()
        raise _out_of_time(left)
    return asking.result()


def _cancel(run: AgentRun, reason: str, save: Save | None) -> None:
    run.cancellation.cancel(reason)
    run.cancel(reason)
    if save is not None:
        save(run)


class AdmissionControl:
    """Lets one run after another prepare its request when the event loop is idle: `AdmissionControl()` for many `adrive`.

    Preparing a request takes a millisecond of CPU, and so does reading its reply. Hundreds of runs that start at once would
    otherwise do so in one turn of the loop, and everything else on it would stand still. So work that was begun goes first:
    the next run is let in when the loop comes round in time, and after `patience` at the latest.
    """

    calm = 0.002
    """Seconds of delay up to which the loop counts as idle."""
    patience = 0.02
    """Seconds after which the next run is let in although it is not."""

    def __init__(self) -> None:
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]] = WeakKeyDictionary()

    async def turn(self) -> None:
        """Wait until it is this run's turn; returns at once when no other run waits."""
        loop = asyncio.get_running_loop()
        queue = self._queues.get(loop)
        if queue is None:
            queue = self._queues[loop] = deque()
            self._look_again(loop, queue, loop.time())
            return
        turn: asyncio.Future[None] = loop.create_future()
        queue.append(turn)
        await turn

    def _look_again(self, loop: asyncio.AbstractEventLoop, queue: deque[asyncio.Future[None]], since: float) -> None:
        due = loop.time() + 0.0005
        loop.call_at(due, self._next, loop, queue, due, since)

    def _next(
        self, loop: asyncio.AbstractEventLoop, queue: deque[asyncio.Future[None]], due: float, since: float
    ) -> None:
        now = loop.time()
        while queue and queue[0].done():
            queue.popleft()  # its run was cancelled
        if not queue:
            self._queues.pop(loop, None)
        elif now - due > self.calm and now - since < self.patience:
            self._look_again(loop, queue, since)
        else:
            queue.popleft().set_result(None)
            self._look_again(loop, queue, now)


async def _saved(save: Save, run: AgentRun) -> None:
    """Save in a thread, and wait for it even when cancelled: a later save must not be overtaken by an earlier one."""
    saving, cancelled = asyncio.ensure_future(asyncio.to_thread(save, run)), False
    while not saving.done():
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            cancelled = True
    saving.result()
    if cancelled:
        raise asyncio.CancelledError
