"""What all nodes share: each is a LangGraph node, for sync and async graphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from ace.agent import Approve, Deny
from ace.core import CancellationToken, InvalidModelAction, Pause, current_context
from ace.core.durable import digest
from ace.graph.session import CALLS, Session, place_of, session_of
from ace.tools import ToolRegistry, check_call

Pause.register(GraphInterrupt)
_SCRATCHPAD = "__pregel_scratchpad"
"""Where LangGraph keeps the answers of a visit."""
_ATTEMPT = re.compile(r"-a\d+$")


_WORDS: dict[str, Any] = {"enum": ["approve", "deny"]}
_DECISION: dict[str, Any] = {
    "type": "object",
    "properties": {"decision": _WORDS, "args": {"type": "object"}, "reason": {"type": "string"}},
    "required": ["decision"],
}
DECISION_SCHEMA: dict[str, Any] = {
    "anyOf": [_WORDS, _DECISION, {"type": "object", "additionalProperties": {"anyOf": [_WORDS, _DECISION]}}]
}
"""JSON Schema of an answer about calls: one decision about all of them, or one for each by its id."""


def ask(
    question: Mapping[str, Any], names: Mapping[str, str], registry: ToolRegistry
) -> tuple[dict[str, Approve | Deny], int]:
    """Stop the graph until an answer decides about each of some calls.

    Args:
        question: What the interrupt carries; after an answer that decides nothing, also the ``problem`` with it.
        names: Id of each call to the name of its tool.
        registry: The tools, for the arguments that an answer brings.

    Returns:
        The decision about each call, and how many answers it took.
    """
    problem, answers = "", 0
    while True:
        answer = interrupt({**question, "problem": problem}, response_schema=DECISION_SCHEMA)
        answers += 1
        try:
            return _decisions(answer, names, registry), answers
        except ValueError as error:
            problem = str(error)


def _decisions(answer: Any, names: Mapping[str, str], registry: ToolRegistry) -> dict[str, Approve | Deny]:
    given = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {"decision": answer}
    given = given[CALLS] if given.keys() == {CALLS} and isinstance(given[CALLS], dict) else given
    if "decision" in given:
        if given.get("args") is not None and len(names) > 1:
            raise ValueError(f"`args` fit one call, and {len(names)} wait; decide by their ids: {list(names)}")
        given = dict.fromkeys(names, given)
    elif given.keys() != names.keys():
        raise ValueError(f"the answer is about {list(given)}, expected a decision about each of {list(names)}")
    return {call_id: _decided(given[call_id], call_id, name, registry) for call_id, name in names.items()}


def _decided(answer: Any, call_id: str, name: str, registry: ToolRegistry) -> Approve | Deny:
    given = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {"decision": answer}
    match given.get("decision"), given.get("args"):
        case "deny", _:
            return Deny(str(given.get("reason", "")))
        case "approve", None:
            return Approve()
        case "approve", args:
            try:
                check_call(registry, name, args, call_id)
            except InvalidModelAction as error:
                raise ValueError(f"the new arguments do not fit: {error}") from error
            return Approve(args)
        case other, _:
            raise ValueError(f"the answer is {other!r:.100}, expected 'approve' or 'deny'")


class Node(Runnable[Any, dict[str, Any]]):
    """A node, from the state to its update; async graphs run it in a thread unless it has its own `ainvoke`."""


def writer() -> Callable[[Any], None]:
    """Return LangGraph's writer for ``stream_mode="custom"``; outside of a graph, nobody listens."""
    with suppress(RuntimeError, KeyError):
        return get_stream_writer()
    return lambda _: None


class Visit:
    """One visit to a node; its ids are the same after a resume."""

    def __init__(self, config: RunnableConfig | None) -> None:
        given = config or {}
        inner = given.get("configurable", {})
        self.session: Session | None = session_of(given)
        self.cancellation = self.session.cancellation if self.session is not None else CancellationToken()
        self.remaining_steps = self.session.remaining_steps if self.session is not None else None
        self.in_graph = _SCRATCHPAD in inner
        self.node, self.task_id = place_of(str(inner.get("checkpoint_ns", "")))
        self.thread_id = str(inner.get("thread_id") or "")

    def run_id(self, attempt: int = 0) -> str:
        """Return a name for the agent's run that a later process finds again; empty when nothing is saved."""
        if not self.thread_id or not self.task_id:
            return ""
        return f"graph-{digest([self.thread_id, self.task_id])}" + (f"-{attempt}" if attempt else "")


class Answers:
    """The answers that LangGraph has for a visit, each given to the one who asked for it.

    `interrupt` counts the questions of a visit, and gives them the answers in that order, from the first after each resume.
    An agent's visit does not ask in the same order each time: calls that have ended are not made again. So the questions are
    counted here for each call of a tool, and for the node itself.

    Args:
        config: The node's.
        run_id: The agent's run; an agent inside one of its tools has another one.
    """

    def __init__(self, config: RunnableConfig | None, run_id: str) -> None:
        self._given: Any = (config or {}).get("configurable", {}).get(_SCRATCHPAD)
        self._run_id = run_id
        self._begin: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._waits = ""
        self.count = 0
        """How many there are."""
        if self._given is not None:  # it is frozen, and shared by the copies of the config that tools see
            self.count = len(self._given.resume) + (self._given.get_null_resume(False) is not None)
            object.__setattr__(self._given, "interrupt_counter", self._number)

    def waits(self, call_id: str, number: int) -> None:
        """Remember that a call which asked before is made again: its first question had the answer of this number."""
        self._waits, self._begin[call_id] = call_id, number

    def ask_from(self, number: int) -> None:
        """Let the node's next question have the answer of this number."""
        if number >= self.count:
            self._pass_over("")
        self._next[""] = min(number, self.count)

    def _number(self) -> int:
        """Return the number of the answer that the present asker finds; each attempt of a call begins with the call's
        first."""
        context = current_context()
        asker = "" if context is None else context.tool_call_id
        if context is not None and self._run_id not in ("", context.run_id):
            asker = context.run_id  # an agent inside a tool, whose calls have ids of their own
        if asker not in self._next:
            call = self._waits or asker if context is not None and asker == context.run_id else _ATTEMPT.sub("", asker)
            if call not in self._begin:
                self._pass_over(asker)
                self._begin[call] = self.count
            self._next[asker], self._waits = self._begin[call], ""
        self._next[asker] += 1
        return self._next[asker] - 1

    def _pass_over(self, asker: str) -> None:
        """Leave all answers that are there for a new question; LangGraph saves those up to the one that was read last."""
        given = self._given
        if given is not None and self.count > len(given.resume):
            new = given.get_null_resume(True)  # where it was taken already, it was no answer of this visit
            given.resume.extend([] if new is None else [new])
            self.count = len(given.resume)
        if self.count:
            self._next[asker] = self.count - 1
            interrupt(None)
