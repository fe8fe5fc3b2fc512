"""Lessons from STATE-Bench's recorded conversations: ``python -m benchmarks.retrieval.state_bench DATA OUT.json``.

Each domain in DATA/state_bench has 100 recorded conversations of training tasks, and 50 test tasks. No STATE-Bench score:
that needs hosted models. Two things can be had without one. Shown are three lessons each time.

* *Another conversation's calls*: a playbook learns from all conversations but one, and is asked for that one's first
  message. Do its changing calls stand in one of three lessons?
* *What a test task demands*: a playbook learns from all conversations, and is asked for a test task's first message. Do the
  tools stand in one of three lessons that what its database has to hold in the end demands (`Domain.demanded`)?

Beside it ``exprag`` (the three conversations whose first messages are most alike, by the same embedder), ``episodic`` (the
last three) and the whole book, as ace-framework shows it: its share is the most that could be had, and it costs the tokens.
A value of a customer (an id, a name, an address, from the answers of `get_*`) must stand in no lesson.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ace_suites.state_bench import Domain, calls, learn, opening, read_domain, runs_of, writes
from rich.console import Console
from rich.progress import track

from ace.evaluation.stats import paired_difference, share
from ace.playbook import CallableEmbedder, MiniLMEmbedder, Playbook
from ace.playbook.delta import Learned
from ace.playbook.render import count_tokens, render_bullet
from ace.reflector import Reflector
from ace.tasks import Feedback, TaskOutput
from benchmarks.command import command

K = 3
PERSONAL = re.compile(r"(?:^|_)(?:name|email|phone|address|street|user_id|customer_id|booking_id|order_id)$")
Shown = Sequence[tuple[frozenset[str], str]]
"""What a memory shows: the tools of each entry, and its text."""


def personal(value: Any, name: str = "") -> Iterator[str]:
    """Yield the values of a customer in an answer."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from personal(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from personal(item, name)
    elif isinstance(value, str) and PERSONAL.search(name) and len(value) > 3:
        yield value


def remembering(model: MiniLMEmbedder) -> CallableEmbedder:
    """Wrap the embedder so that it embeds a text once for all books."""
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


class Measured:
    """One domain: its conversations read once, and an embedder that remembers."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.talks = list(domain.train.values())
        self.asked, self.wanted = [opening(talk) for talk in self.talks], [writes(talk) for talk in self.talks]
        self.runs, self.reads = runs_of(self.talks)
        self.reflector, self.embedder = OnceReflector(), remembering(MiniLMEmbedder())
        self.vectors: Any = self.embedder.embed(self.asked)

    def book(self, runs: Sequence[Sequence[TaskOutput]]) -> Playbook:
        """Make a playbook that has learned from some conversations."""
        book = Playbook(embedder=self.embedder)
        learn(book, runs, self.reads, self.reflector)
        return book

    def nearest(self, text: str, but: int = -1) -> list[int]:
        """Find the conversations whose first messages are most alike."""
        near = np.asarray(self.embedder.embed([text])[0]) @ self.vectors.T
        return [int(n) for n in np.argsort(-near) if n != but][:K]

    def left_out(self) -> dict[str, list[float]]:
        """Say whether the changing calls of a conversation are shown by a memory of all others."""
        found: dict[str, list[float]] = {"ours": [], "exprag": []}
        for number, tools in enumerate(track(self.wanted, self.domain.name, console=Console(stderr=True))):
            if tools:
                with self.book([*self.runs[:number], *self.runs[number + 1 :]]) as book:
                    shown = book.retrieve(self.asked[number])
                found["ours"].append(float(any(tools <= set(bullet.tool_sequence) for bullet in shown)))
                near = self.nearest(self.asked[number], number)
                found["exprag"].append(float(any(tools <= self.wanted[other] for other in near)))
        return found

    def demanded(self) -> dict[str, Any]:
        """Say by memory whether what test tasks demand is shown, and the tokens of what is shown."""
        episodes = [(tools, "\n".join(f"{c['name']}({json.dumps(c['arguments'])})" for c in calls(talk)))
                    for tools, talk in zip(self.wanted, self.talks, strict=True)]  # fmt: skip
        book = self.book(self.runs)
        memories: dict[str, Callable[[str], Shown]] = {
            "ours": lambda text: [(frozenset(b.tool_sequence), render_bullet(b)) for b in book.retrieve(text)],
            "exprag": lambda text: [episodes[n] for n in self.nearest(text)],
            "episodic": lambda text: episodes[-K:],
            "whole book": lambda text: episodes,
        }
        demands = self.domain.demanded()
        hits: dict[str, list[float]] = {name: [] for name in memories}
        tokens = dict.fromkeys(memories, 0)
        for task, tools in demands.items():
            for name, shows in memories.items():
                shown = shows(self.domain.tasks[task]["opening_message"])
                hits[name].append(float(any(tools <= have for have, _ in shown)))
                tokens[name] += sum(count_tokens(text) for _, text in shown)
        book.close()
        behind = paired_difference(hits["ours"], hits["exprag"], list(demands), binary=True).estimate
        return {
            "asked": len(demands),
            **{name: interval(values) | {"tokens": tokens[name] / len(demands)} for name, values in hits.items()},
            "exprag_ahead": {name: 100 * getattr(behind, name) for name in ("value", "low", "high")},
        }

    def leaks(self) -> tuple[list[str], int]:
        """Find values of customers that stand in a lesson, and count the lessons."""
        values = {value for talk in self.talks for call in calls(talk) for value in personal(call["result"])}
        with self.book(self.runs) as book:
            kept = "\n".join(f"{render_bullet(b)} {b.model_dump_json()}" for b in book.bullets).lower()
            return sorted(v for v in values if re.search(rf"(?<!\w){re.escape(v.lower())}(?!\w)", kept)), len(book)


def interval(values: Sequence[float]) -> dict[str, float]:
    """Return a share in percent, with its interval."""
    found = share(values, [str(n) for n in range(len(values))])
    return {name: 100 * getattr(found, name) for name in ("value", "low", "high")}


def domain(folder: Path) -> dict[str, Any]:
    """Learn from the conversations of one domain, and ask for each of them and for the test tasks."""
    measured = Measured(read_domain(folder))
    left_out, (leaks, lessons) = measured.left_out(), measured.leaks()
    return {
        "asked": len(left_out["ours"]),
        "lessons": lessons,
        "leaked": len(leaks),
        "leaks": leaks[:20],
        **{name: interval(values) for name, values in left_out.items()},
        "demanded": measured.demanded(),
    }


def main(data: Path) -> dict[str, Any]:
    """Learn, ask, and return the report."""
    names = sorted(path.parent.name for path in (data / "state_bench").glob("*/split.json"))
    report: dict[str, Any] = {name: domain(data / "state_bench" / name) for name in names}
    rows = [report[name] for name in names]
    report["note"] = "no STATE-Bench score"
    report["domains"] = len(names)
    report["leaked"] = sum(row["leaked"] for row in rows)
    report["least"] = min(row["ours"]["value"] for row in rows)
    report["behind"] = max(row["exprag"]["low"] - row["ours"]["value"] for row in rows)
    report["tests_behind"] = max(row["demanded"]["exprag_ahead"]["low"] for row in rows)
    report["tests_asked"] = min(row["demanded"]["asked"] for row in rows)
    return report


if __name__ == "__main__":
    command(main)
