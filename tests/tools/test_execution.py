import asyncio
import threading
import time

import pytest

from ace import current_context
from ace.core import ToolError
from ace.tools import Tool, ToolCall, acall_tool, call_tool


async def _quick(made):
    return await acall_tool(made, ToolCall(id="c", name="slow"))


def sleepy(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "late"


async def asleep(seconds: float) -> str:
    """Sleep without blocking."""
    await asyncio.sleep(seconds)
    return "late"


def fail(kind: str) -> str:
    """Fail."""
    if kind == "tool":
        raise ToolError("refused", "card 17 in vault-3", "The card is blocked.")
    if kind == "exit":
        raise SystemExit(3)
    if kind == "timeout":
        raise TimeoutError("upstream")
    raise ValueError("no such order")


def both(func, **args):
    """The result from sync and async callers; apart from time they must agree."""
    tool = Tool.from_function(func, timeout=0.15)
    call = ToolCall(id="c1", name=tool.name, args=args)
    sync = call_tool(tool, call)
    others = asyncio.run(acall_tool(tool, call))
    alike = {"seconds": 0, "raised": None}
    assert sync.model_copy(update=alike) == others.model_copy(update=alike)
    return sync


@pytest.mark.parametrize("func", [sleepy, asleep])
def test_a_slow_tool_times_out(func):
    result = both(func, seconds=2.0)
    assert (result.outcome, result.error_kind) == ("failed", "timeout")
    assert "0.15 s" in result.text


@pytest.mark.parametrize("func", [sleepy, asleep])
def test_a_quick_tool_answers(func):
    assert both(func, seconds=0.0).content == "late"


def test_an_exception_becomes_an_observation_without_traceback():
    result = both(fail, kind="other")
    assert result.text == "ValueError: no such order"
    assert result.error_kind == "exception"


def test_a_tool_error_shows_the_model_its_own_text():
    result = both(fail, kind="tool")
    assert result.text == "The card is blocked."
    assert result.error_kind == "refused"


def test_a_timeout_error_of_the_tool_is_no_timeout_of_ours():
    result = both(fail, kind="timeout")
    assert result.error_kind == "network"
    assert "effect is unknown" not in result.text


def test_a_tool_that_exits_does_not_end_the_process():
    assert both(fail, kind="exit").text == "SystemExit: 3"


def test_a_hung_tool_does_not_block_the_event_loop():
    async def main():
        tool = Tool.from_function(sleepy, timeout=5)
        started = time.perf_counter()
        slow = asyncio.create_task(acall_tool(tool, ToolCall(id="c", name="sleepy", args={"seconds": 0.3})))
        await asyncio.sleep(0.01)
        assert time.perf_counter() - started < 0.2
        return (await slow).content

    assert asyncio.run(main()) == "late"


def test_tools_run_in_daemon_threads():
    seen = []

    def look() -> bool:
        """Look."""
        seen.append(threading.current_thread().daemon)
        return True

    both(look)
    assert seen == [True, True]


def test_a_late_result_is_dropped():
    async def main():
        result = await acall_tool(
            Tool.from_function(sleepy, timeout=0.05), ToolCall(id="c", name="sleepy", args={"seconds": 0.1})
        )
        await asyncio.sleep(0.15)  # the thread delivers now; nothing may raise
        return result.error_kind

    assert asyncio.run(main()) == "timeout"


def endless() -> object:
    """Yield for ever."""
    n = 0
    while True:
        yield n
        n += 1


def broken() -> object:
    """Yield once and fail."""
    yield 1
    raise ValueError("db down")


async def aendless() -> object:
    """Yield for ever, asynchronously."""
    while True:
        yield "x"


def test_iterators_are_read_inside_the_tools_own_limit():
    assert len(both(endless).content) == 1_000
    assert len(both(aendless).content) == 1_000
    assert both(broken).text == "ValueError: db down"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [False, True])
def test_not_even_an_interrupt_of_the_tools_ends_the_run(error, is_async):
    def sync_tool() -> None:
        """Raise."""
        raise error

    async def async_tool() -> None:
        """Raise."""
        raise error

    assert both(async_tool if is_async else sync_tool).outcome == "failed"


def test_cancelling_the_run_cancels_its_async_tool():
    done = []

    async def slow() -> None:
        """Work for a while."""
        await asyncio.sleep(0.1)
        done.append(1)

    async def main():
        task = asyncio.create_task(acall_tool(Tool.from_function(slow), ToolCall(id="c", name="slow")))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.15)

    asyncio.run(main())
    assert done == []


def test_a_tool_error_of_an_unknown_kind_is_an_observation():
    def odd() -> None:
        """Fail oddly."""
        raise ToolError("not_found", 404)  # type: ignore

    assert both(odd).text == "404"


def test_ctrl_c_tells_the_tools_that_are_out(monkeypatch):
    import queue

    signalled = []

    def wait() -> str:
        """Wait."""
        signalled.append(current_context().cancellation.wait(10))
        return "x"

    class Interrupted(queue.SimpleQueue):
        def get(self, timeout=None):
            time.sleep(0.1)
            raise KeyboardInterrupt

    monkeypatch.setattr("ace.tools.execution.queue.SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        call_tool(Tool.from_function(wait), ToolCall(id="c", name="wait"))
    until = time.monotonic() + 5
    while not signalled and time.monotonic() < until:
        time.sleep(0.01)
    assert signalled == [True]


def test_rendering_a_result_is_the_tools_own_time():
    class Slow:
        def __str__(self):
            time.sleep(0.8)
            return "late"

    async def slow() -> object:
        """Give something that is slow to show."""
        return Slow()

    import asyncio

    made = Tool.from_function(slow, timeout=0.2)
    started = time.monotonic()
    assert asyncio.run(_quick(made)).error_kind == "timeout"
    assert call_tool(made, ToolCall(id="c", name="slow")).error_kind == "timeout"
    assert time.monotonic() - started < 5
    time.sleep(1.0)  # let the abandoned threads end before the interpreter does
