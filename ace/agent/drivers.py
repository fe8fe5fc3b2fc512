"""The drivers: they do what the machine says, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ace.agent.machine import AgentRun
from ace.agent.states import AskModel, CallTool, Done, ModelReply, Wait
from ace.core import AgentError
from ace.tasks import TaskOutput
from ace.tools import ToolCall, acall_tool, call_tools

Save = Callable[[AgentRun], None]
"""Called before each step is done, with the run as it is then."""


class Model(Protocol):
    """Asks a language model; raises only `AgentError`."""

    def ask(self, request: AskModel) -> ModelReply:
        """One request, one reply."""
        ...

    async def aask(self, request: AskModel) -> ModelReply:
        """`ask` for async callers."""
        ...


def drive(run: AgentRun, model: Model, save: Save | None = None) -> TaskOutput:
    """Run to the end, waiting for each step. Ctrl-C leaves the run cancelled and saved, ready to be resumed."""
    try:
        while True:
            step = run.next_step()
            if save is not None:
                save(run)
            match step:
                case AskModel() as request:
                    try:
                        run.model_replied(model.ask(request))
                    except AgentError as error:
                        run.model_failed(error)
                case CallTool(calls):
                    for result in call_tools([(run.tool(c), c, run.tool_context(c)) for c in calls]):
                        run.tool_finished(result)
                case Wait(seconds):
                    run.spec.clock.sleep(seconds, run.spec.cancellation)
                case Done():
                    break
    except (KeyboardInterrupt, SystemExit):
        run.spec.cancellation.cancel("the process was asked to stop")
        run.cancel("the process was asked to stop")
        if save is not None:
            save(run)
        raise
    for relay in run.spec.relays:
        relay.flush()
    return run.output()


async def adrive(run: AgentRun, model: Model, save: Save | None = None) -> TaskOutput:
    """`drive` for async callers: nothing blocks the event loop. Cancelling the task cancels the run."""
    wake = asyncio.Event()
    loop = asyncio.get_running_loop()
    token = run.spec.cancellation
    try:
        with token.calling(lambda: _wake(loop, wake)):
            while True:
                step = run.next_step()
                if save is not None:
                    await _saved(save, run)
                match step:
                    case AskModel() as request:
                        await _until_cancelled(_ask(run, model, request), wake)
                    case CallTool(calls):
                        await _until_cancelled(_call(run, calls), wake)
                    case Wait(seconds):
                        await _until_cancelled(run.spec.clock.asleep(seconds), wake)
                    case Done():
                        break
    except asyncio.CancelledError:
        token.cancel("the task was cancelled")
        run.cancel("the task was cancelled")
        if save is not None:
            save(run)
        raise
    for relay in run.spec.relays:
        await relay.aflush()
    return run.output()


def _wake(loop: asyncio.AbstractEventLoop, wake: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(wake.set)
    except RuntimeError:
        return  # the loop is gone, and the run with it


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


async def _ask(run: AgentRun, model: Model, request: AskModel) -> None:
    try:
        reply = await model.aask(request)
    except AgentError as error:
        run.model_failed(error)
    else:
        run.model_replied(reply)


async def _call(run: AgentRun, calls: tuple[ToolCall, ...]) -> None:
    if len(calls) == 1:
        run.tool_finished(await acall_tool(run.tool(calls[0]), calls[0], run.tool_context(calls[0])))
        return
    waiting = [acall_tool(run.tool(call), call, run.tool_context(call)) for call in calls]
    for result in await asyncio.gather(*waiting):
        run.tool_finished(result)


async def _until_cancelled(work: Coroutine[Any, Any, None], wake: asyncio.Event) -> None:
    """Do one step; when the run's token is set meanwhile, drop it: the machine settles what was out."""
    doing, waking = asyncio.ensure_future(work), asyncio.ensure_future(wake.wait())
    try:
        await asyncio.wait({doing, waking}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waking.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})
    if not doing.cancelled():
        doing.result()
