# What `import ace.graph` offers; loaded on first use.
from .codec import JsonCodec as JsonCodec
from .compiling import compile as compile
from .errors import (
    CheckpointError as CheckpointError,
    CycleDetected as CycleDetected,
    GraphError as GraphError,
    InvalidEdge as InvalidEdge,
    InvalidUpdate as InvalidUpdate,
    MaxStepsExceeded as MaxStepsExceeded,
    MissingNode as MissingNode,
    NodeFailed as NodeFailed,
    WorkflowInterrupted as WorkflowInterrupted,
)
from .events import GraphEvent as GraphEvent, GraphObserver as GraphObserver
from .jsonl import JsonlCheckpointer as JsonlCheckpointer
from .learning import LearningState as LearningState, learning_workflow as learning_workflow
from .nodes import (
    ConversationBufferNode as ConversationBufferNode,
    ConversationSummaryNode as ConversationSummaryNode,
    LearnNode as LearnNode,
    ReActAgentNode as ReActAgentNode,
    RetrieveNode as RetrieveNode,
    ToolNode as ToolNode,
)
from .proposal import ProposedChange as ProposedChange, Review as Review, why_risky as why_risky
from .reducers import append as append, counter as counter, merge_map as merge_map, override as override
from .state import Document as Document, Message as Message, WorkflowState as WorkflowState
from .workflow import Workflow as Workflow
