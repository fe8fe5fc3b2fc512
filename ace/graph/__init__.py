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
    InvalidEdge,
    InvalidUpdate,
    MaxStepsExceeded,
    MissingNode,
    NodeFailed,
    WorkflowInterrupted,
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
from ace.graph.learning import LearningState, learning_workflow
from ace.graph.nodes import (
    ConversationBufferNode,
    ConversationSummaryNode,
    LearnNode,
    ReActAgentNode,
    RetrieveNode,
    ToolNode,
)
from ace.graph.proposal import ProposedChange, Review, why_risky
from ace.graph.reducers import append, counter, merge_map, override
from ace.graph.state import Document, Message, WorkflowState
from ace.graph.workflow import Workflow

__all__ = [
    "GRAPH_TERMINAL_KINDS",
    "CheckpointError",
    "CheckpointInfo",
    "ConversationBufferNode",
    "ConversationSummaryNode",
    "CycleDetected",
    "Document",
    "GraphError",
    "GraphEvent",
    "GraphEventKind",
    "GraphGrammar",
    "GraphObserver",
    "InvalidEdge",
    "InvalidUpdate",
    "JsonCodec",
    "JsonlCheckpointer",
    "LearnNode",
    "LearningState",
    "MaxStepsExceeded",
    "Message",
    "MissingNode",
    "NodeFailed",
    "ProposedChange",
    "ReActAgentNode",
    "RetrieveNode",
    "Review",
    "StoredError",
    "ToolNode",
    "Workflow",
    "WorkflowInterrupted",
    "WorkflowState",
    "append",
    "check_graph_events",
    "compile",
    "counter",
    "learning_workflow",
    "merge_map",
    "override",
    "why_risky",
]
