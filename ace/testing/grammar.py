"""A checker for the event grammar of ``contracts/events.md``: it accepts a stream or reports the first violation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from ace.core.errors import EventGrammarError
from ace.core.events import TERMINAL_KINDS, Event

EventT = TypeVar("EventT", bound=Any)


class Grammar(ABC, Generic[EventT]):
    """Reads a stream of events one by one, and refuses the first that may not stand where it does.

    Args:
        begins: The kinds that a stream may begin with.
        terminal: The kinds that it may end with.
    """

    def __init__(self, begins: Sequence[str], terminal: Iterable[str]) -> None:
        self._begins = begins
        self._terminal = frozenset(terminal)
        self._last: EventT | None = None

    def feed(self, event: EventT) -> None:
        """Accept the next event.

        Raises:
            EventGrammarError: It may not stand here.
        """
        last = self._last
        if last is None:
            self._require(event, event.kind in self._begins, f"expected {self._begins[0]} first")
            self._require(event, event.seq == 0 or event.kind == "run_continued", "the first seq is 0")
        else:
            due = last.seq + 1
            self._require(event, event.seq == due, f"seq {event.seq} after {last.seq}; expected {due}")
            self._require(event, event.run_id == last.run_id, f"another run: {event.run_id!r}")
        self._take(event)
        self._last = event

    @abstractmethod
    def _take(self, event: EventT) -> None:
        """Check what else holds for an event, and remember what follows from it."""

    @property
    def _over(self) -> bool:
        """Whether the last event was an end."""
        return self._last is not None and self._last.kind in self._terminal

    def finish(self) -> None:
        """Check that the stream may end here.

        Raises:
            EventGrammarError: It stops before a terminal event.
        """
        if self._last is None:
            raise EventGrammarError(f"no event at all; expected {self._begins[0]} first")
        if not self._over:
            raise EventGrammarError(
                f"the stream stops at event {self._last.seq} ({self._last.kind}); expected one of {sorted(self._terminal)}"
            )

    def check(self, events: Iterable[EventT]) -> None:
        """Read a whole stream.

        Raises:
            EventGrammarError: It names the event and the rule that it breaks.
        """
        for event in events:
            self.feed(event)
        self.finish()

    def _require(self, event: EventT, condition: bool, message: str) -> None:
        if not condition:
            node = f", node {event.node!r}" if getattr(event, "node", "") else ""
            raise EventGrammarError(f"event {event.seq} ({event.kind}{node}): {message}")


class EventGrammar(Grammar[Event]):
    """Reads the events of one run, one by one; of a run that was paused and continued, all parts after one another.

    Args:
        continued: The stream is the part of a run from its ``run_continued`` on.

    Examples:
        >>> started = Event(kind="run_started", seq=0, run_id="r", correlation_id="t")
        >>> grammar = EventGrammar()
        >>> grammar.feed(started)
        >>> grammar.feed(started.model_copy(update={"kind": "run_completed", "seq": 2}))
        Traceback (most recent call last):
        ...
        ace.core.errors.EventGrammarError: event 2 (run_completed): seq 2 after 0; expected 1
    """

    def __init__(self, *, continued: bool = False) -> None:
        super().__init__(["run_continued" if continued else "run_started"], TERMINAL_KINDS)
        self._continued = continued
        self._asking = False
        self._open: set[str] = set()
        self._ended_calls: set[str] = set()

    def _take(self, event: Event) -> None:
        last, kind, call = self._last, event.kind, str(event.data.get("tool_call_id", ""))
        if kind == "run_started":
            self._require(event, last is None, "run_started comes once, first")
        elif kind == "run_continued":
            # a run whose process died has no terminal event; what was out is reported after run_continued
            waits = last is None or last.kind in ("run_paused", "run_cancelled")
            self._require(event, waits or not self._over, "only a paused, cancelled or crashed run goes on")
            self._asking = False
        else:
            self._require(event, not self._over, "nothing may follow the end of a run but run_continued")
        if kind == "memory_unavailable":
            self._require(event, last is not None and last.kind == "run_started", "it comes right after run_started")
        elif kind == "model_request_started":
            self._require(event, not self._asking, "the model is already being asked")
            self._require(event, not self._open, f"calls {sorted(self._open)} have no result yet")
            self._asking = True
        elif kind in ("model_request_delta", "model_request_completed"):
            self._require(event, self._asking, "no request is out")
            self._asking = kind == "model_request_delta"
        elif kind == "model_request_error":
            refused = last is not None and last.kind == "model_request_completed"
            self._require(event, self._asking or refused, "no request is out and no reply was just read")
            self._asking = False
        elif kind == "tool_call_started":
            self._require(event, not self._asking, "a request to the model is out")
            self._require(event, bool(call), "data['tool_call_id'] is missing")
            self._require(event, call not in self._open | self._ended_calls, f"tool_call_id {call!r} came before")
            self._open.add(call)
        elif kind in ("tool_call_completed", "tool_call_error"):
            earlier = self._continued and call not in self._ended_calls  # it went out before this part
            self._require(event, call in self._open or earlier, f"no call {call!r} is out")
            self._open.discard(call)
            self._ended_calls.add(call)
        elif kind in TERMINAL_KINDS:
            self._require(event, not self._asking, "a request to the model is out")
            self._require(event, not self._open, f"calls {sorted(self._open)} have no result")


def check_events(events: Iterable[Event]) -> None:
    """Check a whole stream.

    Raises:
        EventGrammarError: It names the event and the rule that it breaks.

    Examples:
        >>> check_events([])
        Traceback (most recent call last):
        ...
        ace.core.errors.EventGrammarError: no event at all; expected run_started first
    """
    EventGrammar().check(events)
