"""One tool: its schema, its registry, its execution, and the ones built in."""

from ace.tools.builtin import CorpusSearch, builtin_tools, calculator, string_helper
from ace.tools.execution import ToolCall, ToolResult, acall_tool, call_tool, call_tools, check_call
from ace.tools.foreign import from_dspy, from_json_schema, from_langchain
from ace.tools.mcp import McpServer, from_mcp
from ace.tools.registry import ToolRegistry
from ace.tools.tool import Tool, TypedTool, tool

__all__ = [
    "CorpusSearch",
    "McpServer",
    "Tool",
    "ToolCall",
    "ToolRegistry",
    "ToolResult",
    "TypedTool",
    "acall_tool",
    "builtin_tools",
    "calculator",
    "call_tool",
    "call_tools",
    "check_call",
    "from_dspy",
    "from_json_schema",
    "from_langchain",
    "from_mcp",
    "string_helper",
    "tool",
]
