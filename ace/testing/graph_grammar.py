"""A checker for the events of a graph: it accepts a stream or reports the first violation."""

from __future__ import annotations

from collections.abc import Iterable

from ace.graph.events import GRAPH_TERMINAL_KINDS, GraphEvent
from ace.testing.grammar import EventGrammar, Grammar

_NODE_ENDS = ("node_completed", "node_error", "node_paused")


class GraphGrammar(Grammar[GraphEvent]):
    """Reads the events of one run of a graph, one by one.

    Examples:
        >>> GraphGrammar().check([])
        Traceback (most recent call last):
        ...
        ace.core.errors.EventGrammarError: no event at all; expected graph_started first
    """

    def __init__(self) -> None:
        super().__init__(["graph_started", "graph_continued"], GRAPH_TERMINAL_KINDS)
        self._open: dict[str, bool] = {}
        """Task id: whether it runs now."""
        self._agents: dict[tuple[str, str], EventGrammar] = {}
        self._calls: set[tuple[str, str]] = set()
        """Calls of tool nodes that are out."""

    def _take(self, event: GraphEvent) -> None:
        kind = event.kind
        self._require(event, not self._over, "nothing may follow the end")
        self._require(event, self._last is None or kind not in self._begins, "it may only come first")
        if kind == "node_started":
            self._require(event, self._open.get(event.task_id) is not True, "the node runs already")
            self._open[event.task_id] = True
        elif kind in _NODE_ENDS:
            self._require(event, self._open.get(event.task_id) is True, "the node does not run")
            self._open[event.task_id] = False
        elif kind.startswith("tool_call_"):
            self._require(event, self._open.get(event.task_id) is True, "its node does not run")
            call = (event.task_id, event.data["tool_call_id"])
            begins = kind == "tool_call_started"
            self._require(event, (call not in self._calls) == begins, "a call begins once and ends once")
            self._calls ^= {call}
        elif kind == "agent_event":
            self._feed_agent(event)
        elif kind in GRAPH_TERMINAL_KINDS:
            running = [task_id for task_id, runs in self._open.items() if runs]
            self._require(event, not running, f"nodes still run: {running}")

    def _feed_agent(self, event: GraphEvent) -> None:
        self._require(event, event.agent is not None, "the agent's event is missing")
        self._require(event, self._open.get(event.task_id) is True, "its node does not run")
        assert event.agent is not None
        key = (event.task_id, event.agent.run_id)
        if event.agent.kind == "run_continued" and key not in self._agents:
            self._agents[key] = EventGrammar(continued=True)
        self._agents.setdefault(key, EventGrammar()).feed(event.agent)


def check_graph_events(events: Iterable[GraphEvent]) -> None:
    """Check a whole stream: `check_graph_events(graph_events)`.

    Raises:
        EventGrammarError: An event breaks a rule; the message names both.
    """
    GraphGrammar().check(events)
