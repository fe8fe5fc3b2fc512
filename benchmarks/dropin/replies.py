"""Replies in many shapes under three adapters: ``python -m benchmarks.dropin.replies OUT.json``.

Each reply of `reply_shapes.py` is given by a scripted model to an agent under DSPy's chat, JSON and XML adapter, and counted
is whether exactly the call that a person reads was made. Replies that are cut off at any place may make that call or none.
Long, malformed replies are timed. What plain `dspy.ReAct` makes of the same readable replies stands beside it.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import dspy

from ace import ReActGenerator
from ace.testing import FunctionLM, decision
from ace.tools import Tool
from benchmarks.command import command
from benchmarks.dropin.reply_shapes import Reply, cut_off, hostile, readable

ADAPTERS = {"chat": None, "json": dspy.JSONAdapter, "xml": dspy.XMLAdapter}


class Shop:
    """Tools that keep what they were called with."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []

    def refund(self, order_id: str, amount: float = 0.0) -> str:
        """Refund an order."""
        return self._note("refund", order_id=order_id, amount=amount)

    def find_order(self, customer: str, open_only: bool = False) -> str:
        """Find an order."""
        return self._note("find_order", customer=customer, open_only=open_only)

    def send_note(self, to: str, body: str, tags: list[str]) -> str:
        """Send a note."""
        return self._note("send_note", to=to, body=body, tags=tags)

    def list_orders(self) -> str:
        """List all orders."""
        return self._note("list_orders")

    def _note(self, name: str, **args: Any) -> str:
        self.made.append((name, args))
        return "done"

    @property
    def functions(self) -> list[Any]:
        """The tools."""
        return [self.refund, self.find_order, self.send_note, self.list_orders]


def play(kind: Any, reply: str, adapter: Any) -> tuple[list[tuple[str, dict[str, Any]]], float, str]:
    """Play one reply: what an agent does, the seconds, and what it raised."""
    shop, replies = Shop(), iter([reply])
    end = decision("finish", answer="done") if adapter is None else '{"answer": "done"}'
    lm = FunctionLM("bench/shapes", lambda prompt: next(replies, end))
    if kind is ReActGenerator:
        # as tools that only read: calls that merely follow each other are made together too, and the reading is what counts
        tools = [Tool.from_function(function, read_only=True) for function in shop.functions]
        agent = ReActGenerator("task -> answer", tools=tools, max_iters=1)
    else:
        agent = kind("task -> answer", tools=shop.functions, max_iters=1)
    gc.disable()  # thousands of agents leave a second of garbage, which is no part of reading one reply
    started = time.perf_counter()
    try:
        with dspy.context(lm=lm, adapter=adapter() if adapter is not None else None):
            agent(task="x")
        raised = ""
    except Exception as error:
        raised = type(error).__name__
    seconds = time.perf_counter() - started
    gc.enable()
    return shop.made, seconds, raised


def same(made: list[tuple[str, dict[str, Any]]], reply: Reply) -> bool:
    """Check whether the calls that stand in the reply were made, and no other."""
    return made == reply.calls


def guessed(made: list[tuple[str, dict[str, Any]]], reply: Reply) -> bool:
    """Check whether anything was made that does not stand whole in a reply that is cut off."""
    return made != reply.calls[: len(made)]


def main() -> dict[str, Any]:
    """Play, count, and return the report."""
    right = dict.fromkeys(ADAPTERS, 0)
    theirs, guesses, raised, slowest = 0, [], [], 0.0
    missed: list[str] = []
    replies = list(readable())
    for name, adapter in ADAPTERS.items():
        for reply in replies:
            made, seconds, error = play(ReActGenerator, reply.text, adapter)
            right[name] += same(made, reply)
            slowest = max(slowest, seconds)
            raised += [f"{name}: {reply.shape}: {error}"] if error else []
            if not same(made, reply):
                missed.append(f"{name}: {reply.shape}: {made}")
            if adapter is None:
                theirs += same(play(dspy.ReAct, reply.text, adapter)[0], reply)
    cuts = list(cut_off())
    for index, reply in enumerate(cuts):
        made, seconds, error = play(ReActGenerator, reply.text, list(ADAPTERS.values())[index % 3])
        slowest = max(slowest, seconds)
        raised += [f"{reply.shape}: {error}"] if error else []
        guesses += [f"{reply.shape}: {reply.text[-60:]!r}: {made}"] if guessed(made, reply) else []
    for reply in hostile():
        for name, adapter in ADAPTERS.items():
            made, seconds, error = play(ReActGenerator, reply.text, adapter)
            slowest = max(slowest, seconds)
            raised += [f"{name}: {reply.shape}: {error}"] if error else []
            guesses += [f"{reply.shape}: {made}"] if made else []
    return {
        "shapes": len(replies),
        "right_share": {name: count / len(replies) for name, count in right.items()},
        "lowest_share": min(right.values()) / len(replies),
        "plain_react_share": theirs / len(replies),
        "cut_off": len(cuts),
        "guesses": len(guesses),
        "raised": len(raised),
        "slowest_seconds": slowest,
        "examples": {"missed": missed[:20], "guesses": guesses[:20], "raised": raised[:20]},
    }


if __name__ == "__main__":
    command(main)
