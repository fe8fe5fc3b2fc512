"""What the prompts of a run cost beside `dspy.ReActV2`: ``python -m benchmarks.agent.prompts OUT.json``.

The same ten steps over the 28 tools of the office demo are played by a scripted model through our agent and through plain
`dspy.ReActV2`, both in text mode with what each sends by default. Prompt tokens are counted as a prefix cache bills them: a
tenth for what an earlier request of the run began with. Then runs of twenty steps, and conversations of twenty messages,
through DSPy's chat, JSON and XML adapters, ours, and native calling: how many requests do not begin with the whole request
before, byte for byte, the trailer of DSPy's adapters left out. CPU per request is a ratio over turns in one process.
"""

from __future__ import annotations

import re
import time
from itertools import pairwise
from statistics import median
from typing import Any

import dspy
from dspy import lm15

from ace import ReActGenerator
from ace.playbook.render import count_tokens
from ace.react.program import REACT
from ace.suites import load_suite
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt
from ace.tools import ToolRegistry, tool
from benchmarks.command import command

TRAILER = re.compile(r"\s*(?:<user>)?\s*Respond with (?:the corresponding output fields|a JSON object)[^\n]*\s*\Z")
STEPS, LONG, MESSAGES, TURNS, RUNS = 10, 20, 20, 40, 4


@tool(read_only=True)
def find_order(customer: str) -> str:
    """Find the order of a customer."""
    return f"{customer}'s order is number {len(customer)}: " + "one lamp, two chairs, sent by train. " * 4


def office() -> ToolRegistry:
    """Return the office's tools, over a world of its own."""
    suite = load_suite("office")
    return suite.episode(suite.tasks[0]).registry


class Script:
    """Reads the same thing again and again with other arguments, then submits."""

    def __init__(self, steps: int, name: str = "find_order", argument: str = "customer") -> None:
        self.steps, self.name, self.argument = steps, name, argument
        self.made = 0
        self.prompts: list[str] = []

    def __call__(self, prompt: Prompt) -> str:
        """Return the next reply."""
        self.prompts.append("".join(f"<{role}>{text}" for role, text in prompt.messages))
        self.made = (self.made + 1) % (self.steps + 1)
        if self.made:
            return decision(self.name, f"I look for number {self.made}.", **{self.argument: f"Ana{self.made}"})
        return decision("submit", "It was found.", answer="On its way.")


def billed(prompts: list[str]) -> float:
    """Count the tokens of the prompts of a run, a tenth for what was sent before."""
    total = 0.0
    for index, prompt in enumerate(prompts):
        shared = max((_common(prompt, earlier) for earlier in prompts[:index]), default=0)
        total += count_tokens(prompt[:shared]) / 10 + count_tokens(prompt[shared:])
    return total


def _common(one: str, other: str) -> int:
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)


def plain_prompt(prompt: str) -> str:
    """Return a prompt without the trailer that ends it."""
    return TRAILER.sub("", prompt)


SEEN: list[int] = []
"""How many requests each conversation had."""


def broken(prompts: list[str]) -> int:
    """Count how many requests do not begin with the one before."""
    SEEN.append(len(prompts) - 1)
    return sum(not after.startswith(plain_prompt(before)) for before, after in pairwise(prompts))


def play(adapter: Any, messages: int, steps: int) -> list[str]:
    """Return the prompts of a conversation in text mode."""
    script, history = Script(steps), None
    agent = ReActGenerator(tools=[find_order], lm=FunctionLM("bench/script", script), max_iters=steps + 2)
    with dspy.context(adapter=adapter):
        for number in range(messages):
            history = agent(f"Where is order number {number}?", history=history).history
    return script.prompts


