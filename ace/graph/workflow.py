"""`Workflow`: a compiled graph that is run, streamed, resumed and looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypedDict, Unpack, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot

from ace.agent.streaming import AsyncRunStream, RunStream
from ace.core import CancellationToken, ObserverThread
from ace.graph.errors import CheckpointError, GraphError
from ace.graph.events import AnyObserver, GraphEvent
from ace.graph.jsonl import TURN_KEY
from ace.graph.session import CALLS, KEY, RUN_KEY, STEPS_KEY, Session, session_of
from ace.graph.state import read

FROM_OUTSIDE = "00000000-0000-0000-0000-000000000000"
"""LangGraph's task id of writes that come from no node."""
MODES = ["values", "debug"]
"""LangGraph's stream modes: the state after each step, and which nodes run next."""


Listener = Callable[[GraphEvent], None]


class _CallOptions(TypedDict, total=False):
    cancellation: CancellationToken | None
    observers: Iterable[AnyObserver]
    context: Any


class ThreadOptions(_CallOptions, total=False):
    """Where a graph keeps its state, what stops the call, and who hears of it."""

    thread_id: str | None


class ResumeOptions(_CallOptions, total=False):
    """The same for a thread that is named already, and what is changed in its state first."""

    update: Mapping[str, Any] | None


