"""Guards, errors, interrupts and events of a compiled graph."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from graph.graphs import Recorder, State, chain, step, thread
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.runtime import Runtime
from langgraph.types import Command, RetryPolicy, Send, interrupt
from pydantic import BaseModel

from ace import graph
from ace.core import CancellationToken, ResumeError
from ace.graph import (
    CheckpointError,
    CycleDetected,
    GraphError,
    GraphObserver,
    InvalidEdge,
    InvalidUpdate,
    JsonlCheckpointer,
    MaxStepsExceeded,
    MissingNode,
    NodeFailed,
    WorkflowInterrupted,
    append,
)
from ace.testing import check_graph_events


def boom(state: State) -> Any:
    raise LookupError("no such order")


def idle(state: State) -> dict[str, Any]:
    return {}


def looped(node: Any = None, **options: Any):
    builder = chain("a", a=node or step("a"))
    builder.add_edge("a", "a")
    return graph.compile(builder, **options)


def routed(router: Any, *, path_map: Any = None):
    builder = chain("a")
    builder.add_conditional_edges("a", router, path_map)
    return graph.compile(builder)


class FailingSaver(InMemorySaver):
    """Its disk is full from the nth checkpoint on."""

    def __init__(self, sound: int) -> None:
        super().__init__()
        self.left = sound

    def put(self, *args: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OSError(28, "No space left on device")
        return super().put(*args)

    async def aput(self, *args: Any) -> Any:
        return self.put(*args)


def edge_to_ghost():
    return graph.compile(chain("a").add_edge("a", "ghost"))


def map_to_ghost():
    return graph.compile(chain("a").add_conditional_edges("a", lambda state: "x", {"x": "ghost"}))


@dataclass
class Case:
    name: str
    run: Any
    error: type[Exception]
    says: str


CASES = [
    Case("node", lambda: graph.compile(chain("a", a=boom)).invoke({}), NodeFailed, "'a' failed: LookupError: no such"),
    Case("edge", edge_to_ghost, MissingNode, "'ghost'"),
    Case("map", map_to_ghost, MissingNode, "'ghost'"),
    Case("interrupt", lambda: graph.compile(chain("a"), interrupt_before=["b"]), MissingNode, "'b'"),
    Case("no way in", lambda: graph.compile(StateGraph(State).add_node("a", idle)), MissingNode, "add_edge(START"),
    Case("router", lambda: routed(lambda state: "ghost").invoke({}), InvalidEdge, "from 'a' leads to 'ghost'"),
    Case("router's map", lambda: routed(lambda s: "y", path_map={"x": "a"}).invoke({}), InvalidEdge, "leads to 'y'"),
    Case("router's nothing", lambda: routed(lambda state: None).invoke({}), InvalidEdge, "leads to None"),
    Case("send", lambda: routed(lambda state: [Send("ghost", {})]).invoke({}), InvalidEdge, "'ghost'"),
    Case(
        "command",
        lambda: graph.compile(chain("a", a=lambda state: Command(goto="ghost"))).invoke({}),
        InvalidEdge,
        "from 'a' leads to 'ghost'",
    ),
    Case("steps", lambda: looped(max_steps=5).invoke({}), MaxStepsExceeded, "5 of at most 5 steps"),
    Case("cycle", lambda: looped(idle, cycle_window=3).invoke({"x": 1}), CycleDetected, "'a' comes again"),
    Case(
        "first save",
        lambda: graph.compile(chain("a", "b"), checkpointer=FailingSaver(0)).invoke({}, thread_id="t"),
        CheckpointError,
        "could not be saved: OSError",
    ),
    Case(
        "later save",
        lambda: graph.compile(chain("a", "b"), checkpointer=FailingSaver(2)).invoke({}, thread_id="t"),
        CheckpointError,
        "could not be saved: OSError",
    ),
    Case(
        "no thread",
        lambda: graph.compile(chain("a"), checkpointer=InMemorySaver()).invoke({}),
        CheckpointError,
        "name the thread",
    ),
    Case("no saver", lambda: graph.compile(chain("a"), checkpointer="t.db"), CheckpointError, "expected a saver"),
    Case(
        "nothing to resume",
        lambda: graph.compile(chain("a"), checkpointer=InMemorySaver()).resume("t"),
        GraphError,
        "nothing to go on with",
    ),
    Case(
        "two writers",
        lambda: graph.compile(
            chain("a", a=lambda s: {"x": 1}).add_node("b", lambda s: {"x": 2}).add_edge(START, "b")
        ).invoke({}),
        InvalidUpdate,
        "'x'",
    ),
    Case("before", lambda: graph.compile(chain("a"), interrupt_before=["a"]).invoke({}), WorkflowInterrupted, "before"),
    Case(
        "after", lambda: graph.compile(chain("a", "b"), interrupt_after=["a"]).invoke({}), WorkflowInterrupted, "after"
    ),
]


class UnreadableSaver(InMemorySaver):
    """Its database is unavailable on reads."""

    def get_tuple(self, config: Any) -> Any:
        raise ConnectionError("server closed the connection")

    def list(self, *args: Any, **options: Any) -> Any:
        raise ConnectionError("server closed the connection")
        yield


class Strict(BaseModel):
    x: int


CASES += [
    Case(
        "read",
        lambda: graph.compile(chain("a"), checkpointer=UnreadableSaver()).resume("t"),
        CheckpointError,
        "could not be read: ConnectionError",
    ),
    Case(
        "bad input",
        lambda: graph.compile(chain("a", schema=Strict, a=lambda s: {})).invoke({"x": "many"}),
        InvalidUpdate,
        "does not fit",
    ),
    Case(
        "bad update", lambda: graph.compile(chain("a", a=lambda s: {"n": "one"})).invoke({"n": 1}), InvalidUpdate, "fit"
    ),
    Case("no saver", lambda: graph.compile(chain("a")).resume("t", "yes"), GraphError, "checkpointer"),
    Case("empty answer", lambda: graph.compile(chain("a")).resume("t", {}), GraphError, "no answer"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_error_is_raised_and_says_what_to_do(case):
    with pytest.raises(case.error) as raised:
        case.run()
    assert case.says in str(raised.value)
    assert isinstance(raised.value, GraphError)


def test_a_failed_node_names_its_source():
    with pytest.raises(NodeFailed) as raised:
        graph.compile(chain("a", "b", b=boom)).invoke({})
    assert raised.value.node == "b"
    assert isinstance(raised.value.source, LookupError)
    assert raised.value.__cause__ is raised.value.source


def test_of_nodes_that_run_side_by_side_the_failed_one_is_named():
    builder = chain("a", a=lambda state: time.sleep(0.05) or {}).add_node("b", boom).add_edge(START, "b")
    with pytest.raises(NodeFailed) as raised:
        graph.compile(builder).invoke({})
    assert raised.value.node == "b"


@pytest.mark.parametrize(("steps", "fits"), [(3, True), (2, False)])
def test_a_graph_may_take_exactly_so_many_steps(steps, fits):
    ran = []
    builder = chain(
        "a", "b", "c", **{name: lambda state, name=name: ran.append(name) or {"log": [name]} for name in "abc"}
    )
    workflow = graph.compile(builder, max_steps=steps)
    if fits:
        assert workflow.invoke({})["log"] == ["a", "b", "c"]
        return
    with pytest.raises(MaxStepsExceeded) as raised:
        workflow.invoke({})
    assert (raised.value.max, raised.value.reached, ran) == (2, 2, ["a", "b"])
    with pytest.raises(MaxStepsExceeded, match="2 of at most 2 steps"):  # LangGraph's own way to say so
        graph.compile(builder).invoke({}, {"recursion_limit": 2})


def test_steps_before_a_resume_count(tmp_path):
    saver = JsonlCheckpointer(tmp_path)
    workflow = graph.compile(chain("a", "b", "c", "d"), max_steps=3, checkpointer=saver, interrupt_before=["c"])
    with pytest.raises(WorkflowInterrupted):
        workflow.invoke({}, thread_id="t")
    with pytest.raises(MaxStepsExceeded) as raised:
        workflow.resume("t")
    assert raised.value.reached == 3
    with pytest.raises(WorkflowInterrupted):  # a new input has all steps again
        workflow.invoke({}, thread_id="t")


def test_steps_before_a_resume_count_for_async_callers(tmp_path):
    saver = JsonlCheckpointer(tmp_path)
    workflow = graph.compile(chain("a", "b", "c", "d"), max_steps=3, checkpointer=saver, interrupt_before=["c"])

    async def run():
        with pytest.raises(WorkflowInterrupted):
            await workflow.ainvoke({}, thread_id="t")
        with pytest.raises(MaxStepsExceeded):
            await workflow.aresume("t")

    asyncio.run(run())


def test_a_cycle_names_the_way_round_and_progress_is_none():
    builder = chain("a", "b", a=idle, b=idle).add_edge("b", "a")
    with pytest.raises(CycleDetected) as raised:
        graph.compile(builder, cycle_window=4).invoke({"x": 1})
    assert raised.value.node == "a"
    assert raised.value.recent == ("a", "b", "a")
    with pytest.raises(MaxStepsExceeded):  # by default none is looked for
        graph.compile(builder, max_steps=20).invoke({"x": 1})
    with pytest.raises(MaxStepsExceeded):  # the counter moves: no cycle
        looped(max_steps=20, cycle_window=4).invoke({})


def test_a_cycle_longer_than_the_window_is_not_seen():
    builder = chain("a", "b", "c", a=idle, b=idle, c=idle).add_edge("c", "a")
    with pytest.raises(MaxStepsExceeded):
        graph.compile(builder, cycle_window=2, max_steps=12).invoke({"x": 1})
    with pytest.raises(CycleDetected):
        graph.compile(builder, cycle_window=3, max_steps=12).invoke({"x": 1})


def test_the_same_work_twice_in_one_step_is_no_cycle():
    builder = chain("a").add_conditional_edges("a", lambda state: [Send("w", 1), Send("w", 1)], ["w"])
    builder.add_node("w", lambda given: {"log": ["w"]})
    assert graph.compile(builder, cycle_window=9).invoke({})["log"].count("w") == 2


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_save_that_fails_halts_the_run_before_the_next_node(asynchronous):
    ran = []

    def second(state):
        ran.append("b")
        return {}

    workflow = graph.compile(chain("a", "b", b=second), checkpointer=FailingSaver(2))
    run = (
        (lambda: asyncio.run(workflow.ainvoke({}, thread_id="t")))
        if asynchronous
        else (lambda: workflow.invoke({}, thread_id="t"))
    )
    with pytest.raises(CheckpointError):
        run()
    assert ran == []


# -- interrupts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("kind", "log"), [("interrupt_before", ["a"]), ("interrupt_after", ["a", "b"])])
def test_a_graph_stops_and_goes_on_with_the_answer(tmp_path, kind, log, asynchronous):
    saver = JsonlCheckpointer(tmp_path)
    workflow = graph.compile(chain("a", "b", "c"), checkpointer=saver, **{kind: ["b"]})

    def call(name, *args, **options):
        if asynchronous:
            return asyncio.run(getattr(workflow, f"a{name}")(*args, **options))
        return getattr(workflow, name)(*args, **options)

    with pytest.raises(WorkflowInterrupted) as raised:
        call("invoke", {}, thread_id="t")
    assert raised.value.when == kind.removeprefix("interrupt_")
    assert raised.value.state["log"] == log
    assert raised.value.next == (("b",) if kind == "interrupt_before" else ("c",))
    assert raised.value.nodes == ("b",)
    assert not workflow.is_done("t")
    done = call("resume", "t", update={"log": ["a person"]})
    assert done["log"] == [*log, "a person", *["a", "b", "c"][len(log) :]]
    assert workflow.is_done("t")


def test_a_stop_after_the_last_node_says_that_nothing_is_left(tmp_path):
    workflow = graph.compile(chain("a", "b"), checkpointer=JsonlCheckpointer(tmp_path), interrupt_after=["b"])
    with pytest.raises(WorkflowInterrupted, match=r"after 'b'.*its last node, and it takes no update"):
        workflow.invoke({}, thread_id="t")
    with pytest.raises(GraphError, match="the thread is done"):
        workflow.resume("t", update={"log": ["late"]})
    assert workflow.resume("t")["log"] == ["a", "b"]


def test_all_nodes_may_stop_the_graph(tmp_path):
    workflow = graph.compile(chain("a", "b"), checkpointer=JsonlCheckpointer(tmp_path), interrupt_before="*")
    with pytest.raises(WorkflowInterrupted):
        workflow.invoke({}, thread_id="t")
    with pytest.raises(WorkflowInterrupted):
        workflow.resume("t")
    assert workflow.resume("t")["log"] == ["a", "b"]


def test_a_node_asks_and_is_answered(tmp_path):
    def ask(state):
        return {"log": [interrupt({"question": "refund?"})]}

    workflow = graph.compile(chain("a", "ask", ask=ask), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.invoke({}, thread_id="t")
    assert raised.value.interrupts[0].value == {"question": "refund?"}
    assert raised.value.next == ("ask",)
    assert workflow.graph.get_state(thread("t")).interrupts[0].value == {"question": "refund?"}
    assert workflow.resume("t", "yes")["log"] == ["a", "yes"]


def test_two_nodes_ask_at_once_and_each_has_its_answer(tmp_path):
    def ask(name):
        return lambda state: {"log": [f"{name}: {interrupt(name)}"]}

    builder = chain("a", a=ask("a")).add_node("b", ask("b")).add_edge(START, "b")
    workflow = graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.invoke({}, thread_id="t")
    with pytest.raises(GraphError, match="interrupt id"):
        workflow.resume("t", "yes")
    answers = {one.id: f"for {one.value}" for one in raised.value.interrupts}
    assert workflow.resume("t", answers)["log"] == ["a: for a", "b: for b"]


def test_an_answer_by_id_is_never_given_to_another_question(tmp_path):
    builder = StateGraph(State)
    for name in ("a", "b"):
        builder.add_node(name, lambda state, name=name: {"log": [f"{name} {interrupt(name)}"]}).add_edge(START, name)
    flow = graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted) as raised:
        flow.invoke({}, thread_id="t")
    ids = {one.value: one.id for one in raised.value.interrupts}
    for _ in range(2):
        with pytest.raises(WorkflowInterrupted) as raised:
            flow.resume("t", {ids["a"]: "yes"})
        assert [one.value for one in raised.value.interrupts] == ["b"]
    assert flow.resume("t", {ids["a"]: "yes", ids["b"]: "no"})["log"] == ["a yes", "b no"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_update_is_applied_once_however_often_it_is_sent(tmp_path, asynchronous):
    fails = [True, True]

    def flaky(state):
        if fails and fails.pop():
            raise ConnectionError("down")
        return {"log": ["b"]}

    workflow = graph.compile(chain("a", "b", b=flaky), checkpointer=JsonlCheckpointer(tmp_path), interrupt_before=["b"])

    def resume(**options):
        return asyncio.run(workflow.aresume("t", **options)) if asynchronous else workflow.resume("t", **options)

    with pytest.raises(WorkflowInterrupted):
        workflow.invoke({}, thread_id="t")
    for _ in range(2):
        with pytest.raises(NodeFailed):
            resume(update={"log": ["ana"]})
    with pytest.raises(GraphError, match="waits to be applied already"):
        resume(update={"log": ["ben"]})
    assert resume()["log"] == ["a", "ana", "b"]
    with pytest.raises(GraphError, match="the thread is done"):
        resume(update={"log": ["late"]})
    assert workflow.is_done("t")


def test_pruning_takes_no_step_back(tmp_path):
    saver = JsonlCheckpointer(tmp_path)
    workflow = graph.compile(chain("a", "b", "c", "d"), max_steps=3, checkpointer=saver, interrupt_before=["c"])
    with pytest.raises(WorkflowInterrupted):
        workflow.invoke({}, thread_id="t")
    saver.prune(["t"])
    with pytest.raises(MaxStepsExceeded):
        workflow.resume("t")


def test_a_workflow_inside_a_node_is_its_own(tmp_path):
    inner = chain("i1", i1=lambda state: Command(goto="i2", update={"log": ["i1"]})).add_node("i2", step("i2"))
    workflow = graph.compile(inner, checkpointer=JsonlCheckpointer(tmp_path / "inner"))

    def call(state):
        return {"log": workflow.invoke({}, thread_id="inside")["log"]}

    outer = graph.compile(chain("o", o=call), checkpointer=JsonlCheckpointer(tmp_path / "outer"))
    with outer.stream({}, thread_id="t") as stream:
        events = list(stream)
    check_graph_events(events)
    assert stream.output["log"] == ["i1", "i2"]
    assert {event.node for event in events if event.node} == {"o"}

    failing = graph.compile(chain("o", o=lambda s: graph.compile(chain("i", i=boom)).invoke({})))
    with pytest.raises(NodeFailed) as raised:
        failing.invoke({})
    assert (raised.value.node, raised.value.source.node) == ("o", "o/i")


def test_a_node_may_have_a_number_for_a_name():
    with pytest.raises(NodeFailed) as raised:
        graph.compile(chain("1", **{"1": boom})).invoke({})
    assert raised.value.node == "1"


def test_a_cancelled_graph_stops_after_its_step_and_goes_on(tmp_path):
    token = CancellationToken()

    def cancels(state):
        token.cancel("enough")
        return {"log": ["a"]}

    workflow = graph.compile(chain("a", "b", a=cancels), checkpointer=JsonlCheckpointer(tmp_path))
    with pytest.raises(WorkflowInterrupted) as raised:
        workflow.invoke({}, thread_id="t", cancellation=token)
    assert raised.value.when == "cancelled"
    assert workflow.resume("t")["log"] == ["a", "b"]


# -- states ----------------------------------------------------------------------------------------------------------------


class Order(BaseModel):
    number: int
    tags: tuple[str, ...] = ()


class Shop(BaseModel):
    order: Order | None = None
    log: Annotated[list[str], append] = []


def test_a_pydantic_state_comes_back_as_it_was(tmp_path):
    def set_order(state: Shop):
        return {"order": Order(number=17, tags=("late",)), "log": ["set"]}

    def look(state: Shop):
        assert isinstance(state.order, Order)
        return {"log": [f"{state.order.number}{state.order.tags}"]}

    workflow = graph.compile(
        chain("set", "look", schema=Shop, set=set_order, look=look),
        checkpointer=JsonlCheckpointer(tmp_path),
        interrupt_before=["look"],
    )
    with pytest.raises(WorkflowInterrupted):
        workflow.invoke(Shop(), thread_id="t")
    again = graph.compile(
        chain("set", "look", schema=Shop, set=set_order, look=look), checkpointer=JsonlCheckpointer(tmp_path)
    )
    assert again.graph.get_state(thread("t")).values["order"] == Order(number=17, tags=("late",))
    assert again.resume("t")["log"] == ["set", "17('late',)"]


@pytest.mark.parametrize(
    ("field", "given", "written", "expected"),
    [
        ("log", ["0"], ["a", "b"], ["0", "a", "b"]),
        ("n", 1, 2, 3),
        ("facts", {"k": 1, "l": 1}, {"k": 2}, {"k": 2, "l": 1}),
        ("mood", "good", "bad", "bad"),
        ("x", 1, 2, 2),
    ],
)
def test_each_field_keeps_what_its_reducer_says(field, given, written, expected):
    workflow = graph.compile(chain("a", a=lambda state: {field: written}))
    assert workflow.invoke({field: given})[field] == expected


# -- events ----------------------------------------------------------------------------------------------------------------


def test_the_events_of_a_run_obey_the_grammar(tmp_path):
    workflow = graph.compile(chain("a", "b"), checkpointer=JsonlCheckpointer(tmp_path))
    with workflow.stream({}, thread_id="t") as stream:
        events = list(stream)
    check_graph_events(events)
    assert [(e.kind, e.node) for e in events if e.kind != "checkpoint_saved"] == [
        ("graph_started", ""),
        ("node_started", "a"),
        ("node_completed", "a"),
        ("node_started", "b"),
        ("node_completed", "b"),
        ("graph_completed", ""),
    ]
    saved = [e.kind for e in events if e.kind in ("checkpoint_saved", "node_started", "node_completed")]
    assert saved == ["checkpoint_saved"] * 2 + ["node_started", "node_completed", "checkpoint_saved"] * 2
    assert stream.output["log"] == ["a", "b"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("node", "error", "last"),
    [(boom, NodeFailed, "graph_error"), (lambda s: interrupt("?"), WorkflowInterrupted, "graph_paused")],
    ids=["fails", "waits"],
)
def test_a_stream_ends_on_an_error_and_raises_it(tmp_path, node, error, last, asynchronous):
    workflow = graph.compile(chain("a", "b", b=node), checkpointer=JsonlCheckpointer(tmp_path))
    events = []

    def sync():
        with workflow.stream({}, thread_id="t") as stream:
            for event in stream:
                events.append(event)

    async def later():
        async with workflow.astream({}, thread_id="t") as stream:
            async for event in stream:
                events.append(event)

    with pytest.raises(error):
        asyncio.run(later()) if asynchronous else sync()
    check_graph_events(events)
    assert events[-1].kind == last


def test_a_stream_that_was_not_read_has_no_output(tmp_path):
    stream = graph.compile(chain("a")).stream({})
    with pytest.raises(ResumeError, match="read the stream"):
        _ = stream.output


def test_leaving_a_stream_early_stops_the_graph(tmp_path):
    ran = threading.Event()

    def late(state):
        ran.set()
        return {}

    def slow(state):
        time.sleep(0.2)
        return {"log": ["a"]}

    workflow = graph.compile(chain("a", "b", a=slow, b=late), checkpointer=JsonlCheckpointer(tmp_path))
    with workflow.stream({}, thread_id="t") as stream:
        for event in stream:
            if event.kind == "node_started":
                break
    assert not ran.is_set()
    assert workflow.resume("t")["log"] == ["a"]


def test_a_retried_node_starts_again(tmp_path):
    tries = []

    def flaky(state):
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("down")
        return {"log": ["up"]}

    builder = StateGraph(State)
    builder.add_node("a", flaky, retry_policy=RetryPolicy(initial_interval=0.001, max_attempts=3))
    builder.add_edge(START, "a")
    with graph.compile(builder).stream({}) as stream:
        events = list(stream)
    check_graph_events(events)
    assert [e.kind for e in events if e.node] == ["node_started", "node_error"] * 2 + ["node_started", "node_completed"]


def test_nodes_of_a_graph_inside_a_node_are_told_by_their_path():
    inner = chain("inner").compile()
    outer = StateGraph(State).add_node("outer", inner).add_edge(START, "outer")
    with graph.compile(outer).stream({}) as stream:
        events = list(stream)
    check_graph_events(events)
    assert {e.node for e in events if e.node} == {"outer", "outer/inner"}


def test_observers_see_each_event_and_cannot_hurt_the_run():
    class Watching(GraphObserver):
        def __init__(self):
            self.seen = []

        def on_node_enter(self, event):
            self.seen.append(("enter", event.node))

        def on_node_exit(self, event):
            self.seen.append(("exit", event.node))

        def on_node_error(self, event):
            self.seen.append(("error", event.node))

        def on_checkpoint_saved(self, event):
            self.seen.append(("saved", event.step))

    def angry(event):
        raise SystemExit("no")

    watching, recorder = Watching(), Recorder()
    workflow = graph.compile(
        chain("a", "b", b=boom), checkpointer=InMemorySaver(), observers=[angry, watching, recorder]
    )
    with pytest.raises(NodeFailed):
        workflow.invoke({}, thread_id="t")
    assert [one for one in watching.seen if one[0] != "saved"] == [
        ("enter", "a"),
        ("exit", "a"),
        ("enter", "b"),
        ("error", "b"),
    ]
    assert ("saved", 1) in watching.seen
    check_graph_events(recorder.events)
    assert recorder.events[-1].data["error"] == "NodeFailed"


def test_no_state_and_no_path_reaches_an_event(tmp_path):
    def leaks(state):
        raise OSError("cannot read /home/ana/secret/key.pem")

    recorder = Recorder()
    with pytest.raises(NodeFailed):
        graph.compile(chain("a", a=leaks), observers=[recorder]).invoke({"x": "sk-very-secret"})
    text = "".join(event.model_dump_json() for event in recorder.events)
    assert "sk-very-secret" not in text
    assert "/home/ana" not in text


def test_the_builder_is_left_as_it_was():
    builder = chain("a", "b").add_conditional_edges("b", lambda state: END)
    before = {name: dict(branches) for name, branches in builder.branches.items()}
    builder.set_node_defaults(error_handler=lambda state: {})
    nodes = [*builder.nodes]
    graph.compile(builder)
    assert [*builder.nodes] == nodes
    assert {node.error_handler_node for node in builder.nodes.values()} == {None}
    assert {name: dict(branches) for name, branches in builder.branches.items()} == before


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"cycle_window": -1}])
def test_a_bad_number_is_refused(options):
    with pytest.raises(ValueError, match="must be at least"):
        graph.compile(chain("a"), **options)


def test_only_what_the_output_schema_names_is_given_back(tmp_path):
    class Short(TypedDict):
        log: Annotated[list[str], append]

    builder = StateGraph(State, output_schema=Short).add_node("a", step("a")).add_edge(START, "a")
    flow = graph.compile(builder, checkpointer=JsonlCheckpointer(tmp_path))
    assert flow.invoke({"n": 1}, thread_id="t") == {"log": ["a"]}
    assert flow.graph.get_state(thread("t")).values["n"] == 2


def test_a_node_reads_how_many_steps_are_left_also_after_a_resume(tmp_path):
    class Counted(TypedDict):
        log: Annotated[list[Any], append]
        remaining_steps: RemainingSteps
        is_last: IsLastStep

    def count(state):
        return {"log": [(state["remaining_steps"], state["is_last"])]}

    builder = chain("a", schema=Counted, a=count)
    builder.add_conditional_edges("a", lambda state: END if len(state["log"]) == 4 else "a", ["a", END])
    left = [(4, False), (3, False), (2, False), (1, True)]
    assert graph.compile(builder, max_steps=4).invoke({"log": []})["log"] == left
    saver = JsonlCheckpointer(tmp_path)
    stopping = graph.compile(builder, max_steps=4, checkpointer=saver, interrupt_after=["a"])
    with pytest.raises(WorkflowInterrupted):
        stopping.invoke({"log": []}, thread_id="t")
    assert graph.compile(builder, max_steps=4, checkpointer=saver).resume("t")["log"] == left


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (Command(goto="nowhere"), "outer/inner"),
        (Command(goto="nowhere", graph=Command.PARENT), "outer"),
        (Command(goto="b", graph=Command.PARENT), ""),
    ],
)
def test_a_command_of_a_graph_inside_a_node_leads_somewhere_or_is_an_error(command, path):
    within = chain("inner", inner=lambda state: command).compile()
    builder = StateGraph(State).add_node("outer", within).add_node("b", step("b")).add_edge(START, "outer")
    flow, seen = graph.compile(builder), Recorder()
    if path:
        with pytest.raises(InvalidEdge, match=f"from '{path}' leads to 'nowhere'"):
            flow.invoke({})
    else:
        assert flow.invoke({}, observers=[seen])["log"] == ["b"]
        check_graph_events(seen.events)
        done = [event.node for event in seen.events if event.kind == "node_completed"]
        assert done == ["outer/inner", "outer", "b"]


def test_a_node_that_took_too_long_is_named():
    async def slow(state):
        await asyncio.sleep(30)

    builder = StateGraph(State).add_node("slow", slow, timeout=0.1).add_edge(START, "slow")
    with pytest.raises(NodeFailed, match="'slow'") as raised:
        asyncio.run(graph.compile(builder).ainvoke({}))
    assert type(raised.value.source).__name__ == "NodeTimeoutError"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_nodes_find_the_context_of_a_call(asynchronous):
    @dataclass
    class Shop:
        name: str

    def greet(state: State, runtime: Runtime[Shop]) -> dict[str, Any]:
        return {"log": [f"welcome to {runtime.context.name}"]}

    flow = graph.compile(StateGraph(State, context_schema=Shop).add_node("greet", greet).add_edge(START, "greet"))
    state = asyncio.run(flow.ainvoke({}, context=Shop("Ana"))) if asynchronous else flow.invoke({}, context=Shop("Ana"))
    assert state["log"] == ["welcome to Ana"]


def counting(steps):
    """A graph that counts so many steps."""
    builder = chain("count", count=lambda state: {"n": 1})
    return builder.add_conditional_edges("count", lambda state: END if state["n"] >= steps else "count", ["count", END])


@pytest.mark.parametrize("stop", [[], ["within"]])
def test_a_graph_inside_a_node_has_its_own_steps_also_after_a_resume(tmp_path, stop):
    names = [f"n{i}" for i in range(6)]
    builder = chain(*names, **dict.fromkeys(names, idle)).add_node("within", counting(8).compile())
    builder.add_edge(names[-1], "within")
    flow = graph.compile(builder, max_steps=12, checkpointer=JsonlCheckpointer(tmp_path), interrupt_before=stop)
    if stop:
        with pytest.raises(WorkflowInterrupted):
            flow.invoke({}, thread_id="t")
    state = flow.resume("t") if stop else flow.invoke({}, thread_id="t")
    assert state["n"] == 8


def test_a_workflow_that_is_given_the_config_of_one_around_it_has_its_own_limit():
    inner = graph.compile(counting(20), max_steps=50)

    def call(state: State, config: RunnableConfig) -> dict[str, Any]:
        return {"n": inner.invoke({}, config)["n"]}

    assert graph.compile(chain("a", a=call), max_steps=5).invoke({})["n"] == 20


def test_a_node_may_call_several_graphs_whose_commands_name_their_own_nodes():
    def two(name):
        first, second = f"{name}1", f"{name}2"
        builder = chain(first, **{first: lambda state: Command(goto=second, update={"log": [first]})})
        return builder.add_node(second, step(second)).compile()

    one, other = two("a"), two("b")
    flow = graph.compile(chain("outer", outer=lambda state: {"log": other.invoke(one.invoke({}))["log"]}))
    assert flow.invoke({})["log"] == ["a1", "a2", "b1", "b2"]
