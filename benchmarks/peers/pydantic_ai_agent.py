"""Pydantic AI's Agent on a model that answers at once: CPU per model request, over JSON lines.

Stand-alone: it needs only ``requirements-pydantic-ai.txt`` and ``asked.py``. The protocol is in ``README.md``.
"""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from typing import Any

os.environ["LOGFIRE_SEND_TO_LOGFIRE"] = "false"

from asked import Driver
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

PACKAGES = ("pydantic-ai-slim", "pydantic-graph", "pydantic")


def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


class Script:
    """Looks up `steps` keys, one a request, and then answers "done"."""

    def __init__(self) -> None:
        self.steps = 0
        self.calls = 0

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Return the next reply.

        A coroutine, as real models are, so it costs no thread; it reports its usage, as real models do, since
        `FunctionModel` would otherwise count the words of the whole conversation at each request.
        """
        self.calls += 1
        found = results(messages)
        if found < self.steps:
            part = ToolCallPart("lookup", {"key": f"k{found}"}, tool_call_id=f"call_{found}")
        else:
            part = TextPart("done")
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=1, output_tokens=1))


def results(messages: list[ModelMessage]) -> int:
    """Count how many tool results the conversation holds."""
    requests = (message for message in messages if isinstance(message, ModelRequest))
    return sum(isinstance(part, ToolReturnPart) for request in requests for part in request.parts)


def build(script: Script) -> Agent[None, str]:
    """Build the agent, with instrumentation off."""
    Agent.instrument_all(False)
    return Agent(FunctionModel(script.answer, model_name="scripted"), tools=[lookup])


def measure(agent: Agent[None, str], script: Script, steps: int) -> dict[str, Any]:
    """Run once with `steps` tool calls; only the run is timed."""
    script.steps, script.calls = steps, 0
    limits = UsageLimits(request_limit=None)
    started = time.process_time()
    result = agent.run_sync("x", usage_limits=limits)
    spent = time.process_time() - started
    ok = result.output == "done" and script.calls == steps + 1
    return {"cpu_ms_per_call": 1_000 * spent / script.calls, "calls": script.calls, "ok": ok}


if __name__ == "__main__":
    script = Script()
    agent = build(script)
    Driver().serve({name: version(name) for name in PACKAGES}, lambda request: measure(agent, script, request["steps"]))
