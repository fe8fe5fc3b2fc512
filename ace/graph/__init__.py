"""Workflows on LangGraph: what it runs, with the guards, events, savers and nodes that it lacks. Needs the extra `graph`."""

from __future__ import annotations

try:
    import langgraph.graph as _  # noqa: F401
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise ModuleNotFoundError("ace.graph needs LangGraph: pip install 'dspy-ace[graph]'", name=error.name) from None

from ace.graph.codec import JsonCodec
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
    GraphEvent,
    GraphObserver,
    check_graph_events,
)
from ace.graph.jsonl import JsonlCheckpointer
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
    "CheckpointError",
    "ConversationBufferNode",
    "ConversationSummaryNode",
    "CycleDetected",
    "Document",
    "GraphError",
    "GraphEvent",
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
