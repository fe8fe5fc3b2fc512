"""What can end a graph, one class per category; `WorkflowInterrupted` only pauses it until it is resumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langgraph.types import Interrupt

from ace.core import AceError


class GraphError(AceError):
    """Base class of what a graph raises on purpose: `compile(looping, max_steps=1).invoke({})` raises one."""


class NodeFailed(GraphError):
    """A node raised; what it wrote in this step is lost, everything before is saved.

    Args:
        node: The node's name.
        source: What it raised.

    Examples:
        >>> str(NodeFailed("refund", ValueError("no such order")))
        "node 'refund' failed: ValueError: no such order"
    """

    def __init__(self, node: str, source: BaseException) -> None:
        super().__init__(f"node {node!r} failed: {type(source).__name__}: {source}")
        self.node = node
        self.source = source


class MissingNode(GraphError, ValueError):
    """The graph names a node that it does not have: `MissingNode("act", "an edge", ["plan"])`; found when it is compiled."""

    def __init__(self, node: str, where: str, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(f"{where} names the node {node!r}, which is not there; expected one of {names}")
        self.node = node
        self.known = tuple(names)


class InvalidEdge(GraphError):
    """A router or a `Command` chose a node that is not in its map: `InvalidEdge("plan", "nowhere", ["act"])`."""

    def __init__(self, source: str, target: Any, known: Iterable[Any]) -> None:
        names = sorted(str(name) for name in known)
        super().__init__(f"the edge from {source!r} leads to {target!r}, expected one of {names}")
        self.source = source
        self.target = target
        self.known = tuple(names)


class MaxStepsExceeded(GraphError):
    """The graph would need more steps than it may take, `MaxStepsExceeded(5, 5)`; its state is saved as it was last."""

    def __init__(self, max: int, reached: int) -> None:
        super().__init__(
            f"the graph has taken {reached} of at most {max} steps and is not done; raise max_steps, or give it a way out"
        )
        self.max = max
        self.reached = reached


class CycleDetected(GraphError):
    """A node was about to run again with the same state: `CycleDetected("plan", ["plan", "act"])`."""

    def __init__(self, node: str, recent: Sequence[str]) -> None:
        super().__init__(
            f"node {node!r} comes again with the very state it had before (recent nodes: {' -> '.join(recent)}); "
            "let each round change the state, or compile without cycle_window"
        )
        self.node = node
        self.recent = tuple(recent)


class CheckpointError(GraphError):
    """The state could not be saved or read back, `CheckpointError("the disk is full")`: the graph could not be resumed."""


class InvalidUpdate(GraphError, ValueError):
    """Nodes wrote one field in the same step without a reducer, or it does not fit: `InvalidUpdate("two wrote 'x'")`."""


class WorkflowInterrupted(GraphError):
    """The graph waits, `WorkflowInterrupted({"x": 1})`; `Workflow.resume` goes on, in this process or another one.

    Args:
        state: The state so far.
        next: The nodes that run next.
        interrupts: The questions of nodes (`langgraph.types.interrupt`); empty for a stop before or after a node.
        when: Whether it stopped before or after a node, inside one, or because it was cancelled.
        thread_id: Resume with this; empty when there is no checkpointer, and then it cannot go on.
        nodes: The nodes that it stopped at: those that run next, or ask, or, for a stop after a node, those that have run.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        next: Sequence[str] = (),
        interrupts: Sequence[Interrupt] = (),
        when: Literal["before", "after", "inside", "cancelled"] = "inside",
        thread_id: str = "",
        nodes: Sequence[str] = (),
    ) -> None:
        at = tuple(nodes) or (tuple(next) if when != "after" else ())
        place = f" {when} {', '.join(map(repr, at))}" if at else f" ({when} a node)"
        how = f"; resume the thread {thread_id!r}" if thread_id else "; without a checkpointer it cannot go on"
        if when == "after" and not next and thread_id:
            how += ": that was its last node, and it takes no update"
        super().__init__(f"the graph waits{place}{how}")
        self.state = state
        self.next = tuple(next)
        self.interrupts = tuple(interrupts)
        self.when = when
        self.thread_id = thread_id
        self.nodes = at
