"""Streams of runs."""

import asyncio

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
from ace.testing import ScriptedLM, decision

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