@dataclass(eq=False, repr=False)
class Workflow:
    """A graph that `compile(graph)` made.

    Every step is saved before the next one begins. A call ends with the state, or raises a `GraphError`;
    `WorkflowInterrupted` means that it waits for a person or was cancelled, and `resume` goes on from there.

    Attributes:
        graph: LangGraph's compiled graph, for drawing and for what is not here.
        checkpointer: The saver that it was given.
    """

    graph: CompiledStateGraph[Any, Any, Any, Any]
    _: KW_ONLY
    max_steps: int
    cycle_window: int
    observers: Sequence[AnyObserver]
    checkpointer: BaseCheckpointSaver[Any] | None

    def __post_init__(self) -> None:
        self._observer_threads = [ObserverThread(observer) for observer in self.observers]
        self._nodes = _nodes_in(self.graph)
        self._untyped: Any = self.graph  # its own types are incomplete
        self._saver: BaseCheckpointSaver[Any] | None = self._untyped.checkpointer

    # -- running ------------------------------------------------------------------------------------------------------

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **call: Unpack[ThreadOptions],
    ) -> dict[str, Any]:
        """Run from an input to the end.

        Args:
            input: The state's fields; None goes on with a thread that was cut off; a `Command` as in LangGraph.
            config: LangGraph's, where more than the thread is needed.
            **call: `thread_id` is where the state is kept, and is needed with a checkpointer; `cancellation` stops the graph
                after the step under way, and an agent inside a node at once; `observers` see this call, besides those of
                `compile`; `context` is what nodes find in LangGraph's `Runtime` (``StateGraph(context_schema=...)``).

        Returns:
            The state after the last step.

        Raises:
            WorkflowInterrupted: The graph waits for a person, or was cancelled.
            NodeFailed: A node raised.
            MaxStepsExceeded: It is not done after `max_steps`.
            CycleDetected: A node would run again with the same state.
            CheckpointError: Its state cannot be saved or read, or no thread was named.
        """
        return self._invoke(input, config, None, call)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **call: Unpack[ThreadOptions],
    ) -> dict[str, Any]:
        """Run as `invoke` does, for async callers; async nodes run on the event loop."""
        return await self._ainvoke(input, config, None, call)

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **call: Unpack[ThreadOptions],
    ) -> RunStream[GraphEvent, dict[str, Any]]:
        """Run and give the events as they happen, those of agents inside nodes included; afterwards ``stream.output``.

        The stream ends with exactly one terminal event; after it, reading on raises what `invoke` would raise. Leaving the
        block early cancels the run.
        """
        token = call["cancellation"] = call.get("cancellation") or CancellationToken()
        return RunStream(lambda put: self._invoke(input, config, put, call), token)

    def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **call: Unpack[ThreadOptions],
    ) -> AsyncRunStream[GraphEvent, dict[str, Any]]:
        """Run as `stream` does, for async callers."""
        token = call["cancellation"] = call.get("cancellation") or CancellationToken()
        return AsyncRunStream(lambda put: self._ainvoke(input, config, put, call), token)

    def resume(self, thread_id: str, answer: Any = None, **call: Unpack[ResumeOptions]) -> dict[str, Any]:
        """Go on with a thread that waits, or was cut off with its process.

        Args:
            thread_id: The thread.
            answer: What a node asked for with `interrupt`; None for a stop before or after a node, and to ask again. When
                several nodes ask, a dict of answers by the ids of their `Interrupt`s.
            **call: `update` holds fields to change first, by their reducers; `cancellation`, `observers` and `context` are
                those of `invoke`.

        Raises:
            GraphError: There is nothing to go on with, or another update waits already.
        """
        update = call.pop("update", None)
        if (update or isinstance(answer, dict)) and (saver := self._saver) is not None:
            config = _config(None, thread_id)
            snapshot = self.graph.get_state(config)
            update, answer = _unsent(update, snapshot, saver.get_tuple(config)), _addressed(answer, snapshot)
        return self.invoke(_resuming(answer, update), thread_id=thread_id, **call)

    async def aresume(self, thread_id: str, answer: Any = None, **call: Unpack[ResumeOptions]) -> dict[str, Any]:
        """Go on as `resume` does, for async callers."""
        update = call.pop("update", None)
        if (update or isinstance(answer, dict)) and (saver := self._saver) is not None:
            config = _config(None, thread_id)
            snapshot = await self.graph.aget_state(config)
            update, answer = _unsent(update, snapshot, await saver.aget_tuple(config)), _addressed(answer, snapshot)
        return await self.ainvoke(_resuming(answer, update), thread_id=thread_id, **call)

    def is_done(self, thread_id: str) -> bool:
        """Check whether a thread has come to its end; False for one that was never begun.

        LangGraph's ``get_state(config).next`` is also empty while the writes of a step wait to be applied.
        """
        snapshot = self.graph.get_state(_config(None, thread_id))
        saved = self.checkpointer.get_tuple(snapshot.config) if self.checkpointer is not None else None
        return saved is not None and not snapshot.next and not saved.pending_writes

    # -- internals ----------------------------------------------------------------------------------------------------

    def _invoke(
        self,
        input: Any,
        config: RunnableConfig | None,
        listener: Listener | None,
        call: ThreadOptions,
    ) -> dict[str, Any]:
        session, given = self._session(config, listener, call)
        try:
            with session.errors_mapped("graph_continued" if _resumes(input) else "graph_started"):
                if _resumes(input):
                    self._load_steps(session, given)
                for mode, payload in self._untyped.stream(input, given, control=session.control, **self._how(call)):
                    session.take(mode, payload)
                return self._output(session.result())
        finally:
            ObserverThread.flush_all(session.observer_threads)

    async def _ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None,
        listener: Listener | None,
        call: ThreadOptions,
    ) -> dict[str, Any]:
        session, given = self._session(config, listener, call)
        try:
            with session.errors_mapped("graph_continued" if _resumes(input) else "graph_started"):
                if _resumes(input):
                    await self._aload_steps(session, given)
                async for mode, payload in self._untyped.astream(
                    input, given, control=session.control, **self._how(call)
                ):
                    session.take(mode, payload)
                return self._output(session.result())
        finally:
            await ObserverThread.aflush_all(session.observer_threads)

    def _output(self, state: Any) -> Any:
        """Return what the graph's `output_schema` has of the state."""
        names: Any = self.graph.output_channels
        return state if isinstance(names, str) else {name: state[name] for name in names if name in state}

    def _how(self, call: ThreadOptions) -> dict[str, Any]:
        how: dict[str, Any] = {"stream_mode": MODES, "context": call.get("context")}
        return how | ({"durability": "sync"} if self.checkpointer is not None else {})

    def _session(
        self, config: RunnableConfig | None, listener: Listener | None, call: ThreadOptions
    ) -> tuple[Session, RunnableConfig]:
        if unknown := call.keys() - ThreadOptions.__annotations__.keys():
            raise TypeError(f"unknown options {sorted(unknown)}, expected {sorted(ThreadOptions.__annotations__)}")
        given = _config(config, call.get("thread_id"))
        named = given.get("configurable", {}).get("thread_id")
        if self.checkpointer is not None and not named:
            raise CheckpointError("this graph saves its state: name the thread, invoke(..., thread_id='...')")
        own, around = given.get("recursion_limit", self.max_steps), session_of(given)
        inherited = around is not None and own == around.max_steps + 1  # it says nothing of this graph
        limit = self.max_steps if inherited else min(self.max_steps, own)
        session = Session(
            thread_id="" if named is None or self.checkpointer is None else str(named),
            max_steps=limit,
            cycle_window=self.cycle_window,
            observer_threads=[
                *self._observer_threads,
                *(ObserverThread(observer) for observer in call.get("observers", ())),
            ],
            nodes=self._nodes,
            listener=listener,
            cancellation=call.get("cancellation") or CancellationToken(),
        )
        given["configurable"] = {**given.get("configurable", {}), KEY: session}
        given["callbacks"] = _added(given.get("callbacks"), session)
        given["metadata"] = {**given.get("metadata", {}), RUN_KEY: session.run_id}
        given["recursion_limit"] = limit + 1  # max_steps is checked first; LangGraph counts the input, too
        return session, given

    def _load_steps(self, session: Session, config: RunnableConfig) -> None:
        """Read how many steps a run took before this resume; checkpoints saved outside of a run do not hold it."""
        if (saver := self._saver) is not None:
            last = saver.get_tuple(config)
            while last is not None and (before := _earlier(last)) is not None:
                last = saver.get_tuple(before)
            _go_on(session, config, last)

    async def _aload_steps(self, session: Session, config: RunnableConfig) -> None:
        if (saver := self._saver) is not None:
            last = await saver.aget_tuple(config)
            while last is not None and (before := _earlier(last)) is not None:
                last = await saver.aget_tuple(before)
            _go_on(session, config, last)


