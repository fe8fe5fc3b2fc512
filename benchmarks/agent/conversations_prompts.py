"""What twenty messages cost, and what of it a cache would serve.

``python -m benchmarks.agent.conversations_prompts OUT.json``

A customer asks for one order after another; a stand-in behind an OpenAI-compatible server on loopback looks each one up
and answers. The same conversation is held by our agent in both modes, by plain `dspy.ReActV2` with its `dspy.History`,
and by Pydantic AI with its message history. What went over the wire is compared: the requests; whether each of our prompts
begins with the whole of the one before, byte for byte, its closing instructions left out; and the share of all prompt
characters that an earlier request of the conversation had as its beginning, which is what a prefix cache can serve.
Then the same again with a model that takes 2,000 tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import dspy
from dspy import lm15
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from ace import ReActGenerator
from ace.playbook import CallableEmbedder, Playbook
from ace.playbook.render import count_tokens
from ace.react.program import REACT
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt
from ace.tools import tool
from benchmarks.command import command
from benchmarks.model_server import serve

NAMES = (  # noqa: SIM905
    "Ana Ben Cleo Dan Eva Finn Gus Hana Ida Jon Kim Lea Max Nia Olaf Pia Quin Rosa Sam Tom"  # 20 customers
).split()
CLOSING = "Respond with the corresponding output fields"
WINDOW = 2_000


@tool(read_only=True)
def find_order(customer: str) -> str:
    """Find the order of a customer."""
    return (
        f"{customer}'s order is number {NAMES.index(customer) + 100}: " + "one lamp, two chairs, sent by train. " * 12
    )


def question(name: str) -> str:
    """Return what the customer asks."""
    return f"Where is the order of {name}?" if name == NAMES[0] else f"And the order of {name}?"


def clerk(said: str) -> tuple[str, bool]:
    """Return who is asked for last, and whether the order was looked up since."""
    last = list(re.finditer(r"order of (\w+)\?", said))[-1]
    return last[1], f"{last[1]}'s order is" in said[last.end() :]


def text_reply(prompt: Prompt) -> str:
    """Answer as the stand-in in text mode."""
    name, found = clerk(prompt.whole)
    if not found:
        return decision("find_order", f"I look up {name}.", customer=name)
    return decision("submit", "It was found.", answer=f"{name}'s is on its way.")


def wire_text(body: dict[str, Any]) -> str:
    """Write a request as the text that a provider's cache sees: tools, then the messages in order."""
    parts = [json.dumps(body.get("tools") or [])]
    for message in body["messages"]:
        content = message.get("content") or ""
        plain = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
        parts.append(f"<{message['role']}>{plain}{calls}")
    return "\n".join(parts)


def measured(hold: Callable[[str], list[str]]) -> dict[str, Any]:
    """Measure one conversation over the wire."""
    bodies: list[dict[str, Any]] = []

    def answer(prompt: Prompt, native: bool) -> Any:
        if not native:
            return text_reply(prompt)
        name, found = clerk(wire_text(bodies[-1] if not requests else requests[-1]))
        if not found:
            return f"I look up {name}.", [("find_order", {"customer": name})]
        submit = any(one["function"]["name"] == "submit" for one in requests[-1]["tools"])
        text = f"{name}'s is on its way."
        return ("It was found.", [("submit", {"answer": text})]) if submit else text

    with serve(answer) as (url, requests):
        answers = hold(url)
        texts = [wire_text(body) for body in requests]
    served = [max((_shared(text, before) for before in texts[:i]), default=0) for i, text in enumerate(texts)]
    broken = sum(not after.startswith(_begins(before)) for before, after in pairwise(texts))
    return {
        "requests": len(texts),
        "prompt_tokens": sum(map(count_tokens, texts)),
        "cached_share": sum(served) / sum(map(len, texts)),
        "broken_prefixes": broken,
        "right": sum(f"{name}'s is on its way." in said for name, said in zip(NAMES, answers, strict=True)),
    }


