"""One call of a graph: its guards, its events, and what its nodes may know about it."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.errors import (
    EmptyInputError,
    GraphBubbleUp,
    GraphDrained,
    GraphRecursionError,
    InvalidUpdateError,
    NodeTimeoutError,
    ParentCommand,
    is_invalid_resume,
)
from langgraph.graph import END
from langgraph.runtime import RunControl
from langgraph.types import Command, Send
from pydantic import BaseModel

from ace.core import CancellationToken, ObserverThread, describe_error
from ace.core.durable import digest
from ace.graph.errors import (
    CheckpointError,
    CycleDetected,
    GraphError,
    InvalidEdge,
    InvalidUpdate,
    MaxStepsExceeded,
    NodeFailed,
    WorkflowInterrupted,
)
from ace.graph.events import GraphEvent, GraphEventKind
from ace.graph.jsonl import TASK

KEY = "__ace_graph__"
"""The key of the session in ``config["configurable"]``; keys that begin with ``__`` are never saved."""
RUN_KEY = "__ace_run__"
"""The metadata key for the id of a call, on everything that the call runs."""
STEPS_KEY = "ace_steps"
"""The key in a checkpoint's metadata for the number of steps that its run had taken."""
INTERRUPT = "__interrupt__"
CALLS = "calls"
"""The key of decisions about calls in an answer that holds nothing else."""


class Stopped(GraphBubbleUp):
    """Raised by a node whose work was cancelled: it wrote nothing, is not retried, and runs again after a resume."""


