"""LangGraph's own savers, with strict serialisation, serve our graphs as well."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict

import pytest
from databases import fresh_database
from graph.graphs import chain, thread
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import interrupt

from ace import graph
from ace.graph import JsonCodec, WorkflowInterrupted, append
from ace.tasks import ReasoningStep


class Steps(TypedDict, total=False):
    steps: Annotated[list[ReasoningStep], append]
    log: Annotated[list[str], append]


STEP = ReasoningStep(
    iteration=1, tool_call_id="c", tool_name="t", outcome="success", observation="o", tool_args={"a": [1]}
)

SERIALISERS = {"ours": JsonCodec, "strict": lambda: JsonPlusSerializer(allowed_msgpack_modules=None)}


def workflow(saver: Any):
    def check(state: Steps) -> dict[str, Any]:
        assert all(isinstance(step, ReasoningStep) for step in state["steps"])
        return {"log": [interrupt("go on?")]}

    builder = chain(
        "a", "b", "c", schema=Steps, a=lambda s: {"steps": [STEP], "log": ["a"]}, b=lambda s: {"log": ["b"]}, c=check
    )
    return graph.compile(builder, checkpointer=saver)


@contextmanager
def opened(kind: str, serde: Any, tmp_path, request):
    if kind == "memory":
        yield lambda: InMemorySaver(serde=serde())
    elif kind == "sqlite":
        connections = []

        def saver():
            connections.append(sqlite3.connect(tmp_path / "t.db", check_same_thread=False))
            return SqliteSaver(connections[-1], serde=serde())

        try:
            yield saver
        finally:
            for connection in connections:
                connection.close()
    else:
        import psycopg
        from psycopg.rows import dict_row

        url = fresh_database(request.getfixturevalue("postgres")).replace("+psycopg", "")
        connections = []

        def saver():
            connections.append(psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row))
            made = PostgresSaver(connections[-1], serde=serde())
            made.setup()
            return made

        try:
            yield saver
        finally:
            for connection in connections:
                connection.close()


@pytest.mark.parametrize("serialiser", SERIALISERS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_graph_goes_on_with_another_connection(tmp_path, request, kind, serialiser):
    with opened(kind, SERIALISERS[serialiser], tmp_path, request) as saver:
        with pytest.raises(WorkflowInterrupted):
            workflow(saver()).invoke({}, thread_id="t")
        later = workflow(saver())
        assert later.graph.get_state(thread("t")).interrupts[0].value == "go on?"
        state = later.resume("t", "yes")
        assert state["log"] == ["a", "b", "yes"]
        assert state["steps"] == [STEP]
        assert later.is_done("t")


def test_the_async_sqlite_saver_serves_async_callers(tmp_path):
    async def run():
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:
            saver.serde = JsonCodec()
            with pytest.raises(WorkflowInterrupted):
                await workflow(saver).ainvoke({}, thread_id="t")
            return await workflow(saver).aresume("t", "yes")

    assert asyncio.run(run())["log"] == ["a", "b", "yes"]


def test_the_memory_saver_serves(tmp_path, request):
    with opened("memory", JsonCodec, tmp_path, request) as saver:
        one = workflow(saver())
        with pytest.raises(WorkflowInterrupted):
            one.invoke({}, thread_id="t")
        assert one.resume("t", "yes")["log"] == ["a", "b", "yes"]
