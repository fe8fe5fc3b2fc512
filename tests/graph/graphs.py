"""Small graphs that the tests share."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph

from ace.graph import append, counter, merge_map, override


class State(TypedDict, total=False):
    n: Annotated[int, counter]
    log: Annotated[list[str], append]
    facts: Annotated[dict[str, Any], merge_map]
    mood: Annotated[str, override]
    x: Any


def step(name: str):
    """A node that leaves its name in the log."""

    def node(state: State) -> dict[str, Any]:
        return {"n": 1, "log": [name]}

    return node


def chain(*names: str, schema: Any = State, **nodes: Any) -> StateGraph:
    """Nodes one after another; those that are not given leave their names in the log."""
    builder = StateGraph(schema)
    previous = START
    for name in names:
        builder.add_node(name, nodes.get(name, step(name)))
        builder.add_edge(previous, name)
        previous = name
    return builder


class Recorder:
    """An observer that keeps what it sees."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.append(event)
