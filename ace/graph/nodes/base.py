"""What all nodes share: each is a LangGraph node, for sync and async graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt

from ace.core import Pause
from ace.core.durable import digest
from ace.graph.session import Session, session_of

Pause.register(GraphInterrupt)
_SCRATCHPAD = "__pregel_scratchpad"
"""Where LangGraph keeps the answers of a visit."""


_WORDS: dict[str, Any] = {"enum": ["approve", "deny"]}
_DECISION: dict[str, Any] = {
    "type": "object",
    "properties": {"decision": _WORDS, "args": {"type": "object"}, "reason": {"type": "string"}},
    "required": ["decision"],
}
DECISION_SCHEMA: dict[str, Any] = {
    "anyOf": [_WORDS, _DECISION, {"type": "object", "additionalProperties": {"anyOf": [_WORDS, _DECISION]}}]
}
"""JSON Schema of an answer about calls: one decision about all of them, or one for each by its id."""


class Node(Runnable[Any, dict[str, Any]]):
    """A node; async graphs run it in a thread unless it has its own `ainvoke`."""

    @abstractmethod
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """The state's update."""


def writer() -> Callable[[Any], None]:
    """LangGraph's writer for ``stream_mode="custom"``; outside of a graph, nobody listens."""
    with suppress(RuntimeError, KeyError):
        return get_stream_writer()
    return lambda _: None


class Visit:
    """One visit to a node; its ids are the same after a resume."""

    def __init__(self, config: RunnableConfig | None) -> None:
        given = config or {}
        inner = given.get("configurable", {})
        self.session: Session | None = session_of(given)
        self.in_graph = _SCRATCHPAD in inner
        path = [part.split(":") for part in str(inner.get("checkpoint_ns", "")).split("|")]
        self.node = "/".join(part[0] for part in path if len(part) > 1 or not part[0].isdigit())
        self.task_id = path[-1][-1] if len(path[-1]) > 1 else ""
        self.answers = _answers(inner)
        """How many answers LangGraph has for it."""
        self.thread_id = str(inner.get("thread_id") or "")

    def run_id(self, attempt: int = 0) -> str:
        """A name for the agent's run that a later process finds again; empty when nothing is saved."""
        if not self.thread_id or not self.task_id:
            return ""
        return f"graph-{digest([self.thread_id, self.task_id])}" + (f"-{attempt}" if attempt else "")


def _answers(configurable: Mapping[str, Any]) -> int:
    """The answers of earlier visits, which LangGraph gives again, and the new one."""
    known: Any = configurable.get(_SCRATCHPAD)
    return 0 if known is None else len(known.resume) + (known.get_null_resume(False) is not None)
