"""mem0's `Memory.search` over given vectors: milliseconds per search, over JSON lines.

Stand-alone: it needs only ``requirements-mem0.txt``. The protocol is in ``README.md``. mem0 is used as its package comes:
without its language extras it searches by meaning only. Its model is configured and never asked.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
import uuid
from importlib.metadata import version

import numpy as np

BATCH = 1_000
USER = {"user_id": "bench"}


class Given:
    """Queries are rows of a file; the text names the row."""

    def __init__(self, queries: np.ndarray) -> None:
        self.queries = queries

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return a query by number."""
        return self.queries[int(text)].tolist()


def main(rows_file: str, queries_file: str, provider: str) -> None:
    """Fill the store, then serve requests from stdin until it ends; stray prints go to stderr."""
    channel, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.WARNING)
    rows, queries = np.load(rows_file), np.load(queries_file)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"MEM0_DIR": folder, "MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none"}
        from mem0 import Memory

        store = {"path": f"{folder}/{provider}", "embedding_model_dims": rows.shape[1], "collection_name": "bench"}
        if provider == "faiss":
            store["distance_strategy"] = "cosine"
        memory = Memory.from_config(
            {"vector_store": {"provider": provider, "config": store}, "history_db_path": f"{folder}/history.db"}
        )
        memory.embedding_model = Given(queries)
        names = [str(uuid.UUID(int=number + 1)) for number in range(len(rows))]
        for start in range(0, len(rows), BATCH):
            part = range(start, min(start + BATCH, len(rows)))
            payloads = [{**USER, "data": f"lesson {number}", "text_lemmatized": f"lesson {number}"} for number in part]
            memory.vector_store.insert([rows[n].tolist() for n in part], payloads, [names[n] for n in part])
        versions = {name: version(name) for name in ("mem0ai", "qdrant-client", "faiss-cpu")}
        print(json.dumps({"ready": True, "versions": versions}), file=channel, flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            started = time.perf_counter()
            found = memory.search(str(asked["query"]), top_k=asked["k"], filters=USER, threshold=0.0)["results"]
            spent = time.perf_counter() - started
            numbers = [uuid.UUID(item["id"]).int - 1 for item in found]
            print(json.dumps({"ms": 1_000 * spent, "found": numbers}), file=channel, flush=True)
        memory.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