def _nodes_in(graph: Any, path: str = "") -> dict[str, list[str]]:
    """Name the nodes of a graph, and of graphs that are nodes of it, by their paths."""
    found = {path: [*graph.builder.nodes]}
    for name, node in graph.builder.nodes.items():
        inner: Any = node.runnable
        if isinstance(inner, CompiledStateGraph):
            found |= _nodes_in(inner, f"{path}/{name}".lstrip("/"))
    return found


def _earlier(one: CheckpointTuple) -> RunnableConfig | None:
    return None if STEPS_KEY in one.metadata else one.parent_config


def _go_on(session: Session, config: RunnableConfig, last: CheckpointTuple | None) -> None:
    """Count the steps of before: for the guards, and for what a node reads as LangGraph's `RemainingSteps`."""
    known: Mapping[str, Any] = last.metadata if last is not None else {}
    session.steps_before, session.turn = int(known.get(STEPS_KEY, 0)), known.get(TURN_KEY, session.turn)
    config["recursion_limit"] = max(1, session.max_steps - session.steps_before - 1)


def _unsent(update: Mapping[str, Any] | None, snapshot: StateSnapshot, saved: CheckpointTuple | None) -> Any:
    """Return an update that has not been saved yet: LangGraph would keep the same one twice.

    Raises:
        GraphError: The thread is done, or another update waits already.
    """
    if not update:
        return None
    if saved is not None and not snapshot.next:
        raise GraphError("the thread is done, and an update would have no effect; give it a new input")
    waits = [] if saved is None else (saved.pending_writes or [])
    given = {name: value for task, name, value in waits if task == FROM_OUTSIDE and not name.startswith("__")}
    if not given:
        return update
    if given == dict(update):
        return None
    raise GraphError(f"an update of {sorted(given)} waits to be applied already; resume without one")


def _addressed(answer: Any, snapshot: StateSnapshot) -> Any:
    """Return decisions by ids of calls, which LangGraph takes for answers by ids of questions where they have 32 hex
    digits."""
    if not isinstance(answer, dict) or not answer:
        return cast(Any, answer)
    given = cast("dict[str, Any]", answer)
    asked = (read(question.value, "calls") for question in snapshot.interrupts)
    calls = [call for found in asked if isinstance(found, list) for call in cast("list[Any]", found)]
    return (
        {CALLS: given} if given.keys() == {read(call, "tool_call_id") or read(call, "id") for call in calls} else given
    )


def _resuming(answer: Any, update: Mapping[str, Any] | None) -> Any:
    if answer == {} and isinstance(answer, dict):
        raise GraphError("an empty dict is no answer: LangGraph reads a dict as answers by the ids of questions")
    if answer is None and not update:
        return None
    return Command(resume=answer, update=dict(update or {}))


def _resumes(input: Any) -> bool:
    return input is None or isinstance(input, Command)


def _config(config: RunnableConfig | None, thread_id: str | None) -> RunnableConfig:
    given: RunnableConfig = {**config} if config else {}
    if thread_id is not None:
        given["configurable"] = {"checkpoint_ns": "", **given.get("configurable", {}), "thread_id": thread_id}
    return given


def _added(callbacks: Any, session: Session) -> Any:
    if callbacks is None:
        return [session]
    if isinstance(callbacks, list):
        return [*callbacks, session]
    copied = callbacks.copy()
    copied.add_handler(session, inherit=True)
    return copied