def _shared(one: str, other: str) -> int:
    """Count how many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _begins(text: str) -> str:
    """Return a prompt without its closing instructions, where it ends with some."""
    at = text.rfind(CLOSING)
    return (text[:at] if at > text.rfind("<user>") else text).rstrip()


def remote(url: str) -> dspy.LM:
    """Return the server as DSPy calls it."""
    return dspy.LM("openai/stand-in", api_base=url, api_key="none", cache=False, num_retries=0)


def book() -> Playbook:
    """Make lessons, of which other ones fit other messages."""
    letters = CallableEmbedder(
        "letters", lambda texts: [[t.lower().count(c) + 0.1 for c in "abcdefghij"] for t in texts]
    )
    found = Playbook(embedder=letters)
    for name in NAMES:
        content = f"Look it up by the name {name} and say where it is."
        found.add(section="Strategies", trigger=f"When {name} asks for an order", content=content)
    return found


def ours(mode: Any, lessons: Playbook | None = None) -> Callable[[str], list[str]]:
    """Make our agent."""

    def hold(url: str) -> list[str]:
        lm = remote(url)
        agent = ReActGenerator(tools=[find_order], lm=lm, tool_calling=mode, playbook=lessons, memory_timeout=None)
        chat = agent.chat()
        return [chat.send(question(name)).answer for name in NAMES]

    return hold


def plain_react(url: str) -> list[str]:
    """Run `dspy.ReActV2`, with the history that it gives."""
    agent = REACT("question -> answer", tools=[find_order.func])
    history, answers = None, list[str]()
    with dspy.context(lm=remote(url), adapter=dspy.ChatAdapter()):
        for name in NAMES:
            out = agent(question=question(name), history=history)
            history = out.history
            answers.append(out.answer)
    return answers


def pydantic_ai(url: str) -> list[str]:
    """Run Pydantic AI, with all messages so far."""
    model = OpenAIChatModel("stand-in", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, tools=[find_order.func])
    history, answers = None, list[str]()
    for name in NAMES:
        result = agent.run_sync(question(name), message_history=history)
        history = result.all_messages()
        answers.append(result.output)
    return answers


def small_window(mode: str) -> dict[str, Any]:
    """Send twenty messages to a model that takes 2,000 tokens."""
    refused = 0

    def answer(prompt: Prompt) -> str:
        nonlocal refused
        if count_tokens(prompt.whole) > WINDOW:
            refused += 1
            raise lm15.ContextLengthError("the prompt is longer than the window")
        return text_reply(prompt)

    chat = ReActGenerator(tools=[find_order], lm=FunctionLM(f"bench/{mode}", answer)).chat()
    outs = [chat.send(question(name)) for name in NAMES]
    right = sum(out.answer == f"{name}'s is on its way." for name, out in zip(NAMES, outs, strict=True))
    cut = sum("context_overflow" in out.output.metadata for out in outs)
    return {"answered": right, "shortened_messages": cut, "refused_prompts": refused}


def main() -> dict[str, Any]:
    """Return the report."""
    lessons = book()
    holders = {
        "text": ours("text"),
        "native": ours("native"),
        "text, with lessons": ours("text", lessons),
        "native, with lessons": ours("native", lessons),
        "dspy.ReActV2": plain_react,
        "Pydantic AI": pydantic_ai,
    }
    found: dict[str, Any] = {name: measured(hold) for name, hold in holders.items()}
    lessons.close()
    return {
        "simulated": True,
        "messages": len(NAMES),
        "by": found,
        "broken_prefixes": sum(
            row["broken_prefixes"] for name, row in found.items() if name.startswith(("text", "native"))
        ),
        "own_requests": sum(row["requests"] for name, row in found.items() if name.startswith(("text", "native"))),
        "wrong_answers": sum(len(NAMES) - row["right"] for row in found.values()),
        "more_requests": max(found["text"]["requests"], found["native"]["requests"])
        - min(found["dspy.ReActV2"]["requests"], found["Pydantic AI"]["requests"]),
        "cached_ahead": min(found["text"]["cached_share"], found["native"]["cached_share"])
        - max(found["dspy.ReActV2"]["cached_share"], found["Pydantic AI"]["cached_share"]),
        "window": small_window("small"),
    }


if __name__ == "__main__":
    command(main)
