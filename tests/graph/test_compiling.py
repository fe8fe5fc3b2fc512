"""What a graph refuses when it is compiled, and who hears of a run: observers of one call, tools of a node, spans."""

import asyncio
import pathlib
from typing import Annotated, Any, Literal, TypedDict

import pytest
from graph.graphs import chain, look, one, step
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.types import interrupt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel, ConfigDict

from ace import ReActGenerator, graph
from ace.graph import (
    CheckpointError,
    GraphError,
    GraphObserver,
    JsonlCheckpointer,
    NodeFailed,
    ReActAgentNode,
    ToolNode,
    WorkflowInterrupted,
    WorkflowState,
    append,
)
from ace.graph.nodes.base import DECISION_SCHEMA
from ace.testing import ScriptedLM, check_graph_events, decision
from ace.tools import tool


class Plain:
    pass


class Holds(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    inner: Plain | None = None


@pytest.mark.parametrize("annotation", [Plain, list[Plain], Annotated[dict[str, Plain], append], Holds, Holds | None])
def test_a_class_that_could_not_come_back_is_refused_with_its_field(tmp_path, annotation):
    class State(TypedDict, total=False):
        session: annotation
        n: int

    builder = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    with pytest.raises(
        CheckpointError, match=r"field 'session' may hold a [\w.]*test_compiling:Plain.*make it a pydantic model"
    ):
        graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path))
    assert graph.compile(builder).invoke({})["n"] == 1, "without a saver it may hold anything"
    assert graph.compile(builder, checkpointer=InMemorySaver()).invoke({}, thread_id="t")["n"] == 1


def test_what_the_saver_keeps_may_stand_in_the_state(tmp_path):
    class State(TypedDict, total=False):
        left: RemainingSteps
        kind: Literal["a", "b"]
        path: pathlib.Path | None
        anything: Any
        several: Annotated[list[tuple[int, ...]], append]

    builder = (
        StateGraph(State).add_node("a", lambda state: {"kind": "a", "path": pathlib.Path("/a")}).add_edge(START, "a")
    )
    flow = graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path))
    assert flow.invoke({"several": [(1, 2)]}, thread_id="t")["path"] == pathlib.Path("/a")


def test_classes_that_are_named_by_hand_are_checked_too(tmp_path):
    with pytest.raises(CheckpointError, match=r"what classes=\[...\] names may hold a [\w.]*test_compiling:Plain"):
        graph.compile(chain("a"), checkpointer=JsonlCheckpointer(tmp_path), classes=[Plain])


@pytest.mark.parametrize("start", ["a", ["a", "c"]])
def test_an_edge_beside_a_conditional_one_is_refused(start):
    builder = chain("a").add_node("c", step("c")).add_edge(START, "c").add_node("b", step("b")).add_edge(start, "b")
    builder.add_conditional_edges("a", lambda state: END, [END])
    with pytest.raises(
        GraphError, match="node 'a' has an edge to 'b' and a conditional edge, and both would be taken; return 'b'"
    ):
        graph.compile(builder)


class Heard(GraphObserver):
    def __init__(self):
        self.kinds, self.errors = [], []

    def on_event(self, event):
        self.kinds.append(event.kind)

    def on_graph_error(self, event):
        self.errors.append(event.data["error"])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_one_call_may_have_observers_of_its_own(asynchronous):
    def broken(state):
        raise RuntimeError("no")

    always, once = Heard(), Heard()
    flow = graph.compile(chain("a", a=broken), observers=[always])
    for observers in ([once], []):
        with pytest.raises(NodeFailed):
            asyncio.run(flow.ainvoke({}, observers=observers)) if asynchronous else flow.invoke({}, observers=observers)
    assert once.kinds == ["graph_started", "node_started", "node_error", "graph_error"]
    assert once.errors == ["NodeFailed"]
    assert always.kinds == once.kinds * 2


