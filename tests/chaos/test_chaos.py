"""Seeded chaos: everything that can go wrong does, in sync, async and streamed runs; the promises of a run hold."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from dataclasses import dataclass, field

import pytest
from chaos.plan import FaultPlan

from ace.agent import (
    AgentRun,
    BreakerPolicy,
    ModelReply,
    NoProgress,
    Policy,
    RequestedTool,
    RetryPolicy,
    RunSpec,
    Summary,
    UpTo,
    adrive,
    drive,
)
from ace.agent.streaming import AsyncRunStream, RunStream
from ace.core import (
    CancellationToken,
    InvalidModelAction,
    ModelTransport,
    ObserverThread,
    RunUsage,
    ToolContext,
    UsageLimits,
)
from ace.tasks import TaskInput, TerminationReason
from ace.testing import check_events
from ace.testing.faulty import fail
from ace.tools import Tool, ToolRegistry, ToolResult

SHORT, FULL = 60, 1_000
GRACE = 0.02
LONGEST = 10.0
"""Seconds; a run that takes longer hangs."""


def finish(answer: str, cited_bullets: list[str] = []) -> None:  # noqa: B006
    """End."""


FINISH = Tool.from_function(finish)


@dataclass
class Chaos:
    """One seed's world: tools, a model, observers and a moment of cancellation."""

    seed: int
    events: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.plan = FaultPlan(self.seed, tool_rate=self.random.choice([0.0, 0.3, 0.7]))
        self.token = CancellationToken()
        self.lm_calls = 0
        self.out = 0
        self.phase = self.random.choice([None, None, "model", "tool", "wait", "start", "late"])
        self.steps = self.random.randrange(1, 9)

    def registry(self) -> ToolRegistry:
        plan, chaos = self.plan, self

        def look(n: int, ctx: ToolContext) -> str:
            """Look."""
            chaos.maybe_cancel("tool")
            fail(plan.tool_fault(), "look")
            return "x" * n

        async def alook(n: int, ctx: ToolContext) -> str:
            """Look without blocking."""
            chaos.maybe_cancel("tool")
            fault = plan.tool_fault()
            if fault == "hang":
                await asyncio.sleep(60)
            fail(fault, "alook")
            return f"{n}"

        def send(text: str) -> object:
            """Send."""
            chaos.maybe_cancel("tool")
            fail(plan.tool_fault(), "send")
            return {"sent": text, "odd": object()}

        options = {"timeout": 0.05}
        return ToolRegistry(
            [
                Tool.from_function(look, read_only=True, **options),
                Tool.from_function(alook, read_only=True, **options),
                Tool.from_function(send, **options),
            ]
        )

    def maybe_cancel(self, phase: str) -> None:
        if self.phase == phase and self.lm_calls >= self.steps // 2:
            self.token.cancel(f"during {phase}")

    def reply(self, request) -> ModelReply:
        self.lm_calls += 1
        self.maybe_cancel("model")
        usage = RunUsage(lm_calls=1, input_tokens=7, output_tokens=3)
        if request.purpose == "summarize":
            return ModelReply(outputs={"objective": "\ud800"}, usage=usage)
        if request.purpose == "extract":
            return ModelReply(outputs={"answer": "forced"}, usage=usage)
        draw = self.random.random()
        if draw < 0.08:
            raise ModelTransport("down")
        if draw < 0.16:
            raise InvalidModelAction("unparsable", "garbage \ud800", raw_response="[[ ## next_")
        if draw < 0.2:
            deep: list = []
            for _ in range(3_000):
                deep = [deep]
            return ModelReply(tool_name="look", tool_args={"n": deep}, usage=usage)
        if draw < 0.3 or self.lm_calls > self.steps:
            return ModelReply(tool_name="finish", tool_args={"answer": "done"}, usage=usage)
        calls = [self.call() for _ in range(self.random.choice([1, 1, 2, 4]))]
        return ModelReply(
            thought="t", tool_name=calls[0].name, tool_args=calls[0].args, more=tuple(calls[1:]), usage=usage
        )

    def call(self) -> RequestedTool:
        name = self.random.choice(
            ["look", "alook", "alook", "send", "nope"] if self.random.random() < 0.3 else ["look", "alook", "send"]
        )
        args: object = {"n": self.random.randrange(3)} if name in ("look", "alook") else {"text": "t\ud800"}
        return RequestedTool(name, self.random.choice([args, args, args, args, "text", {"x": 1}, None]))

    def ask(self, request) -> ModelReply:
        return self.reply(request)

    async def aask(self, request) -> ModelReply:
        await asyncio.sleep(0)
        if self.random.random() < 0.05:
            await asyncio.sleep(0.01)
        return self.reply(request)

    def observers(self) -> list[ObserverThread]:
        def raises(event) -> None:
            raise SystemExit("an observer")

        def blocks(event) -> None:
            time.sleep(0.2)

        return [ObserverThread(o, GRACE) for o in self.random.sample([raises, blocks], self.random.randrange(3))]

    def run(self) -> AgentRun:
        quick = RetryPolicy(initial_interval=0.001, max_interval=0.005)
        policy = self.random.choice(
            [
                Policy.lenient(),
                Policy(on_invalid_action="observe", tool_retry=quick, model_retry=quick),
                Policy(on_invalid_action=UpTo(2), breaker=BreakerPolicy(threshold=1, cooldown=0.01), tool_retry=quick),
                Policy(tool_error="fail_fast", tool_retry=None),
                Policy(
                    no_progress=NoProgress(note_after=2, stop_after=3), on_invalid_action="observe", tool_retry=quick
                ),
            ]
        )
        limits = self.random.choice(
            [
                UsageLimits(),
                UsageLimits(lm_calls=4),
                UsageLimits(tool_calls=2),
                UsageLimits(seconds=0.15),
                UsageLimits(total_tokens=35),
            ]
        )
        spec = RunSpec(
            task=TaskInput(task_id=f"t{self.seed}", inputs={"task": "x"}),
            registry=self.registry(),
            finish=FINISH,
            max_iters=self.random.randrange(8),
            limits=limits,
            policy=policy,
            summary=self.random.choice([None, None, Summary(every=2, keep_last=1)]),
            observers=tuple(self.observers()),
            listeners=(self.events.append,),
            cancellation=self.token,
        )
        if self.phase == "start":
            self.token.cancel("before it began")
        if self.phase == "wait":
            threading.Timer(self.random.random() * 0.05, self.token.cancel).start()
        return AgentRun(spec)