class NativeEngine:
    """The same script as native calls."""

    supports_function_calling = True
    supports_response_schema = supports_reasoning = False
    supported_params = frozenset({"tools", "tool_choice"})

    def __init__(self, steps: int) -> None:
        self.steps, self.made, self.prompts = steps, 0, list[str]()

    def complete(self, request: Any) -> Any:
        """Return the next reply."""
        parts = [repr(m.parts) for m in request.messages]
        self.prompts.append("".join(f"<{m.role}>{part}" for m, part in zip(request.messages, parts, strict=True)))
        self.made = (self.made + 1) % (self.steps + 1)
        name, args = ("find_order", {"customer": f"Ana{self.made}"}) if self.made else ("submit", {"answer": "Sent."})
        part = lm15.ToolCallPart(id=f"call-{len(self.prompts)}", name=name, input=args)
        usage = lm15.Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        message = lm15.Message.assistant([part])
        return lm15.Response(id=None, model="m", message=message, finish_reason="tool_call", usage=usage)

    def stream(self, request: Any) -> Any:
        """Yield the whole reply."""
        yield from lm15.response_to_events(self.complete(request))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def play_natively(messages: int, steps: int) -> list[str]:
    """Return the prompts of a conversation with native calls."""
    engine, history = NativeEngine(steps), None
    lm = dspy.LM("bench/native", engine=engine, cache=False, num_retries=0)
    agent = ReActGenerator(tools=[find_order], lm=lm, max_iters=steps + 2, tool_calling="native")
    for number in range(messages):
        history = agent(f"Where is order number {number}?", history=history).history
    return engine.prompts


def cost() -> dict[str, float]:
    """Return the tokens as billed, of ours and of DSPy's."""
    registry = office()
    first = next(t for t in registry if t.read_only and len(t.schema.get("required", ())) == 1)
    [argument] = first.schema["required"]
    tokens: dict[str, float] = {}
    for name in ("ours", "dspy"):
        script = Script(STEPS, first.name, argument)
        lm = FunctionLM("bench/script", script)
        if name == "ours":
            ReActGenerator(tools=registry, lm=lm, max_iters=STEPS + 1)("Look ten times.")
        else:
            tools = [dspy.Tool(t.func, name=t.name, desc=t.description, args=t.schema["properties"]) for t in registry]
            with dspy.context(lm=lm):
                REACT("task -> answer", tools=tools, max_iters=STEPS + 1)(task="Look ten times.")
        assert len(script.prompts) == STEPS + 1, (name, len(script.prompts))
        tokens[name] = billed(script.prompts)
    return tokens


def cpu() -> list[float]:
    """Measure CPU per request beside DSPy's, a ratio for each turn."""
    script = Script(STEPS)
    lm = FunctionLM("bench/script", lambda prompt: script(prompt))
    ours = ReActGenerator(tools=[find_order], lm=lm, max_iters=STEPS + 1)
    theirs = REACT("task -> answer", tools=[find_order.func], max_iters=STEPS + 1)
    ratios: list[float] = []
    with dspy.context(lm=lm, trace=None, disable_history=True):
        for turn in range(TURNS + 3):
            spent = []
            for agent in (ours, theirs):
                started = time.process_time()
                for _ in range(RUNS):
                    agent(task="Look ten times.")
                spent.append(time.process_time() - started)
            if turn >= 3:
                ratios.append(spent[0] / spent[1])
    return ratios


def main() -> dict[str, Any]:
    """Play, count, and return the report."""
    adapters = {"ours": None, "chat": dspy.ChatAdapter(), "json": dspy.JSONAdapter(), "xml": dspy.XMLAdapter()}
    unlike = {
        name: broken(play(adapter, 1, LONG)) + broken(play(adapter, MESSAGES, 1)) for name, adapter in adapters.items()
    }
    unlike["native"] = broken(play_natively(1, LONG)) + broken(play_natively(MESSAGES, 1))
    tokens, ratios = cost(), cpu()
    return {
        "not_begun_with_the_one_before": unlike,
        "broken_prefixes": sum(unlike.values()),
        "requests": sum(SEEN),
        "billed_tokens": tokens,
        "billed_ratio": tokens["ours"] / tokens["dspy"],
        "cpu_ratio": median(ratios),
        "cpu_ratios": sorted(ratios),
    }


if __name__ == "__main__":
    command(main)
