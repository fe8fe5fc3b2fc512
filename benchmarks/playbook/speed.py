"""How fast a large playbook answers: ``python -m benchmarks.playbook.speed [OUT.json]``; ratios are taken in one run.

10,000 bullets: a cold retrieval beside the bare embedding call, with torch (on one core, and on all) and with the fast back
end; a cached one.
100,000 bullets: opening, and a commit. Texts are recombined from the package's own pairs; at 100,000 the vectors are random,
because embedding is not what is timed there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ace.playbook import CallableEmbedder, MiniLMEmbedder, Playbook
from benchmarks.command import command
from benchmarks.playbook.bench import bullets, sentences, torch_minilm

ROUNDS = 60


def timed(act: Callable[[], Any]) -> float:
    """Measure milliseconds."""
    started = time.perf_counter()
    act()
    return 1_000 * (time.perf_counter() - started)


def ten_thousand(count: int = 10_000) -> dict[str, float]:
    """Measure cold and cached retrievals; each round embeds one text bare and retrieves for another, with both back ends."""
    torch, onnx = torch_minilm(), MiniLMEmbedder()
    texts, queries = sentences(count), sentences(2 * ROUNDS + 20, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "book.db"
        with Playbook.open(file, embedder=onnx, screen=None) as book:
            book.commit(bullets(texts))
            book.retrieve(queries[0])
        books = {name: Playbook.open(file, embedder=e, screen=None) for name, e in (("torch", torch), ("onnx", onnx))}
        for name, embedder in (("torch", torch), ("onnx", onnx)):
            for query in queries[-20:]:
                embedder.embed([query])
                books[name].retrieve(query)
        bare, cold, cached = ({"torch": [], "onnx": []} for _ in range(3))
        for one, other in zip(queries[:ROUNDS], queries[ROUNDS : 2 * ROUNDS], strict=True):
            for name, embedder in (("torch", torch), ("onnx", onnx)):
                bare[name].append(timed(lambda e=embedder, q=other: e.embed([q])))
                books[name]._state.index._queries.clear()
                books[name]._retriever._answers.clear()
                cold[name].append(timed(lambda b=books[name], q=one: b.retrieve(q)))
                cached[name].append(timed(lambda b=books[name], q=one: b.retrieve(q)))
        same = statistics.mean(
            [b.id for b in books["torch"].retrieve(q)] == [b.id for b in books["onnx"].retrieve(q)]
            for q in queries[:ROUNDS]
        )
        for book in books.values():
            book.close()
    medians = {
        f"{name}_{what}_ms": statistics.median(found[name])
        for what, found in (("embed", bare), ("cold", cold))
        for name in ("torch", "onnx")
    }
    return {
        **medians,
        "torch_ratio": medians["torch_cold_ms"] / medians["torch_embed_ms"],
        "onnx_extra_ms": medians["onnx_cold_ms"] - medians["onnx_embed_ms"],
        "onnx_speedup": medians["torch_embed_ms"] / medians["onnx_embed_ms"],
        "cached_us": 1_000 * statistics.median(cached["onnx"]),
        "same_answers": same,
    }


OPEN = """
import sys, time
import sqlalchemy, faiss, onnxruntime
from ace.playbook import CallableEmbedder, Playbook
import ace.playbook.index.index, ace.playbook.playbook
embedder = CallableEmbedder("random", lambda texts: [[1.0] * 384 for _ in texts])
started = time.perf_counter()
book = Playbook.open(sys.argv[1], embedder=embedder, screen=None)
opened = time.perf_counter() - started
book.retrieve("a task")
print(opened, time.perf_counter() - started)
"""


def hundred_thousand(count: int = 100_000) -> dict[str, float]:
    """Measure opening (imports apart) up to the first answer, and commits of one bullet each."""
    dice = np.random.default_rng(0)

    def vectors(texts: Sequence[str]) -> Any:
        return dice.standard_normal((len(texts), 384), dtype=np.float32)

    embedder = CallableEmbedder("random", vectors)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "book.db"
        with Playbook.open(file, embedder=embedder, screen=None) as book:
            texts = sentences(count)
            for start in range(0, count, 10_000):
                book.commit(bullets(texts[start : start + 10_000]))
            book.retrieve("a task")
        runs = [
            subprocess.run(
                [sys.executable, "-c", OPEN, str(file)], check=True, capture_output=True, text=True
            ).stdout.split()
            for _ in range(3)
        ]
        with Playbook.open(file, embedder=embedder, screen=None) as book:
            book.retrieve("a task")
            commits = [timed(lambda add=add: book.commit([add])) for add in bullets(sentences(count + 40)[count:])]
    return {
        "open_s": statistics.median(float(first) for first, _ in runs),
        "open_to_first_answer_s": statistics.median(float(second) for _, second in runs),
        "commit_ms": statistics.median(commits),
    }


def main() -> dict[str, Any]:
    """Return the report."""
    import torch

    cores = torch.get_num_threads()
    everything = ten_thousand()
    torch.set_num_threads(1)  # what is asked of a retrieval was measured so; beside it, the embedding on all cores
    one = ten_thousand()
    torch.set_num_threads(cores)
    one |= {
        "torch_ratio_all_cores": everything["torch_ratio"],
        "torch_embed_all_cores_ms": everything["torch_embed_ms"],
    }
    return {"at_10000": one, "at_100000": hundred_thousand()}


if __name__ == "__main__":
    command(main)
