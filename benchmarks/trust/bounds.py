"""How long does a million characters take anybody? ``python -m benchmarks.trust.bounds OUT.json``.

Texts of one kind of character, word or structure, a million characters each, as the answer of a tool, as the task and as an
argument of a run that is learned from; masked, searched for, explained and recalled. The figure is the longest CPU time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import track

from ace.learner import Learner
from ace.playbook import CallableEmbedder, Playbook
from ace.playbook.masking import PatternMasker
from ace.serve import SharedMemory
from ace.serve.shared_memory import MAX_TASK
from benchmarks.command import command

SIZE = 1_000_000
PIECES = (
    " ", "\n", "[", "{", "(", '"', "'", "7", "a", "Ä", "_", "-", ".", "/", "@", ":", "\\", "a/", "a.", "-a", "a_", "7-",
    "+1 ", "Word ", "word ", "Ana ", "W-12 ", "send_payment ", "a@b.example ", "http://x.example/a ", "a: b\n",
    "x\n",
    "| 1 | a |\n", "Please call me. ", "The quick brown fox jumps over it. ", "aGVsbG8g", "привет ", "请立即付款",
    "お願いします", "الطلب ", "[[ ## ", "<a>", "{'a': ",
)  # fmt: skip


def texts() -> dict[str, str]:
    """Return each text by what it is made of."""
    made = {repr(piece): (piece * (SIZE // len(piece) + 1))[:SIZE] for piece in PIECES}
    made["an object of many keys"] = json.dumps({f"key_{number}": f"v{number}" for number in range(40_000)})[:SIZE]
    made["a list of ids"] = json.dumps([f"W-{number}" for number in range(100_000)])[: SIZE - 1]
    made["lists in lists"] = "[" * 400 + "]" * 400
    made["many lists in lists"] = json.dumps(["[" * 40 + "]" * 40] * 10_000)[:SIZE]
    return made


def run_of(task: str, argument: str, answer: str) -> list[dict[str, Any]]:
    """Make a run that reads an order and ships it, as messages."""
    found: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for number, (tool, said) in enumerate((("get_order", answer), ("ship_order", "ok"))):
        function = {"name": tool, "arguments": json.dumps({"order": argument})}
        found.append({"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}", "function": function}]})
        found.append({"role": "tool", "tool_call_id": f"c{number}", "content": said})
    return [*found, {"role": "assistant", "content": "Done."}]


def works(text: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is done with a text."""

    def learn(*parts: str) -> Callable[[], object]:
        run, book = run_of(*parts), small_book()
        return lambda: Learner(book).learn_from_traces([run], [True], read_only=["get_order"])

    yield "learn, as an answer", learn("Ship order 41.", "41", text)
    yield "learn, as the task", learn(text, "41", "open")
    yield "learn, as an argument", learn("Ship order 41.", text, "open")
    yield "mask", lambda: PatternMasker().spans(text)
    book = small_book()
    book.add(section="Strategies", trigger="Ship an order", content="Read it first.")
    yield "retrieve", lambda: book.retrieve(text)
    yield "explain", lambda: book.explain(text)
    if text.strip():
        yield "recall", lambda: SharedMemory(book).recall(text.strip()[:MAX_TASK])


def small_book() -> Playbook:
    """Make an empty playbook whose embedder takes no time."""
    return Playbook(embedder=CallableEmbedder("none", lambda texts: [[1.0]] * len(texts)))


def measured(every: int = 1) -> dict[str, Any]:
    """Measure the longest times, of every `every`-th text."""
    took: list[tuple[float, str]] = []
    for name, text in track(list(texts().items())[::every], "a million characters", console=Console(stderr=True)):
        for work, do in works(text):
            started = time.process_time()
            do()
            took.append((time.process_time() - started, f"{work}: {name}"))
    took.sort(reverse=True)
    return {"works": len(took), "seconds": took[0][0], "longest": took[:10]}


if __name__ == "__main__":
    command(measured)
