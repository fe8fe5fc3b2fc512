"""A model of everything around a run: a language model and tools that may answer anything, all decided by plain data.

The model's reply depends on its prompt alone, and a tool's result on its arguments alone, so that a run that was cut off
and goes on meets the same world.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from manual_clock import ManualClock

from ace.agent import (
    AgentRun,
    BreakerPolicy,
    ModelReply,
    NoProgress,
    OnceWithToolCatalog,
    Policy,
    RequestedTool,
    RetryPolicy,
    RunSnapshot,
    RunSpec,
    Summary,
    UpTo,
    adrive,
    drive,
)
from ace.agent.history import CALLS, RESULTS, as_text
from ace.agent.streaming import AsyncRunStream
from ace.core import (
    TOOL_ERROR_KINDS,
    CancellationToken,
    InvalidModelAction,
    ModelTransport,
    RunUsage,
    ToolError,
    UsageLimits,
)
from ace.tasks import TaskInput
from ace.tools import Tool, ToolRegistry

NO_WAIT = RetryPolicy(initial_interval=0.5, max_attempts=3)
POLICIES = (
    Policy(),
    Policy.lenient(),
    Policy.replay(),
    Policy(tool_error="fail_fast"),
    Policy(on_invalid_action=OnceWithToolCatalog(), model_retry=NO_WAIT),
    Policy(on_invalid_action=UpTo(3), consume_budget=False, model_retry=NO_WAIT, tool_retry=NO_WAIT),
    Policy(on_invalid_action="observe", breaker=BreakerPolicy(threshold=1, cooldown=3.0)),
    Policy(on_invalid_action="observe", no_progress=NoProgress(note_after=2, stop_after=2)),
)
KINDS = tuple(TOOL_ERROR_KINDS)


def finish(answer: str, cited_bullets: list[str] = []) -> None:  # noqa: B006
    """End."""


FINISH_TOOL = Tool.from_function(finish)


@dataclass
class World:
    """What tools did."""

    faults: tuple[Any, ...] = ()
    sent: list[int] = field(default_factory=list)
    put: dict[int, int] = field(default_factory=dict)
    calls: int = 0

    def fail(self, n: int) -> None:
        fault = self.faults[n % len(self.faults)] if self.faults else None
        if fault is not None:
            raise ToolError(fault, "on demand") if fault in KINDS else ValueError(fault)

    def registry(self) -> ToolRegistry:
        def look(n: int) -> str:
            """Look."""
            self.calls += 1
            self.fail(n)
            return f"saw {n % 3}"

        def put(n: int) -> str:
            """Put."""
            self.calls += 1
            self.put[n] = 1
            self.fail(n)
            return "put"

        def send(n: int) -> str:
            """Send."""
            self.calls += 1
            self.sent.append(n)
            self.fail(n)
            return "sent"

        return ToolRegistry(
            [
                Tool.from_function(look, read_only=True),
                Tool.from_function(put, idempotent=True),
                Tool.from_function(send),
            ]
        )


@dataclass(frozen=True)
class Case:
    """One run and its surroundings."""

    replies: tuple[Any, ...]
    faults: tuple[Any, ...] = ()
    policy: int = 0
    max_iters: int = 6
    limits: UsageLimits = UsageLimits()  # noqa: RUF009 - frozen
    summary: Summary | None = None
    cancel_at: int | None = None
    fragments: tuple[int, ...] = (3,)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet=st.characters()),
    lambda s: st.lists(s, max_size=3) | st.tuples(s, s) | st.dictionaries(st.text() | st.integers(), s, max_size=3),
    max_leaves=5,
)
good_calls = st.builds(
    RequestedTool, st.sampled_from(["look", "look", "put", "send"]), st.fixed_dictionaries({"n": st.integers(0, 9)})
)
any_calls = good_calls | st.builds(
    RequestedTool,
    st.sampled_from(["look", "lock", "send", "finish", "submit", None, 3]) | anything,
    st.dictionaries(st.sampled_from(["n", "answer", "x"]), anything, max_size=2) | anything,
)
finishes = st.builds(RequestedTool, st.sampled_from(["submit", "finish"]), st.just({"answer": "done"}) | st.just({}))


def reply(thought: str, calls: list[RequestedTool]) -> ModelReply:
    first, *more = calls
    usage = RunUsage(lm_calls=1, input_tokens=10, output_tokens=2)
    return ModelReply(thought=thought, tool_name=first.name, tool_args=first.args, more=tuple(more), usage=usage)


good_replies = st.builds(reply, st.text(max_size=5), st.lists(good_calls, min_size=1, max_size=4))
replies = st.one_of(
    good_replies,
    good_replies,
    st.builds(
        reply, st.text(alphabet=st.characters(), max_size=5), st.lists(any_calls | finishes, min_size=1, max_size=3)
    ),
    st.builds(reply, st.text(max_size=5), st.lists(finishes, min_size=1, max_size=1)),
    st.just(ModelTransport("down")),
    st.just(InvalidModelAction("unparsable", "no")),
)
faults = st.lists(st.none() | st.none() | st.sampled_from([*KINDS, "boom"]), max_size=5).map(tuple)
small = st.none() | st.integers(0, 8)
limits = st.just(UsageLimits()) | st.builds(
    UsageLimits, iterations=small, lm_calls=small, tool_calls=small, input_tokens=st.none() | st.integers(0, 80)
)
summaries = st.none() | st.none() | st.builds(Summary, every=st.integers(1, 3), keep_last=st.none() | st.integers(1, 2))
_any_case = {
    "replies": st.lists(replies, min_size=1, max_size=7).map(tuple),
    "faults": faults,
    "policy": st.integers(0, len(POLICIES) - 1),
    "max_iters": st.integers(0, 7),
    "fragments": st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
}
# what ends by itself: neither a limit, nor a summary, nor a cancellation cuts into it
calm_cases = st.builds(Case, **_any_case)
cases = st.builds(
    Case, **_any_case, limits=limits, summary=summaries, cancel_at=st.none() | st.none() | st.integers(0, 20)
)


def calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls of a turn."""
    return turn[CALLS][CALLS]


