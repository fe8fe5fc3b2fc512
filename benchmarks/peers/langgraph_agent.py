"""LangGraph's prebuilt ReAct agent on a model that answers at once: CPU per model request, over JSON lines.

Stand-alone: it needs only ``requirements-langgraph.txt`` and ``asked.py``. The protocol is in ``README.md``.
"""

from __future__ import annotations

import os
import time
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
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import create_react_agent

PACKAGES = ("langgraph", "langgraph-prebuilt", "langchain-core")


@tool
def lookup(key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


class ScriptedModel(BaseChatModel):
    """Looks up `steps` keys, one a request, and then answers "done"."""

    steps: int = 0
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedModel:
        """Return itself: the script knows its tool already."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.calls += 1
        found = sum(isinstance(message, ToolMessage) for message in messages)
        if found < self.steps:
            call = {"name": "lookup", "args": {"key": f"k{found}"}, "id": f"call_{found}"}
            reply = AIMessage(content="", tool_calls=[call])
        else:
            reply = AIMessage(content="done")
        return ChatResult(generations=[ChatGeneration(message=reply)])


def build(model: ScriptedModel) -> CompiledStateGraph:
    """Build the agent; LangGraph 1 deprecates this name in favour of LangChain's `create_agent`, but ships it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return create_react_agent(model, [lookup])


def measure(agent: CompiledStateGraph, model: ScriptedModel, steps: int) -> dict[str, Any]:
    """Run once with `steps` tool calls; only the run is timed."""
    model.steps, model.calls = steps, 0
    question = {"messages": [HumanMessage("x")]}
    config = {"recursion_limit": 2 * steps + 10}
    started = time.process_time()
    state = agent.invoke(question, config)
    spent = time.process_time() - started
    ok = state["messages"][-1].content == "done" and model.calls == steps + 1
    return {"cpu_ms_per_call": 1_000 * spent / model.calls, "calls": model.calls, "ok": ok}


if __name__ == "__main__":
    model = ScriptedModel()
    agent = build(model)
    Driver().serve({name: version(name) for name in PACKAGES}, lambda request: measure(agent, model, request["steps"]))
