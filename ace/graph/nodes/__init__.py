"""Nodes: an agent, tools, a conversation, retrieval and learning, each one state update."""

from ace.graph.nodes.agent import ReActAgentNode
from ace.graph.nodes.conversation import ConversationBufferNode, ConversationSummaryNode
from ace.graph.nodes.learn import LearnNode
from ace.graph.nodes.retrieve import RetrieveNode
from ace.graph.nodes.tools import ToolNode

__all__ = [
    "ConversationBufferNode",
    "ConversationSummaryNode",
    "LearnNode",
    "ReActAgentNode",
    "RetrieveNode",
    "ToolNode",
]