def sync(chaos: Chaos, run: AgentRun):
    return drive(run, chaos)


def async_(chaos: Chaos, run: AgentRun):
    return asyncio.run(adrive(run, chaos))


def stream(chaos: Chaos, run: AgentRun):
    def begin(listener):
        from dataclasses import replace

        run.spec = replace(run.spec, listeners=(*run.spec.listeners, listener))
        return adrive(run, chaos)

    reading = RunStream.of(AsyncRunStream(begin, chaos.token))
    read = list(reading)
    assert [e.seq for e in read] == list(range(len(read)))
    return reading.output


def survive(driver, seed: int) -> None:
    from typing import get_args

    chaos = Chaos(seed)
    run = chaos.run()
    started = time.monotonic()
    output = driver(chaos, run)
    assert time.monotonic() - started < LONGEST, f"seed {seed} hangs"
    check_events(chaos.events)  # grammar, and exactly one result per call
    assert output.termination_reason in get_args(TerminationReason)
    assert output.termination_reason not in ("internal_invariant", "policy_runtime_violation"), output.error
    usage, limits = output.usage, run.spec.limits
    assert limits.lm_calls is None or usage.lm_calls <= limits.lm_calls
    assert limits.tool_calls is None or usage.tool_calls <= limits.tool_calls
    assert limits.total_tokens is None or usage.total_tokens < limits.total_tokens + 10
    assert usage.iterations <= run.spec.max_iters
    assert usage.tool_calls == sum(e.kind == "tool_call_started" for e in chaos.events)
    count = len(chaos.events)
    for event in [e for e in chaos.events if e.kind == "tool_call_started"]:  # results that come after the end
        run.tool_finished(ToolResult(tool_call_id=event.data["tool_call_id"], outcome="success", text="late"))
    assert (len(chaos.events), run.output().structured_trace) == (count, output.structured_trace)
    output.model_dump_json()


DRIVERS = {"sync": sync, "async": async_, "stream": stream}


@pytest.mark.parametrize("driver", DRIVERS)
def test_chaos(driver):
    for seed in range(SHORT):
        survive(DRIVERS[driver], seed)


@pytest.mark.full
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("driver", DRIVERS)
def test_chaos_at_full_count(driver):
    for seed in range(10_000, 10_000 + FULL):
        survive(DRIVERS[driver], seed)
