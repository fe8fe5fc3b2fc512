"""The two drivers: they do what the machine says, and nothing else."""

from __future__ import annotations

from typing import Protocol

from ace.agent.machine import AgentRun
from ace.agent.states import AskModel, CallTool, Done, ModelReply
from ace.core import AgentError
from ace.tasks import TaskOutput
from ace.tools import acall_tool, call_tool


class Model(Protocol):
    """Asks a language model; raises only `AgentError`."""

    def ask(self, request: AskModel) -> ModelReply:
        """One request, one reply."""
        ...

    async def aask(self, request: AskModel) -> ModelReply:
        """`ask` for async callers."""
        ...


def drive(run: AgentRun, model: Model) -> TaskOutput:
    """Run to the end, waiting for each step."""
    while True:
        match run.next_step():
            case AskModel() as request:
                try:
                    run.model_replied(model.ask(request))
                except AgentError as error:
                    run.model_failed(error)
            case CallTool(call):
                run.tool_finished(call_tool(run.tool(call), call))
            case Done():
                return run.output()


async def adrive(run: AgentRun, model: Model) -> TaskOutput:
    """`drive` for async callers: nothing blocks the event loop."""
    while True:
        match run.next_step():
            case AskModel() as request:
                try:
                    run.model_replied(await model.aask(request))
                except AgentError as error:
                    run.model_failed(error)
            case CallTool(call):
                run.tool_finished(await acall_tool(run.tool(call), call))
            case Done():
                return run.output()
