"""Workflows on LangGraph: what it runs, with the guards, events, savers and nodes that it lacks. Needs the extra `graph`."""

from __future__ import annotations

try:
    import langgraph.graph as _  # noqa: F401
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise ModuleNotFoundError("ace.graph needs LangGraph: pip install 'dspy-ace[graph]'", name=error.name) from None

from ace.graph.codec import JsonCodec, StoredError
from ace.graph.compiling import compile
from ace.graph.errors import (
    CheckpointError,
    CycleDetected,
    GraphError,
    Interrupted,
    InvalidEdge,
    InvalidUpdate,
    MaxStepsExceeded,
    MissingNode,
    NodeFailed,
)
from ace.graph.events import (
    GRAPH_TERMINAL_KINDS,
    GraphEvent,
    GraphEventKind,
    GraphGrammar,
    GraphObserver,
    check_graph_events,
)
from ace.graph.jsonl import CheckpointInfo, JsonlCheckpointer
from ace.graph.reducers import append, counter, merge_map, override
from ace.graph.workflow import Workflow

__all__ = [
    "GRAPH_TERMINAL_KINDS",
    "CheckpointError",
    "CheckpointInfo",
    "CycleDetected",
    "GraphError",
    "GraphEvent",
    "GraphEventKind",
    "GraphGrammar",
    "GraphObserver",
    "Interrupted",
    "InvalidEdge",
    "InvalidUpdate",
    "JsonCodec",
    "JsonlCheckpointer",
    "MaxStepsExceeded",
    "MissingNode",
    "NodeFailed",
    "StoredError",
    "Workflow",
    "append",
    "check_graph_events",
    "compile",
    "counter",
    "merge_map",
    "override",
]
