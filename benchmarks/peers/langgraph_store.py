"""LangGraph's in-memory store over given vectors: milliseconds per search, over JSON lines.

Stand-alone: it needs only ``requirements-langgraph.txt``. The protocol is in ``README.md``.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

BATCH = 1_000
SPACE = ("lessons",)


class Given(Embeddings):
    """The vector of the text ``"17"`` is row 17; queries are rows of the second file."""

    def __init__(self, rows: np.ndarray, queries: np.ndarray) -> None:
        self.rows, self.queries = rows, queries

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return rows by number."""
        return [self.rows[int(text)].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return a query by number."""
        return self.queries[int(text)].tolist()


def main(rows: str, queries: str) -> None:
    """Fill the store, then serve requests from stdin until it ends."""
    given = Given(np.load(rows), np.load(queries))
    store = InMemoryStore(index={"dims": given.rows.shape[1], "embed": given, "fields": ["text"]})
    for start in range(0, len(given.rows), BATCH):
        numbers = range(start, min(start + BATCH, len(given.rows)))
        store.batch([PutOp(SPACE, str(n), {"text": str(n)}) for n in numbers])
    versions = {name: version(name) for name in ("langgraph", "langgraph-checkpoint")}
    print(json.dumps({"ready": True, "versions": versions}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.perf_counter()
        found = store.search(SPACE, query=str(asked["query"]), limit=asked["k"])
        spent = time.perf_counter() - started
        print(json.dumps({"ms": 1_000 * spent, "found": [int(item.key) for item in found]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