def test_a_graph_that_takes_too_many_steps_or_cannot_be_saved_is_told_to_observers(tmp_path):
    heard = Heard()
    with pytest.raises(GraphError):
        graph.compile(chain("a", "b"), max_steps=1, observers=[heard]).invoke({})
    flow = graph.compile(chain("a", a=lambda state: {"x": object()}), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(CheckpointError):
        flow.invoke({}, thread_id="t", observers=[heard])
    assert heard.errors == ["MaxStepsExceeded", "CheckpointError"]


def test_a_resume_may_have_observers_of_its_own(tmp_path):
    flow, heard = (
        graph.compile(chain("a", "b"), checkpointer=JsonlCheckpointer(tmp_path), interrupt_before=["b"]),
        Heard(),
    )
    with pytest.raises(WorkflowInterrupted):
        flow.invoke({}, thread_id="t")
    flow.resume("t", observers=[heard])
    assert (heard.kinds[0], heard.kinds[-1]) == ("graph_continued", "graph_completed")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_calls_of_a_tool_node_are_events_and_parts_of_the_custom_stream(asynchronous):
    @tool
    def fails() -> str:
        """Fail."""
        raise RuntimeError("broken")

    flow = graph.compile(one(ToolNode([look, fails]), "tools"))
    given = {"tool_calls": [{"id": "1", "name": "look", "args": {"n": 1}}, {"id": "2", "name": "fails", "args": {}}]}

    async def events_async():
        return [event async for event in flow.astream(given)]

    events = asyncio.run(events_async()) if asynchronous else list(flow.stream(given))
    check_graph_events(events)
    told = [(e.kind, e.node, e.data["tool"], e.data.get("outcome")) for e in events if e.kind.startswith("tool_call")]
    assert told == [
        ("tool_call_started", "tools", "look", None),
        ("tool_call_completed", "tools", "look", "success"),
        ("tool_call_started", "tools", "fails", None),
        ("tool_call_error", "tools", "fails", "failed"),
    ]
    custom = list(flow.graph.stream(given, stream_mode="custom"))
    assert [(part["kind"], part["data"]["tool_call_id"]) for part in custom] == [
        (kind, data) for (kind, *_), data in zip(told, ["1", "1", "2", "2"], strict=True)
    ]


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_node_of_each_step_has_a_span_and_the_agents_are_inside(spans, asynchronous):
    agent = ReActGenerator(tools=[look], lm=ScriptedLM([decision("look", n=1), decision("submit", answer="seen")]))
    builder = chain("a", schema=WorkflowState, a=lambda state: {}).add_node("agent", ReActAgentNode(agent))
    flow = graph.compile(builder.add_edge("a", "agent"))
    asyncio.run(flow.ainvoke({"user_input": "x"})) if asynchronous else flow.invoke({"user_input": "x"})
    found = {span.name: span for span in spans.get_finished_spans()}
    steps = {name: span.attributes["gen_ai.workflow.step"] for name, span in found.items() if "node" in name}
    assert steps == {"execute_node a": 1, "execute_node agent": 2}
    run = next(span for name, span in found.items() if name.startswith("invoke_agent"))
    assert run.parent.span_id == found["execute_node agent"].context.span_id


def test_the_span_of_a_node_that_waits_is_no_failure(spans, tmp_path):
    builder = chain("a", a=lambda state: interrupt("?"))
    with pytest.raises(WorkflowInterrupted):
        graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path)).invoke({}, thread_id="t")
    (node,) = (span for span in spans.get_finished_spans() if span.name == "execute_node a")
    assert node.status.is_ok or node.status.status_code.name == "UNSET"
    assert "error.type" not in node.attributes


def test_what_a_question_may_be_answered_with_is_told(tmp_path):
    @tool(requires_approval=True)
    def send() -> str:
        """Send."""
        return "sent"

    flow = graph.compile(one(ToolNode([send]), "tools"), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted) as stop:
        flow.invoke({"tool_calls": [{"id": "1", "name": "send", "args": {}}]}, thread_id="t")
    assert stop.value.interrupts[0].response_schema == DECISION_SCHEMA
    again = graph.compile(one(ToolNode([send]), "tools"), checkpointer=JsonlCheckpointer(tmp_path))
    waits = again.graph.get_state({"configurable": {"thread_id": "t"}}).interrupts[0]
    assert waits.response_schema == DECISION_SCHEMA
