"""The events that a graph sends to its observers.

`seq` counts from 0 without gaps. The first event is ``graph_started``, or ``graph_continued`` for a thread that is resumed;
the last one is the only terminal event. A node's ``node_started`` is followed by one ``node_completed``, ``node_error`` or
``node_paused`` of the same `task_id`; after an error it may start again (a retry). An ``agent_event`` is sent only while its
node runs, and the agent's events obey ``contracts/events.md`` run by run. `ace.testing.check_graph_events` checks all this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, Field

from ace.core import Event

GraphEventKind = Literal[
    "graph_started",
    "graph_continued",
    "node_started",
    "node_completed",
    "node_error",
    "node_paused",
    "tool_call_started",
    "tool_call_completed",
    "tool_call_error",
    "agent_event",
    "checkpoint_saved",
    "graph_completed",
    "graph_error",
    "graph_paused",
]
GRAPH_TERMINAL_KINDS: frozenset[GraphEventKind] = frozenset({"graph_completed", "graph_error", "graph_paused"})
"""The last event of a run of the graph, or of the part of it up to a pause."""


class GraphEvent(BaseModel, frozen=True, extra="forbid"):
    """One thing that happened while a graph ran: `GraphEvent(kind="node_started", seq=2, run_id="r", node="plan")`."""

    kind: GraphEventKind
    seq: int
    run_id: str
    """Of this call of the graph."""
    thread_id: str = ""
    node: str = ""
    """The node; ``outer/inner`` for a node of a graph inside a node."""
    task_id: str = ""
    """Of this visit to the node; the same after a resume."""
    step: int = 0
    """The graph's step on its thread, from 1."""
    timestamp: float = 0.0
    """Seconds since 1970."""
    data: dict[str, Any] = Field(default_factory=dict)
    """JSON values only: an error's class and text, a checkpoint's id, the nodes that come next. Never the state."""
    agent: Event | None = None
    """For ``agent_event``: the event of the node's agent."""


class GraphObserver:
    """Base class: override what you want to see; each has its own thread.

    For all calls with `compile(graph, observers=[GraphObserver()])`, for one with `workflow.invoke(..., observers=[...])`.
    A plain function of a `GraphEvent` is an observer, too.
    """

    def on_node_enter(self, event: GraphEvent) -> None:
        """Handle a node that begins."""

    def on_node_exit(self, event: GraphEvent) -> None:
        """Handle a node that is done, or paused (``event.kind == "node_paused"``)."""

    def on_node_error(self, event: GraphEvent) -> None:
        """Handle a node that raised."""

    def on_checkpoint_saved(self, event: GraphEvent) -> None:
        """Handle a state that was saved."""

    def on_graph_error(self, event: GraphEvent) -> None:
        """Handle a graph that ended with an error: a node's, too many steps, a state that cannot be saved."""

    def on_event(self, event: GraphEvent) -> None:
        """Handle any event, those above included."""

    def __call__(self, event: GraphEvent) -> None:
        """Deliver an event to the methods that are for it."""
        self.on_event(event)
        if event.kind in _METHODS:
            getattr(self, _METHODS[event.kind])(event)


_METHODS: dict[GraphEventKind, str] = {
    "node_started": "on_node_enter",
    "node_completed": "on_node_exit",
    "node_paused": "on_node_exit",
    "node_error": "on_node_error",
    "checkpoint_saved": "on_checkpoint_saved",
    "graph_error": "on_graph_error",
}

AnyObserver = GraphObserver | Callable[[GraphEvent], None]
