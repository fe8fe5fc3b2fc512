"""A search among 10,000 lessons beside mem0's and LangGraph's stores: ``python -m benchmarks.playbook.peers [OUT.json]``.

All hold the same MiniLM vectors and get the same query vectors; embedding is not timed. Ours is a whole cold retrieval:
meaning, words, filters, utility, diversity, budget. mem0 (its default store, local Qdrant, and its FAISS store) and
LangGraph's `InMemoryStore` search by meaning only, as their packages come. Each round asks everybody once; figures are
medians, ratios are medians of the ratios within a round.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ace.playbook import CallableEmbedder, MiniLMEmbedder, Playbook
from benchmarks.command import command
from benchmarks.peers.peer import Peer
from benchmarks.playbook.bench import bullets, sentences

COUNT, ROUNDS, WARM, K = 10_000, 60, 5, 3
PEERS = {
    "LangGraph InMemoryStore": ("langgraph", "langgraph_store.py"),
    "mem0, Qdrant": ("mem0", "mem0_store.py", "qdrant"),
    "mem0, FAISS": ("mem0", "mem0_store.py", "faiss"),
}


def main() -> dict[str, Any]:
    """Return the report."""
    texts, queries = sentences(COUNT), sentences(ROUNDS + WARM, seed=1)
    model = MiniLMEmbedder()
    rows = dict(zip([*texts, *queries], model.embed([*texts, *queries]), strict=True))

    def given(asked: Sequence[str]) -> Any:
        return np.stack([rows[text] for text in asked])

    lessons, wanted = given(texts), given(queries)
    exact = np.argsort(-(wanted @ lessons.T), axis=1)[:, :K]
    times: dict[str, list[float]] = {"ours": [], **{name: [] for name in PEERS}}
    hits: dict[str, int] = dict.fromkeys(PEERS, 0)
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/rows.npy", f"{folder}/queries.npy"]
        np.save(files[0], lessons)
        np.save(files[1], wanted)
        peers = {name: Peer(home, script, *files, *more) for name, (home, script, *more) in PEERS.items()}
        with Playbook.open(f"{folder}/book.db", embedder=CallableEmbedder("given", given), screen=None) as book:
            adds = bullets(texts)
            # what is embedded is the masked text; each keeps the vector that the peers get
            rows.update((book.index.entries(a.bullet)[0].meaning, rows[t]) for a, t in zip(adds, texts, strict=True))
            rows.update((book.index.masked(query).meaning, rows[query]) for query in queries)
            book.commit(adds)
            for number, query in enumerate(queries):
                started = time.perf_counter()
                book.retrieve(query, k=K)
                spent = {"ours": 1_000 * (time.perf_counter() - started)}
                for name, peer in peers.items():
                    answer = peer.ask({"query": number, "k": K})
                    spent[name] = answer["ms"]
                    if number >= WARM:
                        hits[name] += len(set(answer["found"]) & set(exact[number].tolist()))
                if number >= WARM:
                    for name, taken in spent.items():
                        times[name].append(taken)
        versions = {key: value for peer in peers.values() for key, value in peer.versions.items()}
        for peer in peers.values():
            peer.close()
    report: dict[str, Any] = {"versions": versions, "ms": {}, "times_ours": {}, "recall_at_3": {}}
    for name, taken in times.items():
        report["ms"][name] = statistics.median(taken)
        ratios = [theirs / ours for theirs, ours in zip(taken, times["ours"], strict=True)]
        report["times_ours"][name] = statistics.median(ratios)
        recall = hits[name] / (K * ROUNDS) if name in hits else None
        report["recall_at_3"][name] = recall
    return report


if __name__ == "__main__":
    command(main)