def results(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Their results; a turn without calls need not have the list."""
    return turn[CALLS].get(RESULTS, [])


class Model:
    """Answers by its prompt alone."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.asked: list[Any] = []
        self.delta: Any = None

    def ask(self, request: Any) -> ModelReply:
        as_text([*request.turns, request.said]).encode("utf-8")
        self.asked.append(request)
        if request.purpose == "summarize":
            fields = {"objective": "o", "actions": "a", "observations": "b", "state": "s"}
            return ModelReply(outputs=fields, usage=RunUsage(lm_calls=1, input_tokens=10, output_tokens=2))
        if request.purpose == "extract":
            return reply("enough", [RequestedTool("submit", {"answer": "forced"})])
        seen = sum(len(results(turn)) or 1 for turn in request.turns)
        if self.delta is not None:
            self.tell(f"reply number {seen} with some words and  spaces ")
        found = self.case.replies[seen % len(self.case.replies)]
        if isinstance(found, Exception):
            error = (
                type(found)(*found.args)
                if isinstance(found, ModelTransport)
                else InvalidModelAction("unparsable", "no")
            )
            error.usage = RunUsage(lm_calls=1, input_tokens=10)
            raise error
        return found

    def tell(self, text: str) -> None:
        start, turn = 0, 0
        while start < len(text):
            size = self.case.fragments[turn % len(self.case.fragments)]
            self.delta(text[start : start + size])
            start, turn = start + size, turn + 1

    async def aask(self, request: Any) -> ModelReply:
        await asyncio.sleep(0)
        return self.ask(request)


@dataclass
class Ran:
    """What came of it."""

    run: AgentRun
    output: Any
    events: list[Any]
    model: Model
    world: World
    saved: list[str] = field(default_factory=list)


class Died(BaseException):
    """The process ends here."""


def start(case: Case, world: World, events: list[Any]) -> AgentRun:
    limit = case.max_iters if case.limits.iterations is None else min(case.max_iters, case.limits.iterations)
    spec = RunSpec(
        task=TaskInput(task_id="t", inputs={"task": "x"}),
        registry=world.registry(),
        finish=FINISH_TOOL,
        max_iters=limit,
        limits=case.limits,
        policy=POLICIES[case.policy],
        summary=case.summary,
        listeners=(events.append,),
        clock=ManualClock(),
        cancellation=CancellationToken(),
    )
    return AgentRun(spec, "run")


def perform(case: Case, driver: str = "sync", die_at: int | None = None) -> Ran:
    """Run a case to its end, or until it dies before step `die_at`."""
    world, events, model, saved = World(case.faults), [], Model(case), []
    run = start(case, world, events)

    def save(run: AgentRun) -> None:
        saved.append(run.snapshot().to_json())
        if case.cancel_at is not None and len(saved) == case.cancel_at + 1:
            run.spec.cancellation.cancel("enough")
        if die_at is not None and len(saved) == die_at:
            raise Died

    output = None
    try:
        if driver == "sync":
            output = drive(run, model, save)
        elif driver == "async":
            output = asyncio.run(adrive(run, model, save))
        else:
            output = asyncio.run(_streamed(run, model, save))
    except Died:
        pass
    return Ran(run, output, events, model, world, saved)


async def _streamed(run: AgentRun, model: Model, save: Any) -> Any:
    model.delta = run.model_delta

    async def begin(listener: Any) -> Any:
        run.spec = dataclasses.replace(run.spec, listeners=(*run.spec.listeners, listener))
        return await adrive(run, model, save)

    stream = AsyncRunStream(begin, run.spec.cancellation)
    read = [event async for event in stream]
    assert [event.seq for event in read] == list(range(len(read)))
    return stream.output


def resumed(ran: Ran, text: str, decision: str | None = None, events: list[Any] | None = None) -> Ran:
    """Go on from a stored state in a new process: only the world outside the run is the same."""
    seen = [] if events is None else events
    fresh = start(ran.model.case, ran.world, seen)
    run = AgentRun.restore(RunSnapshot.from_json(text), fresh.spec)
    run.resume(decision)
    model = Model(dataclasses.replace(ran.model.case, cancel_at=None))
    saved: list[str] = []
    output = drive(run, model, lambda run: saved.append(run.snapshot().to_json()))
    return Ran(run, output, seen, model, ran.world, saved)
