"""Streams of runs."""

import asyncio

import pytest
from agent.kit import Script, call, spec

from ace.agent import (
    AgentRun,
    adrive,
)
from ace.agent.streaming import AsyncRunStream
from ace.core import (
    CancellationToken,
    ResumeError,
)


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
