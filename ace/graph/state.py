"""The state that the nodes use by default; any other works as well: a `TypedDict`, a dataclass or a pydantic model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict, cast

from pydantic import BaseModel, Field

from ace.graph.reducers import append, counter
from ace.tasks import Feedback, ReasoningStep, TaskOutput
from ace.tools import ToolCall, ToolResult


class Message(BaseModel, frozen=True, extra="forbid"):
    """One turn of a conversation: `Message(role="user", content="Hello")`."""

    role: Literal["user", "assistant"]
    content: str


class Document(BaseModel, frozen=True, extra="forbid"):
    """One thing that was looked up: `Document(content="Orders are sent on Mondays.")`."""

    id: str = ""
    content: str
    metadata: dict[str, Any] = Field(default_factory=dict)


class AgentFields(TypedDict, total=False):
    """What a `ReActAgentNode` reads and writes, and the verdict on it."""

    user_input: str
    final_output: Any
    """The agent's answer."""
    scratchpad: Annotated[list[ReasoningStep], append]
    """Every tool call of every agent in the graph, in order."""
    iterations: Annotated[int, counter]
    """Model decisions so far."""
    run: TaskOutput
    """The last run of an agent, whole."""
    feedback: Feedback | None
    """Whether that run did what it should."""


class WorkflowState(AgentFields, total=False):
    """What the nodes read and write, under their default names: `WorkflowState(user_input="x")`."""

    tool_calls: list[ToolCall]
    tool_results: Annotated[list[ToolResult], append]
    retrieved: list[Document]
    context: str
    """What was retrieved, as text for a prompt."""
    messages: Annotated[list[Message], append]
    conversation: str
    """Earlier turns, as text for a prompt."""
    conversation_summary: str
    summarised: int
    """How many messages the summary covers."""
    playbook_revision: int


def read(state: Any, name: str, default: Any = None) -> Any:
    """Read a field of a state, whatever the state is.

    Examples:
        >>> read({"a": 1}, "a"), read({"a": None}, "b", 2)
        (1, 2)
    """
    if isinstance(state, Mapping):
        found = cast("Mapping[str, Any]", state).get(name)
    else:
        found = getattr(state, name, None)
    return default if found is None else found


def needed(state: Any, name: str, node: str) -> Any:
    """Read a field that must be set.

    Raises:
        ValueError: The field is not set; the message names it and the node.
    """
    found = read(state, name)
    if found is None:
        raise ValueError(f"{node} needs the state's field {name!r}, which is not set; give it with the input")
    return found
