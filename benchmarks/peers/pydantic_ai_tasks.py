"""Pydantic AI's Agent on a task whose tools and model live in the process that asked.

Stand-alone: it needs only ``requirements-pydantic-ai.txt`` and ``asked.py``. The protocol is in ``README.md``.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from typing import Any

os.environ["LOGFIRE_SEND_TO_LOGFIRE"] = "false"

from asked import Driver
from pydantic_ai import Agent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

PACKAGES = ("pydantic-ai-slim", "pydantic-graph", "pydantic")
driver = Driver()


async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Send the calls and results of the conversation to the process that asked, and take its next decision."""
    results: dict[str, str] = {}
    calls: list[ToolCallPart] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            calls += [part for part in message.parts if isinstance(part, ToolCallPart)]
        elif isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    results[part.tool_call_id] = part.model_response_str()
                elif isinstance(part, RetryPromptPart):
                    results[part.tool_call_id] = part.model_response()
    steps = [
        {
            "tool_name": call.tool_name,
            "tool_args": json.dumps(call.args_as_dict()),
            "observation": results.get(call.tool_call_id, ""),
        }
        for call in calls
    ]
    reply = driver.ask({"model": steps})
    if "answer" in reply:
        parts: list[Any] = [TextPart(reply["answer"])]
    else:
        parts = [ToolCallPart(reply["tool"], reply["args"], tool_call_id=f"call_{len(calls)}")]
    return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=1, output_tokens=1))


def solve(request: dict[str, Any]) -> dict[str, Any]:
    """Solve one task."""
    Agent.instrument_all(False)
    tools = [driver.function(tool) for tool in request["tools"]]
    agent = Agent(FunctionModel(answer, model_name="asked"), tools=tools, instructions=request["instructions"])
    try:
        result = agent.run_sync(request["task"], usage_limits=UsageLimits(request_limit=request["max_iters"] + 1))
    except UsageLimitExceeded:
        return {"completed": False}
    return {"completed": True, "answer": result.output}


if __name__ == "__main__":
    driver.serve({name: version(name) for name in PACKAGES}, solve)
