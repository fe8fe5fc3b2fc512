"""`compile`: LangGraph's builder, checked, with guards, events and clear errors."""

from __future__ import annotations

import copy
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphBubbleUp
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from ace.graph.codec import JsonCodec, classes_in, fields_of, first_unsaved, name_of
from ace.graph.errors import CheckpointError, GraphError, InvalidEdge, MissingNode
from ace.graph.events import AnyObserver
from ace.graph.saving import watched
from ace.graph.session import session_of
from ace.graph.workflow import Workflow
from ace.react.spans import span, traced

DEFAULT_MAX_STEPS = 100


def compile(
    builder: StateGraph[Any, Any, Any, Any],
    *,
    max_steps: int = DEFAULT_MAX_STEPS,
    cycle_window: int = 0,
    observers: Iterable[AnyObserver] = (),
    interrupt_before: Sequence[str] = (),
    interrupt_after: Sequence[str] = (),
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    classes: Iterable[type] = (),
    **options: Any,
) -> Workflow:
    """Make a graph that can be run.

    Args:
        builder: LangGraph's own `StateGraph`; it is not changed.
        max_steps: Steps that one run may take, those before a resume included.
        cycle_window: A node that runs again within this many steps, with the same state as before, is a `CycleDetected`;
            0 looks for none, for graphs that wait for something outside.
        observers: `GraphObserver`s, or functions of a `GraphEvent`; each has a thread of its own.
        interrupt_before: Nodes before which the graph stops; ``"*"`` for all.
        interrupt_after: Nodes after which it stops.
        checkpointer: Where the state is saved after each step: `JsonlCheckpointer`, or any of LangGraph's savers.
        classes: Models, dataclasses and enums that the state may hold, besides those that its annotations name.
        **options: As for LangGraph's `StateGraph.compile`: `store`, `cache`, `name`, `debug`.

    Raises:
        MissingNode: An edge, a map or an interrupt names a node that does not exist, or no edge leads into the graph.
        GraphError: A node has an edge beside a conditional one.
        CheckpointError: A field of the state may hold what cannot be saved.
        ValueError: A number is out of range.

    Examples:
        >>> from typing import TypedDict
        >>> from langgraph.graph import START, StateGraph
        >>> class State(TypedDict):
        ...     n: int
        >>> builder = StateGraph(State).add_node("add", lambda state: {"n": state["n"] + 1}).add_edge(START, "add")
        >>> compile(builder).invoke({"n": 1})
        {'n': 2}
    """
    if max_steps < 1 or cycle_window < 0:
        raise ValueError(
            f"max_steps must be at least 1 and cycle_window 0 or more, got {max_steps!r} and {cycle_window!r}"
        )
    _check(builder, interrupt_before, interrupt_after)
    nodes = (node.input_schema for node in builder.nodes.values())
    schemas = [builder.state_schema, builder.input_schema, builder.output_schema, *nodes]
    saver = watched(_saver(checkpointer), classes_in(*schemas) | set(classes)) if checkpointer is not None else None
    if saver is not None and isinstance(saver.serde, JsonCodec):
        _check_saved({name: of for schema in schemas for name, of in fields_of(schema).items()}, classes)
    graph = _guarded(builder).compile(  # pyright: ignore[reportUnknownMemberType]
        checkpointer=saver,
        interrupt_before="*" if "*" in interrupt_before else list(interrupt_before),
        interrupt_after="*" if "*" in interrupt_after else list(interrupt_after),
        **options,
    )
    for name in builder.nodes:
        node: Any = graph.nodes[name]
        node.bound = _Traced(name, node.bound)
    return Workflow(
        graph, max_steps=max_steps, cycle_window=cycle_window, observers=tuple(observers), checkpointer=checkpointer
    )


def _check_saved(fields: Mapping[str, Any], classes: Iterable[type]) -> None:
    """Refuse what could not be read back, before a run has spent anything."""
    for name, annotation in [*fields.items(), *(("classes", one) for one in classes)]:
        if (unsaved := first_unsaved(annotation)) is not None:
            where = f"the state's field {name!r}" if name in fields else "what classes=[...] names"
            raise CheckpointError(
                f"{where} may hold a {name_of(unsaved)}, which cannot be saved; make it a pydantic model, a dataclass, a "
                "named tuple or an enum, or keep what it stands for (an id, a path) and make it in the node"
            )


