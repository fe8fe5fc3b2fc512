"""Runs whose observations outgrow the model's window: ``python -m benchmarks.dropin.overflow OUT.json``.

A stand-in for a model reads the pages of a report one by one and answers with the total of what it noted; it refuses a
prompt that is longer than its window, as an API does. Ten runs, with windows of 1.5k to 32k tokens; one page of each is
larger than the window. Counted are the runs that end with an answer, and the prompts in which a call stands without its
result, a result without its call, or the task is missing. Plain `dspy.ReActV2` meets the same model beside it.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import dspy
from dspy import lm15

from ace import ReActGenerator
from ace.react.program import REACT
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt
from ace.tools import tool
from benchmarks.command import command

WINDOWS = (1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000, 24_000, 32_000)
PAGES = 12
TASK = "Read all pages of the yearly report and give the number of the last one."


class Reader:
    """Reads page after page; keeps what was wrong with its prompts.

    Args:
        window: Tokens of a prompt that it takes, at four characters each.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.torn = 0
        self.refused = 0
        self.page = 0

    def __call__(self, prompt: Prompt) -> str:
        """Return the next decision."""
        if len(prompt.whole) // 4 > self.window:
            self.refused += 1
            raise lm15.ContextLengthError("the prompt is longer than the window")
        results = len(re.findall(r"^\[\[ ## result(?:_\d+)? ## \]\]$", prompt.whole, re.M))
        self.torn += results != len(prompt.steps) or TASK not in prompt.whole
        if self.page < PAGES:
            self.page += 1
            return decision("read_page", f"Page {self.page}.", number=self.page)
        return decision("submit", answer=f"page {self.page}")


def run(kind: Any, window: int) -> tuple[bool, Reader]:
    """Make one run, and say whether it gave the answer."""

    @tool(read_only=True)
    def read_page(number: int) -> str:
        """Read a page."""
        size = window * 6 if number == PAGES // 2 else window
        return f"Page {number}: " + "figures " * (size // 8)

    reader = Reader(window)
    lm = FunctionLM(f"bench/{window}", reader)
    with dspy.context(lm=lm, adapter=None if kind is ReActGenerator else dspy.ChatAdapter()):
        try:
            tools = [read_page] if kind is ReActGenerator else [read_page.func]
            out = kind("task -> answer", tools=tools, max_iters=PAGES + 2)(task=TASK)
            return out.answer == f"page {PAGES}", reader
        except Exception:  # plain ReActV2 raises when the last request does not fit either
            return False, reader


def main() -> dict[str, Any]:
    """Run, count, and return the report."""
    logging.getLogger("dspy").setLevel(logging.CRITICAL)  # how plain ReActV2 fails is counted, not shown
    ours = [run(ReActGenerator, window) for window in WINDOWS]
    plain = [run(REACT, window) for window in WINDOWS]
    return {
        "simulated": True,
        "answered": sum(answered for answered, _ in ours),
        "torn_prompts": sum(reader.torn for _, reader in ours),
        "refused_prompts": sum(reader.refused for _, reader in ours),
        "plain_react": {"answered": sum(answered for answered, _ in plain)},
        "by_window": {str(window): answered for window, (answered, _) in zip(WINDOWS, ours, strict=True)},
    }


if __name__ == "__main__":
    command(main)
