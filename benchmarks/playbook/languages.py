"""Does an agent learn from requests in the user's own language?

Four things that a library does for its readers, in eighteen languages: three runs of each are learned from, then eight
requests about two new readers are asked. Names are inflected where the language does that. A hit is the right lesson first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ace import Playbook, ReActGenerator, tool
from ace.testing import ScriptedLM, decision
from benchmarks.command import command

RUNS = 3
ACTS = ("renew_loan", "report_lost", "reserve", "send_reminder")
REQUESTS: dict[str, dict[str, list[str]]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By language a request for each act, and five readers, with the inflected name where there is one."""


def card_of(reader: str) -> str:
    """Return the number of a reader's card."""
    return f"c-{1000 + sum(map(ord, reader)) % 9000}"


@tool(read_only=True)
def find_card(reader: str) -> dict[str, str]:
    """Find a reader's card."""
    return {"card": card_of(reader)}


@tool
def renew_loan(card: str) -> str:
    """Renew the loan of a card."""
    return "ok"


@tool
def report_lost(card: str) -> str:
    """Report the book of a card as lost."""
    return "ok"


@tool
def reserve(card: str) -> str:
    """Reserve the next book for a card."""
    return "ok"


@tool
def send_reminder(card: str) -> str:
    """Send the reader of a card a reminder."""
    return "ok"


def hits_of(language: str) -> tuple[int, int]:
    """Count the new requests, of eight, for which the right lesson comes first, and the names that the book holds."""
    requests = REQUESTS[language]["requests"]
    readers = [(name.split("/")[0], name.split("/")[-1]) for name in REQUESTS[language]["readers"]]
    tools = [find_card, renew_loan, report_lost, reserve, send_reminder]
    with Playbook() as book:
        for reader, inflected in readers[:RUNS]:
            for request, act in zip(requests, ACTS, strict=True):
                calls = [decision("find_card", reader=reader), decision(act, card=card_of(reader))]
                agent = ReActGenerator(tools=tools, lm=ScriptedLM([*calls, decision("finish", answer="ok")]))
                out = agent.run(request.format(inflected))
                agent.playbook = book
                agent.learn(out, success=True)
        hits = 0
        for _, inflected in readers[RUNS:]:
            for request, act in zip(requests, ACTS, strict=True):
                shown = book.retrieve(request.format(inflected))
                hits += bool(shown) and act in shown[0].tool_sequence
        kept = json.dumps([bullet.model_dump(mode="json") for bullet in book.bullets], ensure_ascii=False)
        return hits, sum(reader in kept for reader, _ in readers)


def main() -> dict[str, Any]:
    """Return the hits of each language."""
    found = {language: hits_of(language) for language in REQUESTS}
    report = {"least": min(hits for hits, _ in found.values()), "leaked": sum(leaked for _, leaked in found.values())}
    return report | {"hits": {language: hits for language, (hits, _) in found.items()}}


if __name__ == "__main__":
    command(main)