@dataclass(eq=False, kw_only=True)
class Session(GraphCallbackHandler):
    """One call, from an input or a resume to the end or a pause.

    It is a handler of LangGraph's callbacks, which tell it what each node does, also in graphs inside nodes.
    """

    thread_id: str
    max_steps: int
    cycle_window: int
    nodes: Mapping[str, Collection[str]]
    """Path of a graph, empty for the outermost, to the names of its nodes."""
    observer_threads: Sequence[ObserverThread[GraphEvent]]
    listener: Callable[[GraphEvent], None] | None
    cancellation: CancellationToken

    run_inline = True
    raise_error = True
    """So that a step to a node that does not exist fails its node before anything is saved."""

    def __post_init__(self) -> None:
        self.control = RunControl()
        self.run_id = uuid.uuid4().hex
        self.state: dict[str, Any] = {}
        self.turn = self.run_id
        """What the present input began: the id of that call, also in those that resume it."""
        self.steps_before = 0
        """Steps that this run of the graph took before it was resumed."""
        self._lock = threading.Lock()
        self._seq = 0
        self._over = False
        self._first_step: int | None = None
        self._step = 0
        self._ran: list[str] = []
        self._visits: deque[tuple[int, str, str]] = deque()
        self._running: dict[Any, tuple[str, str, int]] = {}
        self._failed: list[tuple[BaseException, str]] = []
        self._paused: list[str] = []
        self._next: list[str] = []
        self._interrupt: GraphInterruptEvent | None = None
        self.save_error: CheckpointError | None = None
        """Why the state could not be saved."""

    # -- what nodes may read ------------------------------------------------------------------------------------------

    @property
    def remaining_steps(self) -> int:
        """Steps that the graph may still take, the one under way included."""
        return max(0, self.max_steps - self.taken_until(self._step) + 1)

    def taken_until(self, step: int) -> int:
        """Count the steps that this run of the graph has taken when a step of its thread is over."""
        return self.steps_before + (max(0, step - self._first_step + 1) if self._first_step is not None else 0)

    def nodes_of(self, step: int) -> list[str]:
        """Name the nodes that were begun in a step, when it is the present one."""
        return sorted({*self._ran}) if step == self._step else []

    # -- events -------------------------------------------------------------------------------------------------------

    def emit(self, kind: GraphEventKind, **fields: Any) -> None:
        """Send an event to all observers; nothing is sent after the last event."""
        with self._lock:
            if self._over or not (self.observer_threads or self.listener):
                return
            fields = {"step": self._step, "run_id": self.run_id, "thread_id": self.thread_id, **fields}
            event = GraphEvent(kind=kind, seq=self._seq, timestamp=time.time(), **fields)
            self._seq += 1
            for observing in self.observer_threads:
                observing.send(event)
            if self.listener is not None:
                self.listener(event)

    def end(self, kind: GraphEventKind, **data: Any) -> None:
        """Send the last event; events of nodes that still run in a thread are dropped from then on."""
        for key in list(self._running):
            self._leave(key, "node_error", {"error": "left behind when the graph stopped"})
        self.emit(kind, data=data)
        with self._lock:
            self._over = True

    def _leave(self, key: Any, kind: GraphEventKind, data: dict[str, Any] | None = None) -> None:
        """Report that a node completed, failed or paused."""
        found = self._running.pop(key, None)
        if found is None:
            return
        node, task_id, step = found
        if kind == "node_paused":
            self._paused.append(node)
        self.emit(kind, node=node, task_id=task_id, step=step, data=data or {})

    def _fail(self, key: Any, error: BaseException) -> None:
        """Report that a node raised."""
        if isinstance(error, GraphBubbleUp):
            return self._leave(key, "node_paused")
        if key in self._running:
            self._failed.append((error, self._running[key][0]))
        return self._leave(key, "node_error", {"error": type(error).__name__, "message": describe_error(error)})

    # -- guards -------------------------------------------------------------------------------------------------------

    def take(self, mode: str, payload: Any) -> None:
        """Handle one item of LangGraph's stream; called before the nodes that it announces run.

        Raises:
            MaxStepsExceeded: The next step would be one too many.
            CycleDetected: A node would run again with the state it had.
            CheckpointError: The last state could not be saved.
        """
        if self.save_error is not None:
            raise self.save_error
        if self.cancellation.cancelled:
            self.control.request_drain(self.cancellation.reason)
        if mode == "values":
            fields = cast("dict[str, Any]", payload) if isinstance(payload, dict) else None
            self.state = payload if fields is None else {k: v for k, v in fields.items() if k != INTERRUPT}
        elif payload["type"] == "checkpoint":
            self._next = list(payload["payload"]["next"])
        elif payload["type"] == "task":
            self._about_to_run(payload["step"], payload["payload"])

    def _about_to_run(self, step: int, task: Mapping[str, Any]) -> None:
        if self._first_step is None:
            self._first_step = step
        name = [] if task["name"].startswith(TASK) else [task["name"]]
        self._ran = (self._ran if step == self._step else []) + name
        self._step = step
        if (taken := self.taken_until(step)) > self.max_steps:
            raise MaxStepsExceeded(self.max_steps, taken - 1)
        if self.cycle_window:
            self._look_for_cycle(step, task["name"], digest([_plain(self.state), _plain(task["input"])]))

    def _look_for_cycle(self, step: int, node: str, seen: str) -> None:
        while self._visits and self._visits[0][0] < step - self.cycle_window:
            self._visits.popleft()
        again = any(s < step and (n, d) == (node, seen) for s, n, d in self._visits)
        self._visits.append((step, node, seen))
        if again:
            raise CycleDetected(node, [name for _, name, _ in self._visits])

    # -- the end ------------------------------------------------------------------------------------------------------

    def result(self) -> dict[str, Any]:
        """Return the state after the last step.

        Raises:
            WorkflowInterrupted: The graph waits.
        """
        if self.save_error is not None:
            raise self.save_error
        if (stop := self._interrupt) is None:
            return self.state
        when = {"interrupt_before": "before", "interrupt_after": "after"}.get(stop.status, "inside")
        where = [node for node in self._paused if "/" not in node] if when == "inside" else self._next
        nodes = self.nodes_of(self._step) if when == "after" else where
        asked = {one.id: one for one in stop.interrupts}  # a task inside a node tells of its own, and so does the node
        raise WorkflowInterrupted(self.state, where, tuple(asked.values()), cast(Any, when), self.thread_id, nodes)

    @contextmanager
    def errors_mapped(self, kind: GraphEventKind) -> Generator[None]:
        """Send the first event and the terminal event that fits; turn LangGraph's errors into `GraphError`s."""
        self.emit(kind)
        try:
            with self.cancellation.calling(lambda: self.control.request_drain(self.cancellation.reason)):
                yield
        except BaseException as error:
            mapped = self._mapped(error)
            if isinstance(mapped, WorkflowInterrupted):
                self.end("graph_paused", when=mapped.when, next=list(mapped.next))
            else:
                self.end("graph_error", error=type(mapped).__name__, message=describe_error(mapped))
            if mapped is error:
                raise
            raise mapped from error
        else:
            self.end("graph_completed")

    def _mapped(self, error: BaseException) -> BaseException:
        cancelled = isinstance(error, (GraphDrained, Stopped)) or (
            self.cancellation.cancelled and not isinstance(error, Exception)
        )
        if cancelled and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            return WorkflowInterrupted(self.state, self._next, when="cancelled", thread_id=self.thread_id)
        if not isinstance(error, Exception) or isinstance(error, WorkflowInterrupted):
            return error
        late = error.node if isinstance(error, NodeTimeoutError) else None
        node = late or next((name for failed, name in self._failed if failed is error), None)
        if node is not None and not (isinstance(error, InvalidEdge) and error.source == node):
            return NodeFailed(node, error)  # also an error of a graph that the node called
        if isinstance(error, GraphError):
            return error
        if isinstance(error, GraphRecursionError):
            return MaxStepsExceeded(self.max_steps, self.max_steps)
        if isinstance(error, InvalidUpdateError):
            return InvalidUpdate(str(error).split("\n")[0])
        if isinstance(error, EmptyInputError):
            return GraphError(f"the thread {self.thread_id!r} has nothing to go on with; give it an input first")
        if is_invalid_resume(error):
            return GraphError(f"cannot resume: {error}")
        if isinstance(error, (TypeError, ValueError)):
            return InvalidUpdate(f"an input or an update does not fit the state: {str(error)[:500]}")
        return GraphError(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")

    # -- what LangGraph tells -----------------------------------------------------------------------------------------

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        """Report that a node begins; other runnables have no step, and separate calls of graphs inside a node are
        ignored."""
        metadata = cast("dict[str, Any]", kwargs.get("metadata") or {})
        if metadata.get(RUN_KEY) != self.run_id:
            return
        if any(tag.startswith("graph:step:") for tag in cast("list[str]", kwargs.get("tags") or [])):
            node, task_id = place_of(str(metadata.get("langgraph_checkpoint_ns", "")))
            task_id, step = task_id or str(kwargs["run_id"]), metadata.get("langgraph_step", 0)
            self._running[kwargs["run_id"]] = (node, task_id, step)
            self.emit("node_started", node=node, task_id=task_id, step=step)

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        """Report that a node is done; a `Command` names the next nodes.

        Raises:
            InvalidEdge: There is no such node: LangGraph would silently drop the step.
        """
        key = kwargs["run_id"]
        node = self._running[key][0] if key in self._running else ""
        nodes = self.nodes.get(node.rpartition("/")[0])
        if node and nodes is not None:
            for target in _targets(outputs):
                if target not in nodes and target != END:
                    error = InvalidEdge(node, target, nodes)
                    self._fail(key, error)
                    raise error
        self._leave(key, "node_completed")

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        """Report that a node raised, waits, or is done and names what is next in the graph around its own."""
        if isinstance(error, ParentCommand):
            command = cast("Command[Any]", error.args[0])  # LangGraph puts a name for PARENT where it comes out
            here = None if command.graph == Command.PARENT else replace(command, graph=None)
            self.on_chain_end(here, **kwargs)
        self._fail(kwargs["run_id"], error)

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Report that the graph stops to wait."""
        if not event.checkpoint_ns:
            self._interrupt = event


def _targets(outputs: Any) -> Iterator[Any]:
    """Yield the next nodes that the returned `Command`s name."""
    for one in cast("Sequence[Any]", outputs) if isinstance(outputs, (list, tuple)) else (outputs,):
        if isinstance(one, Command) and one.graph is None:
            goto: Any = cast(Any, one).goto
            targets = cast("Sequence[Any]", goto) if isinstance(goto, (list, tuple)) else (goto,)
            yield from (target.node if isinstance(target, Send) else target for target in targets)


def place_of(checkpoint_ns: str) -> tuple[str, str]:
    """Return the path of a node, and the id of its task or nothing: `place_of("outer:t1|inner:t2")` is `("outer/inner",
    "t2")`."""
    path = [part.split(":") for part in checkpoint_ns.split("|")]
    names = [part[0] for part in path if len(part) > 1 or not part[0].isdigit()]
    return "/".join(names), path[-1][-1] if len(path[-1]) > 1 else ""


def session_of(config: RunnableConfig) -> Session | None:
    """Return the call that a node serves; None when the graph was not compiled by `ace.graph.compile`."""
    return config.get("configurable", {}).get(KEY)


def _plain(value: Any) -> Any:
    """Return a value for a digest: different values must give different JSON."""
    if isinstance(value, BaseModel):
        return [type(value).__qualname__, value.model_dump(mode="json", fallback=repr)]
    if isinstance(value, Mapping):
        return {json.dumps(_plain(k), default=repr): _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return [type(items).__name__, *(_plain(item) for item in items)]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_plain(item)) for item in cast("set[Any]", value))
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
