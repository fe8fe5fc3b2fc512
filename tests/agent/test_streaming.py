"""Streams of runs."""

import asyncio
import gc
import threading
import time

import pytest
from agent.kit import Script, call, spec

from ace import ReActGenerator
from ace.agent import (
    AgentRun,
    adrive,
)
from ace.agent.streaming import AsyncRunStream
from ace.core import (
    CancellationToken,
    ResumeError,
)
from ace.testing import FunctionLM, ScriptedLM, decision
from ace.tools import tool


def refunds(left=None):
    """An agent that refunds two orders, and what it has refunded; it thinks about the second until `left` is set."""
    done = []

    @tool
    def refund(order: str) -> str:
        """Refund an order."""
        done.append(order)
        return "refunded"

    def answer(prompt):
        if done and left is not None:
            left.wait(5)
        return decision("refund", order=f"o-{len(done) + 1}") if len(done) < 2 else SAYS_42

    return ReActGenerator(tools=[refund], lm=FunctionLM("test/refunds", answer)), done


def stopped_threads():
    end = time.monotonic() + 5
    while (left := [t.name for t in threading.enumerate() if t.name == "ace-stream"]) and time.monotonic() < end:
        time.sleep(0.01)
    return left == []


SAYS_42 = decision("finish", answer="42")


def test_a_stream_is_over_only_at_its_end():
    async def main():
        async def start(listener):
            run = AgentRun(spec(listeners=(listener,)))
            return await adrive(run, Script(call("finish", answer="x")))

        stream = AsyncRunStream(start, CancellationToken())
        with pytest.raises(ResumeError):
            assert stream.output
        await stream.aclose()
        kinds = [event.kind async for event in stream]
        await stream.aclose()
        return kinds, stream.output.answer

    assert asyncio.run(main())[1] == "x"


def test_a_stream_can_be_read_once_and_does_not_hang_afterwards():
    import asyncio

    with ReActGenerator(tools=[], lm=ScriptedLM([SAYS_42])).stream("x") as stream:
        assert list(stream)
        assert list(stream) == []

    async def main():
        async with ReActGenerator(tools=[], lm=ScriptedLM([SAYS_42])).astream("x") as stream:
            return [len([e async for e in stream]), len([e async for e in stream])]

    assert asyncio.run(main())[1] == 0


def test_leaving_the_loop_over_a_sync_stream_cancels_the_run_and_ends_its_thread():
    left = threading.Event()
    agent, done = refunds(left)
    stream = agent.stream("Refund both")
    for event in stream:
        if event.kind == "model_request_completed":
            break
    left.set()
    assert stopped_threads()
    assert "o-2" not in done
    assert stream.output.termination_reason == "interrupted"
    assert agent.resume(stream.output.run_id).answer == "42"
    assert done == ["o-1", "o-2"]


def test_an_error_in_the_body_of_the_loop_cancels_the_run():
    left = threading.Event()
    agent, done = refunds(left)

    def read():
        for event in agent.stream("Refund both"):
            if event.kind == "model_request_completed":
                raise KeyError("mine")

    with pytest.raises(KeyError):
        read()
    gc.collect()
    left.set()
    assert stopped_threads()
    assert "o-2" not in done


def test_leaving_the_loop_over_an_async_stream_cancels_the_run_at_once():
    agent, done = refunds()

    async def main():
        stream = agent.astream("Refund both")
        async for event in stream:
            if event.kind == "model_request_completed":
                break
        assert stream.token.cancelled
        await asyncio.sleep(0.3)
        assert "o-2" not in done
        assert [event.kind async for event in stream][-1] == "run_cancelled"
        return stream.output

    assert asyncio.run(main()).termination_reason == "interrupted"


def test_an_event_loop_that_ends_right_after_the_loop_over_a_stream_complains_of_nothing(caplog):
    agent, done = refunds()

    async def main():
        async for event in agent.astream("Refund both"):
            if event.kind == "model_request_completed":
                return

    asyncio.run(main(), debug=True)
    gc.collect()
    assert "o-2" not in done
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_leaving_the_loop_over_a_chats_stream_leaves_a_message_that_waits():
    left = threading.Event()
    agent, done = refunds(left)
    chat = agent.chat()
    for event in chat.stream("Refund both"):
        if event.kind == "tool_call_completed":
            break
    left.set()
    assert stopped_threads()
    assert (done, chat.waiting) == (["o-1"], f"{chat.id}-0")
    assert chat.resume().answer == "42"
    assert done == ["o-1", "o-2"]


def test_a_stream_that_was_read_to_its_end_leaves_its_token_alone():
    agent, _ = refunds()
    token = CancellationToken()
    assert list(agent.stream("Refund both", cancellation=token))[-1].kind == "run_completed"
    gc.collect()
    assert not token.cancelled
