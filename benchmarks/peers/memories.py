"""Memories of other libraries: notes in, what a prompt shows out, over JSON lines. ``python memories.py NAME``.

Stand-alone: each needs only its own ``requirements-NAME.txt``. The protocol is in ``README.md``. All get the same notes with
the same vectors; what would ask a language model is left out, as none is there: mem0 stores with ``infer=False``, the ports
of ACE get each note as a bullet.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from importlib.metadata import version
from typing import Any

USER = "bench"
DIMENSIONS = 384


class AcePlaybook:
    """`ace-playbook`: the whole book stands in the prompt, after its grow-and-refine with the given vectors."""

    packages = ("ace-playbook",)

    def __init__(self) -> None:
        from ace.playbook import Playbook

        self.book = Playbook()
        self.vectors: dict[str, list[float]] = {}

    def add(self, note: str, vector: list[float]) -> None:
        """Add a note as a bullet that helped once."""
        from ace.playbook import Bullet

        self.vectors[note] = vector
        self.book.add(Bullet(content=note, section="strategies", helpful_count=1))

    def learned(self) -> None:
        """Merge duplicates."""
        from ace.refine import grow_and_refine

        grow_and_refine(self.book, embedder=lambda texts: [self.vectors[text] for text in texts])

    def look_up(self, query: str, vector: list[float], k: int) -> str:
        """Return everything."""
        return self.book.render()


class AceFramework:
    """`ace-framework`: the whole skill book stands in the prompt; its search for duplicates is off unless configured."""

    packages = ("ace-framework", "python-toon")

    def __init__(self) -> None:
        from ace import Skillbook

        self.book = Skillbook()

    def add(self, note: str, vector: list[float]) -> None:
        """Add a note as a skill that helped once."""
        self.book.add_skill("strategies", note, metadata={"helpful": 1})

    def learned(self) -> None:
        """Do nothing."""

    def look_up(self, query: str, vector: list[float], k: int) -> str:
        """Return everything."""
        return self.book.as_prompt()


class Mem0:
    """`mem0ai`: its default store, local Qdrant; without its language extras it searches by meaning only."""

    packages = ("mem0ai", "qdrant-client")

    def __init__(self) -> None:
        folder = tempfile.mkdtemp()
        os.environ |= {"MEM0_DIR": folder, "MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none"}
        from mem0 import Memory

        store = {"path": f"{folder}/qdrant", "embedding_model_dims": DIMENSIONS, "collection_name": "bench"}
        self.memory = Memory.from_config(
            {"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": f"{folder}/history.db"}
        )
        self.memory.embedding_model = self
        self.vector: list[float] = []

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of what is being added or looked up."""
        return self.vector

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """Return the same for several."""
        return [self.vector for _ in texts]

    def add(self, note: str, vector: list[float]) -> None:
        """Add a note as it is."""
        self.vector = vector
        self.memory.add(note, user_id=USER, infer=False)

    def learned(self) -> None:
        """Do nothing."""

    def look_up(self, query: str, vector: list[float], k: int) -> str:
        """Return the k best."""
        self.vector = vector
        found = self.memory.search(query, top_k=k, filters={"user_id": USER}, threshold=0.0)["results"]
        return "\n".join(item["memory"] for item in found)


class LangMem:
    """`langmem`: its tools to manage and to search memories, over LangGraph's `InMemoryStore`."""

    packages = ("langmem", "langgraph", "langchain-core")

    def __init__(self) -> None:
        from langgraph.store.memory import InMemoryStore
        from langmem import create_manage_memory_tool, create_search_memory_tool

        self.vector: list[float] = []
        store = InMemoryStore(index={"dims": DIMENSIONS, "embed": lambda texts: [self.vector for _ in texts]})
        self.manage = create_manage_memory_tool(namespace=(USER,), store=store)
        self.search = create_search_memory_tool(namespace=(USER,), store=store)

    def add(self, note: str, vector: list[float]) -> None:
        """Add a note as a memory."""
        self.vector = vector
        self.manage.invoke({"content": note, "action": "create"})

    def learned(self) -> None:
        """Do nothing."""

    def look_up(self, query: str, vector: list[float], k: int) -> str:
        """Return the k best, as the tool shows them to a model."""
        self.vector = vector
        found = json.loads(self.search.invoke({"query": query, "limit": k}))
        return "\n".join(item["value"]["content"] for item in found)


MEMORIES: dict[str, Any] = {
    "ace_playbook": AcePlaybook,
    "ace_framework": AceFramework,
    "mem0": Mem0,
    "langmem": LangMem,
}


def main(name: str) -> None:
    """Serve requests from stdin until it ends; stray prints go to stderr."""
    channel, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.WARNING)
    memory = MEMORIES[name]()
    versions = {package: version(package) for package in memory.packages}
    print(json.dumps({"ready": True, "versions": versions}), file=channel, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.perf_counter()
        shown = ""
        if "add" in asked:
            memory.add(asked["add"], asked["vector"])
        elif "look_up" in asked:
            shown = memory.look_up(asked["look_up"], asked["vector"], asked["k"])
        else:
            memory.learned()
        spent = 1_000 * (time.perf_counter() - started)
        print(json.dumps({"shown": shown, "ms": spent}), file=channel, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