def _saver(given: Any) -> BaseCheckpointSaver[Any]:
    if not isinstance(given, BaseCheckpointSaver):
        raise CheckpointError(
            f"checkpointer is {given!r:.200}, expected a saver such as JsonlCheckpointer(FOLDER); LangGraph's "
            "from_conn_string gives a context manager: use `with ... as saver`"
        )
    return cast("BaseCheckpointSaver[Any]", given)


def _check(builder: StateGraph[Any, Any, Any, Any], *interrupts: Sequence[str]) -> None:
    """Name a missing node before LangGraph does, with a plain `ValueError`; refuse an edge beside a conditional one."""
    nodes = set(builder.nodes)

    def require(name: str, where: str, *also: str) -> None:
        if name not in nodes and name not in also:
            raise MissingNode(name, where, nodes)

    for name in (name for given in interrupts for name in given):
        require(name, "an interrupt", "*")
    edges = [((start,), end) for start, end in builder.edges] + [(starts, end) for starts, end in builder.waiting_edges]
    for starts, end in edges:
        for start in starts:
            require(start, f"the edge to {end!r}", START)
            if start in builder.branches:  # it looks like a default, and LangGraph takes both
                raise GraphError(
                    f"node {start!r} has an edge to {end!r} and a conditional edge, and both would be taken; return {end!r} "
                    "from the condition where it is meant, and leave out the edge"
                )
        require(end, f"the edge from {', '.join(map(repr, starts))}", END)
    for source, branches in builder.branches.items():
        require(source, "a conditional edge", START)
        for target in (target for branch in branches.values() for target in (branch.ends or {}).values()):
            require(target, f"the conditional edge from {source!r}", END)
    if not any(START in starts for starts, _ in edges) and START not in builder.branches:
        raise MissingNode(START, "no edge leads into the graph; add_edge(START, NODE)", nodes)


def _guarded(builder: StateGraph[Any, Any, Any, Any]) -> StateGraph[Any, Any, Any, Any]:
    """Copy a builder so that its routers are checked: LangGraph silently drops a step to a node that does not exist."""
    copied = copy.copy(builder)
    copied.nodes = {name: copy.copy(node) for name, node in builder.nodes.items()}  # defaults are written into them
    copied.branches = type(builder.branches)(dict)
    for source, branches in builder.branches.items():
        for name, branch in branches.items():
            ends = (*builder.nodes, END) if branch.ends is None else tuple(branch.ends)
            router = _Router(source, branch.path, ends, builder.nodes)
            copied.branches[source][name] = branch._replace(path=router)
    return copied


@dataclass(eq=False, repr=False)
class _Traced(Runnable[Any, Any]):
    """A node inside a span of OpenTelemetry, where the host has set that up."""

    node: str
    inner: Runnable[Any, Any]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run it."""
        with self._span(config) if traced() else nullcontext():
            return self.inner.invoke(input, _with_all_steps(config), **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run it."""
        with self._span(config) if traced() else nullcontext():
            return await self.inner.ainvoke(input, _with_all_steps(config), **kwargs)

    @contextmanager
    def _span(self, config: RunnableConfig | None) -> Generator[None]:
        """Open the node's span; a node that waits has not failed."""
        step, waits = (config or {}).get("metadata", {}).get("langgraph_step", 0), None
        with span("execute_node", self.node, workflow__node=self.node, workflow__step=step):
            try:
                yield
            except GraphBubbleUp as error:
                waits = error
        if waits is not None:
            raise waits


def _with_all_steps(config: RunnableConfig | None) -> RunnableConfig | None:
    """Return the config with the limit of a whole run, for graphs inside a node: after a resume the outer one has fewer
    left."""
    session = session_of(config) if config is not None else None
    return config if config is None or session is None else {**config, "recursion_limit": session.max_steps + 1}


@dataclass(eq=False, repr=False)
class _Router(Runnable[Any, Any]):
    """A router whose choices are checked."""

    source: str
    inner: Runnable[Any, Any]
    ends: Sequence[Any]
    nodes: Collection[str]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Choose."""
        return self._checked(self.inner.invoke(input, config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Choose."""
        return self._checked(await self.inner.ainvoke(input, config, **kwargs))

    def _checked(self, chosen: Any) -> Any:
        targets = cast("Sequence[Any]", chosen) if isinstance(chosen, (list, tuple)) else (chosen,)
        for target in targets:
            if isinstance(target, Send):
                if target.node not in self.nodes:
                    raise InvalidEdge(self.source, target.node, self.nodes)
            elif target not in self.ends:
                raise InvalidEdge(self.source, target, self.ends)
        return cast(Any, chosen)
