"""Lessons from STATE-Bench's recorded conversations: ``python benchmarks/state_bench.py DATA OUT.json``.

DATA/state_bench holds 100 recorded conversations in each of two domains. For each conversation a playbook learns from all
the others, and is asked for its first message: do its changing calls (every tool but `get_*` and `search_*` changes) stand
in one of three shown lessons? Beside it ``exprag``: the three conversations whose first messages are most
alike, by the same embedder. Conversations that change nothing are not asked for. A value of a customer (an id, a name, an
address, from the answers of `get_*`) must stand in no lesson.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ace.evaluation.stats import share
from ace.learner import Learner
from ace.learner.traces import read_requests
from ace.playbook import CallableEmbedder, MiniLMEmbedder, Playbook
from ace.playbook.delta import Learned
from ace.playbook.render import render_bullet
from ace.reflector import Reflector
from ace.tasks import Feedback, TaskOutput

DOMAINS = ("customer_support", "travel")
K = 3
TRUSTED = ("get_policies",)
"""What answers in the words of the shop itself."""
PERSONAL = re.compile(r"(?:^|_)(?:name|email|phone|address|street|user_id|customer_id|booking_id|order_id)$")


def messages(conversation: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A conversation as OpenAI's messages: its calls stand beside the reply that they led to."""
    found: list[dict[str, Any]] = []
    for number, turn in enumerate(conversation):
        calls = turn.get("tool_calls") or []
        for at, call in enumerate(calls):
            made = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
            name = f"c{number}_{at}"
            found.append(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": name, "type": "function", "function": made}],
                }
            )
            found.append({"role": "tool", "tool_call_id": name, "content": json.dumps(call["result"])})
        if turn["content"] != "[TASK_DONE]":
            found.append({"role": turn["role"], "content": turn["content"]})
    return found


def changing(conversation: list[dict[str, Any]]) -> frozenset[str]:
    """The tools of a conversation that change something."""
    names = {call["name"] for turn in conversation for call in turn.get("tool_calls") or []}
    return frozenset(name for name in names if not name.startswith(("get_", "search_")))


def personal(value: Any, name: str = "") -> Iterator[str]:
    """The values of a customer in an answer."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from personal(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from personal(item, name)
    elif isinstance(value, str) and PERSONAL.search(name) and len(value) > 3:
        yield value


def remembering(model: MiniLMEmbedder) -> CallableEmbedder:
    """The same embedder, which embeds a text once for all books."""
    known: dict[str, Any] = {}

    def embed(texts: Sequence[str]) -> Any:
        if fresh := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(fresh, model.embed(fresh), strict=True))
        return np.stack([known[text] for text in texts])

    return CallableEmbedder(model.name, embed)


class OnceReflector(Reflector):
    """Reads each run once for all books: what a run teaches does not depend on the book."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[str, Learned] = {}

    def read(self, output: TaskOutput, feedback: Feedback, **known: Any) -> Learned:
        """See `Reflector.read`."""
        if output.run_id not in self._read:
            self._read[output.run_id] = super().read(output, feedback, **known)
        return self._read[output.run_id]


def requests_of(talks: list[list[dict[str, Any]]], reads: Collection[str]) -> list[list[TaskOutput]]:
    """The runs of each conversation, one for each request."""
    return [read_requests(messages(talk), read_only=reads) for talk in talks]


def learn(book: Playbook, talks: Iterable[Sequence[TaskOutput]], reads: Collection[str], reflector: Reflector) -> None:
    """Learn from the requests of conversations that all did what they should."""
    runs = list(chain.from_iterable(talks))
    Learner(book, reflector=reflector).learn_from_traces(runs, [True] * len(runs), read_only=reads, trusted=TRUSTED)


def domain(folder: Path) -> dict[str, Any]:
    """Learn from the conversations of one domain, and ask for each."""
    talks = [
        json.loads(path.read_text(encoding="utf-8"))["conversation"] for path in sorted(folder.glob("train/*.json"))
    ]
    asked = [next(turn["content"] for turn in talk if turn["role"] == "user") for talk in talks]
    wanted = [changing(talk) for talk in talks]
    tools = {call["name"] for talk in talks for turn in talk for call in turn.get("tool_calls") or []}
    reads = {name for name in tools if name.startswith(("get_", "search_"))}
    values = {
        v for talk in talks for turn in talk for call in turn.get("tool_calls") or [] for v in personal(call["result"])
    }
    vectors = np.array(MiniLMEmbedder().embed(asked))
    near = vectors @ vectors.T - 9 * np.eye(len(talks))
    ours, others = list[float](), list[float]()
    runs, reflector, embedder = requests_of(talks, reads), OnceReflector(), remembering(MiniLMEmbedder())
    for number, calls in enumerate(track(wanted, folder.name, console=Console(stderr=True))):
        if not calls:
            continue
        with Playbook(embedder=embedder) as book:
            learn(book, [*runs[:number], *runs[number + 1 :]], reads, reflector)
            shown = book.retrieve(asked[number])
        ours.append(float(any(calls <= set(bullet.tool_sequence) for bullet in shown)))
        others.append(float(any(calls <= wanted[other] for other in np.argsort(-near[number])[:K])))
    with Playbook(embedder=embedder) as book:
        learn(book, runs, reads, reflector)
        kept = "\n".join(f"{render_bullet(b)} {b.model_dump_json()}" for b in book.bullets).lower()
        leaked = sorted(value for value in values if re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", kept))
        lessons = len(book)
    report: dict[str, Any] = {"asked": len(ours), "lessons": lessons, "leaked": len(leaked), "leaks": leaked[:20]}
    for name, values_of in (("ours", ours), ("exprag", others)):
        found = share(values_of, [str(n) for n in range(len(values_of))])
        report[name] = {key: 100 * getattr(found, key) for key in ("value", "low", "high")}
    return report


def main() -> None:
    """Learn, ask, print, write."""
    data, target = Path(sys.argv[1]), Path(sys.argv[2])
    report = {name: domain(data / "state_bench" / name) for name in DOMAINS}
    table = Table(title="the changing calls of a conversation in one of three lessons, %")
    for name in ("domain", "asked", "ours", "exprag", "values of customers in lessons"):
        table.add_column(name)
    for name, row in report.items():
        cells = (f"{row[m]['value']:.1f} ({row[m]['low']:.1f} to {row[m]['high']:.1f})" for m in ("ours", "exprag"))
        table.add_row(name, str(row["asked"]), *cells, str(row["leaked"]))
    Console(width=120).print(table)
    report["leaked"] = sum(row["leaked"] for row in report.values())
    report["least"] = min(report[name]["ours"]["value"] for name in DOMAINS)
    report["behind"] = max(report[name]["exprag"]["low"] - report[name]["ours"]["value"] for name in DOMAINS)
    target.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
