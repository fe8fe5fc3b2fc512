"""Small graphs that the tests share."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph

from ace import tool
from ace.graph import append, counter, merge_map, override
from ace.graph.state import WorkflowState
from ace.playbook import PlaybookBullet
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, FromTask, Plan, Situation
from ace.playbook.results import Retrieved


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


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


def one(node: Any, name: str = "agent", schema: Any = WorkflowState, before: int = 0) -> StateGraph:
    """A graph of one node, after `before` others."""
    builder, previous = StateGraph(schema), START
    for i in range(before):
        builder.add_node(f"n{i}", lambda state: {})
        builder.add_edge(previous, f"n{i}")
        previous = f"n{i}"
    return builder.add_node(name, node).add_edge(previous, name)


class Recorder:
    """An observer that keeps what it sees."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.append(event)


def thread(name):
    """LangGraph's config of a thread."""
    return {"configurable": {"thread_id": name}}


class LookTwice:
    """A memory whose one lesson has a released plan: look twice."""

    def retrieve_for(self, task, tools):
        call = Call(tool="look", args={"n": FromTask(slot="n")})
        fields = readable(Plan(calls=(call, call)), [Situation(template="look twice")])
        bullet = PlaybookBullet(id="b-1", section="Strategies", tool_schema_hashes=dict(tools), **fields)
        return Retrieved([bullet], released=["b-1"])


def paying(paid: list[str]):
    """A tool that needs approval, and keeps whom it has paid."""

    @tool(requires_approval=True)
    def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return f"paid {to}"

    return pay
