"""LangGraph's prebuilt ReAct agent on a task whose tools and model live in the process that asked.

Stand-alone: it needs only ``requirements-langgraph.txt`` and ``asked.py``. The protocol is in ``README.md``.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"

from asked import Driver
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.errors import GraphRecursionError
from langgraph.prebuilt import create_react_agent

PACKAGES = ("langgraph", "langgraph-prebuilt", "langchain-core")
driver = Driver()


class Asked(BaseChatModel):
    """Sends the calls and results of the conversation to the process that asked, and takes its next decision."""

    @property
    def _llm_type(self) -> str:
        return "asked"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Asked:
        """Return itself: the model knows its tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        results = {m.tool_call_id: str(m.content) for m in messages if isinstance(m, ToolMessage)}
        calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
        steps = [
            {"tool_name": c["name"], "tool_args": json.dumps(c["args"]), "observation": results.get(str(c["id"]), "")}
            for c in calls
        ]
        decision = driver.ask({"model": steps})
        if "answer" in decision:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(content=decision["answer"]))])
        call = {"name": decision["tool"], "args": decision["args"], "id": f"call_{len(calls)}"}
        reply = AIMessage(content=decision["thought"], tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def solve(request: dict[str, Any]) -> dict[str, Any]:
    """Solve one task."""
    tools = [StructuredTool.from_function(driver.function(tool)) for tool in request["tools"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        agent = create_react_agent(Asked(), tools, prompt=request["instructions"])
    try:
        state = agent.invoke(
            {"messages": [HumanMessage(request["task"])]}, {"recursion_limit": 2 * request["max_iters"] + 1}
        )
    except GraphRecursionError:
        return {"completed": False}
    last = state["messages"][-1]
    # LangGraph ends politely, with a message of its own, when it runs out of steps
    completed = isinstance(last, AIMessage) and not last.tool_calls and "need more steps" not in str(last.content)
    return {"completed": completed, "answer": str(last.content)}


if __name__ == "__main__":
    driver.serve({name: version(name) for name in PACKAGES}, solve)
