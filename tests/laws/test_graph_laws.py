"""Laws of graphs: a run with interrupts and resumes equals one without, and no reducer depends on who is done first."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from graph.graphs import State
from hypothesis import HealthCheck, given, settings, strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from laws.examine import examine

from ace import ReActGenerator, graph, tool
from ace.agent import FolderRunStore
from ace.graph import JsonCodec, JsonlCheckpointer, ReActAgentNode, WorkflowInterrupted, WorkflowState
from ace.testing import FunctionLM, check_graph_events, decision
from ace.testing.engine import render_reply

# a node: what it writes, whether it asks a question, where it leads (side by side, or by the counter)
Plan = list[tuple[dict[str, Any], bool, tuple[int, ...], bool]]

writes = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-3, 3),
        "log": st.lists(st.text("abc", max_size=2), max_size=2),
        "facts": st.dictionaries(st.text("xyz", min_size=1, max_size=1), st.integers(0, 9), max_size=2),
        "mood": st.text("gb", max_size=2),
    },
)


@st.composite
def plans(draw: Any) -> Plan:
    """Small graphs without cycles: each node leads to later ones only."""
    size = draw(st.integers(1, 6))
    plan: Plan = []
    for i in range(size):
        later = tuple(sorted(draw(st.sets(st.integers(i + 1, size), max_size=3)))) or (size,)
        plan.append((draw(writes), draw(st.booleans()), later, draw(st.booleans())))
    return plan


def built(plan: Plan, delays: random.Random | None = None) -> StateGraph:
    """The graph of a plan; with `delays`, nodes that run side by side are done in another order each time."""
    builder = StateGraph(State)
    names = [*(f"n{i}" for i in range(len(plan))), END]
    for i, (written, asks, later, routes) in enumerate(plan):

        def node(state: State, i=i, written=written, asks=asks) -> dict[str, Any]:
            if delays is not None:
                time.sleep(delays.random() * 0.004)
            answers = [f"{i}: {interrupt({'node': i})}"] if asks else []
            return {**written, "log": [f"n{i}", *answers, *written.get("log", [])]}

        builder.add_node(names[i], node)
        targets = [names[j] for j in later]
        if routes and len(targets) > 1:
            builder.add_conditional_edges(names[i], lambda state, t=targets: t[state.get("n", 0) % len(t)], targets)
        else:
            for target in targets:
                builder.add_edge(names[i], target)
    return builder.add_edge(START, names[0])


def answer(question: Any) -> str:
    return f"answer to {question['node']}"


def driven(workflow: Any, first: Any, thread_id: str) -> tuple[dict[str, Any], int]:
    """Run to the end, with an answer for each question; how often it stopped."""
    stops, given_now = 0, first
    while True:
        try:
            state = workflow.invoke(given_now, thread_id=thread_id) if stops == 0 else given_now()
            return state, stops
        except WorkflowInterrupted as pause:
            stops += 1
            assert stops < 200
            answers = {one.id: answer(one.value) for one in pause.interrupts} or None

            def given_now(answers=answers):
                return workflow.resume(thread_id, answers)


ASKING = {
    "quiet": 0,
    "looks": 0,
    "asks": 1,
    "asks_twice": 2,
    "looks_and_asks": 1,
    "looks_and_asks_twice": 2,
    "sends": 0,
    "sends_and_asks": 1,
}
"""Tools to how often each asks before it is done."""
turns = st.lists(st.lists(st.sampled_from(sorted(ASKING)), min_size=1, max_size=3), min_size=1, max_size=4)


def asking(name: str, made: list[Any]) -> Any:
    """A tool that asks, and notes what it was answered once it is done."""

    def work(key: str) -> str:
        """Work."""
        heard = [interrupt({"question": f"{name}/{key}/{n}"}) for n in range(ASKING[name])]
        made.append((name, key, heard))
        return f"{key}: {heard}"

    work.__name__ = name
    return tool(read_only=name.startswith("looks"), requires_approval=name.startswith("sends"))(work)


def each_tool_hears_the_answers_to_its_own_questions(turns: list[list[str]], seed: int, asynchronous: bool) -> None:
    """Also where a person is asked in between, calls are made side by side, and the process dies while a model is asked."""
    draw, made, asked = random.Random(seed), list[Any](), 0
    calls = [(name, f"k{turn}{place}") for turn, names in enumerate(turns) for place, name in enumerate(names)]
    replies = [
        render_reply(
            next_thought="on",
            tool_calls={
                "tool_calls": [{"name": name, "args": {"key": f"k{turn}{place}"}} for place, name in enumerate(names)]
            },
        )
        for turn, names in enumerate(turns)
    ]
    replies.append(decision("submit", answer="Done."))

    def reply(prompt: Any) -> str:
        nonlocal asked
        if draw.random() < 0.2:
            raise KeyboardInterrupt
        asked += 1
        return replies[asked - 1]

    def called(*given: Any) -> Any:
        """By a new process, if the draw says so."""
        nonlocal flow
        flow = opened() if draw.random() < 0.5 else flow
        if asynchronous:
            return asyncio.run(
                flow.aresume("t", *given) if begun else flow.ainvoke({"user_input": "Go"}, thread_id="t")
            )
        return flow.resume("t", *given) if begun else flow.invoke({"user_input": "Go"}, thread_id="t")

    with tempfile.TemporaryDirectory() as folder:

        def opened() -> Any:
            store = FolderRunStore(Path(folder) / "runs")
            agent = ReActGenerator(
                tools=[asking(name, made) for name in ASKING],
                lm=FunctionLM("test/asks", reply),
                run_store=store,
                max_iters=20,
            )
            builder = StateGraph(WorkflowState).add_node("agent", ReActAgentNode(agent)).add_edge(START, "agent")
            return graph.compile(builder, checkpointer=JsonlCheckpointer(Path(folder) / "threads"))

        flow, begun, answers = opened(), False, tuple[Any, ...]()
        for _ in range(200):
            try:
                state = called(*answers)
                break
            except KeyboardInterrupt:
                begun, answers = True, ()
            except WorkflowInterrupted as stop:
                (one,) = stop.interrupts
                begun, answers = True, (f"to {one.value['question']}" if "question" in one.value else "approve",)
        else:
            raise AssertionError("it asks again and again")
    assert state["final_output"] == "Done."
    assert sorted((name, key) for name, key, _ in made) == sorted(calls)
    for name, key, heard in made:
        assert heard == [f"to {name}/{key}/{n}" for n in range(ASKING[name])]


START_STATE: dict[str, Any] = {"n": 0, "log": [], "facts": {}, "mood": ""}
LAWS = settings(deadline=None, suppress_health_check=list(HealthCheck))


def a_run_with_stops_equals_one_without(plan: Plan, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        saver = JsonlCheckpointer(Path(folder) / "whole")
        whole, _ = driven(graph.compile(built(plan), checkpointer=saver, max_steps=50), START_STATE, "t")
        draw = random.Random(seed)
        names = [f"n{i}" for i in range(len(plan))]
        before, after = ([name for name in names if draw.random() < 0.4] for _ in range(2))

        class Reopened:
            """Each call is made by a new process: nothing is left but the file."""

            def _workflow(self) -> Any:
                saver = JsonlCheckpointer(Path(folder) / "parts")
                options = {"interrupt_before": before, "interrupt_after": after, "max_steps": 50}
                return graph.compile(built(plan), checkpointer=saver, **options)

            def invoke(self, *args: Any, **options: Any) -> Any:
                return self._workflow().invoke(*args, **options)

            def resume(self, *args: Any) -> Any:
                return self._workflow().resume(*args)

        assert driven(Reopened(), START_STATE, "t")[0] == whole


def reducers_do_not_depend_on_who_is_done_first(plan: Plan) -> None:
    quiet = [(written, False, later, routes) for written, _, later, routes in plan]
    whole = graph.compile(built(quiet), max_steps=50).invoke(START_STATE)
    for seed in range(3):
        assert graph.compile(built(quiet, random.Random(seed)), max_steps=50).invoke(START_STATE) == whole


def streams_obey_the_grammar(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workflow = graph.compile(built(plan), checkpointer=JsonlCheckpointer(folder), max_steps=4)
        events: list[Any] = []
        with workflow.stream(START_STATE, thread_id="t") as stream:
            try:
                for event in stream:
                    events.append(event)
            except graph.GraphError:
                assert events[-1].kind in ("graph_error", "graph_paused")
        check_graph_events(events)


@settings(LAWS, max_examples=25)
@given(plans(), st.integers(0, 2**32))
def test_a_run_with_stops_equals_one_without(plan, seed):
    a_run_with_stops_equals_one_without(plan, seed)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_tool_hears_the_answers_to_its_own_questions(asynchronous):
    drawn = (turns, st.integers(0, 2**32), st.just(asynchronous))
    examine(each_tool_hears_the_answers_to_its_own_questions, drawn, 10, derandomize=True)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_tool_hears_the_answers_to_its_own_questions_at_full_count(asynchronous):
    examine(
        each_tool_hears_the_answers_to_its_own_questions, (turns, st.integers(0, 2**32), st.just(asynchronous)), 200
    )


@settings(LAWS, max_examples=10)
@given(plans())
def test_reducers_do_not_depend_on_who_is_done_first(plan):
    reducers_do_not_depend_on_who_is_done_first(plan)


@settings(LAWS, max_examples=20)
@given(plans())
def test_streams_obey_the_grammar(plan):
    streams_obey_the_grammar(plan)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.integers() | st.sampled_from(["$tuple", "$x"]), inner, max_size=3)
        | st.frozensets(st.text(max_size=3) | st.integers(), max_size=3)
    ),
    max_leaves=12,
)


@settings(LAWS, max_examples=300)
@given(values)
def test_what_is_written_is_read_back(value):
    codec = JsonCodec()
    back = codec.loads_typed(codec.dumps_typed(value))
    assert back == value
    assert codec.dumps_typed(back) == codec.dumps_typed(value)  # 1 is not True, and (1,) is not [1]


@pytest.mark.full
@pytest.mark.timeout(1_200)
@settings(LAWS, max_examples=500)
@given(plans(), st.integers(0, 2**32))
def test_five_hundred_runs_with_stops_equal_those_without(plan, seed):
    a_run_with_stops_equals_one_without(plan, seed)


@pytest.mark.full
@pytest.mark.timeout(1_200)
@settings(LAWS, max_examples=200)
@given(plans())
def test_two_hundred_times_no_reducer_depends_on_who_is_done_first(plan):
    reducers_do_not_depend_on_who_is_done_first(plan)


@pytest.mark.full
@pytest.mark.timeout(1_200)
@settings(LAWS, max_examples=400)
@given(plans())
def test_four_hundred_streams_obey_the_grammar(plan):
    streams_obey_the_grammar(plan)
