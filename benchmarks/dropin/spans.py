"""What tracers see of tool calls: ``python -m benchmarks.dropin.spans OUT.json``.

Runs of a scripted model in four modes (sync, async, native, native with parallel calls), watched by DSPy's callbacks, by
OpenInference and by an OpenTelemetry exporter in memory, each in a process of its own. Counted are tool calls that were not
seen exactly once, without the agent as parent, or without the error of the one that fails.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import dspy
from dspy import lm15
from dspy.utils.callback import BaseCallback

from ace import ReActGenerator
from ace.testing import ScriptedLM, decision
from ace.testing.engine import AsyncEngine, FunctionEngine
from ace.tools import tool
from benchmarks.command import command

MODES = ("sync", "async", "native", "parallel")
TRACERS = ("callbacks", "openinference", "otel")
SCRIPT = [decision("look_up", key="a"), decision("fail", why="on demand"), decision("finish", answer="done")]


@tool(read_only=True)
def look_up(key: str) -> str:
    """Look up."""
    return f"value of {key}"


@tool
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


class CallingLM(dspy.LM):
    """Answers with native calls, one list after another."""

    def __init__(self, replies: list[list[tuple[str, dict[str, Any]]]]) -> None:
        class Engine(FunctionEngine):
            supports_function_calling = True
            supports_response_schema = supports_reasoning = False
            supported_params = frozenset({"tools", "tool_choice"})

            def complete(self, request: Any) -> Any:
                calls = [
                    lm15.ToolCallPart(id=f"c{n}", name=name, input=args)
                    for n, (name, args) in enumerate(replies.pop(0))
                ]
                usage = lm15.Usage(input_tokens=3, output_tokens=2, total_tokens=5)
                message = lm15.Message.assistant(calls)
                return lm15.Response(id=None, model="m", message=message, finish_reason="tool_call", usage=usage)

        engine = Engine(str)
        super().__init__("test/calls", engine=engine, async_engine=AsyncEngine(engine), cache=False)


def run(mode: str) -> dspy.Prediction:
    """Make one run: calls that work, one that fails, and the answer."""
    if mode in ("native", "parallel"):
        good = [("look_up", {"key": key}) for key in ("ab" if mode == "parallel" else "a")]
        lm = CallingLM([good, [("fail", {"why": "on demand"})], [("finish", {"answer": "done"})]])
        return ReActGenerator(tools=[look_up, fail], lm=lm, tool_calling="native")(task="x")
    agent = ReActGenerator(tools=[look_up, fail], lm=ScriptedLM(SCRIPT))
    return agent(task="x") if mode == "sync" else asyncio.run(agent.acall(task="x"))


class Heard(BaseCallback):
    """Keeps what callbacks are told: tool, parent, error."""

    def __init__(self) -> None:
        self.open: dict[str, tuple[str, str]] = {}
        self.tools: list[tuple[str, str, bool]] = []

    def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """See `BaseCallback`."""
        parent = self.open.get(dspy.utils.callback.ACTIVE_CALL_ID.get() or "", ("", ""))[0]
        self.open[call_id] = (instance.name, parent)

    def on_tool_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        """See `BaseCallback`."""
        self.tools.append((*self.open[call_id], exception is not None))

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """See `BaseCallback`."""
        self.open[call_id] = (type(instance).__name__, "")


def seen_by_callbacks(mode: str) -> list[tuple[str, str, bool]]:
    """Return tool, parent and whether an error was told."""
    heard = Heard()
    with dspy.context(callbacks=[heard]):
        run(mode)
    return heard.tools


def seen_by_spans(mode: str, tracer: str) -> list[tuple[str, str, bool]]:
    """Return tool, parent and whether the span has an error."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    if tracer == "otel":
        trace.set_tracer_provider(provider)
    else:
        from openinference.instrumentation.dspy import DSPyInstrumentor

        DSPyInstrumentor().instrument(tracer_provider=provider, skip_dep_check=True)
    run(mode)
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    found = []
    for span in spans:
        attributes = dict(span.attributes or {})
        if (
            attributes.get("openinference.span.kind") == "TOOL"
            or attributes.get("gen_ai.operation.name") == "execute_tool"
        ):
            name = span.name.removeprefix("execute_tool ").partition(".")[0]
            parent = names.get(span.parent.span_id, "") if span.parent else ""
            failed = not span.status.is_ok or "error.type" in attributes
            found.append((name, parent.removeprefix("invoke_agent ").partition(".")[0], failed))
    return found


def one(mode: str, tracer: str) -> None:
    """Print what one tracer sees in one mode, in this process."""
    print(json.dumps(seen_by_callbacks(mode) if tracer == "callbacks" else seen_by_spans(mode, tracer)))


def main() -> dict[str, Any]:
    """Try every tracer in every mode, each in a process of its own."""
    wrong, checked = [], 0
    for tracer in TRACERS:
        for mode in MODES:
            command = [sys.executable, __file__, "--one", mode, tracer]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seen = json.loads(done.stdout.strip().splitlines()[-1])
            good = 2 if mode == "parallel" else 1
            expected = sorted([["look_up", "ReActGenerator", False]] * good + [["fail", "ReActGenerator", True]])
            checked += 1
            if sorted(seen) != expected:
                wrong.append(f"{tracer}, {mode}: {seen}")
    return {"checked": checked, "wrong": len(wrong), "examples": wrong}


if __name__ == "__main__":
    one(*sys.argv[2:]) if sys.argv[1:2] == ["--one"] else command(main)
