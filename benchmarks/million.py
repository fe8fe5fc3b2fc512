"""A million vectors: ``python benchmarks/million.py OUT.json [--data DATA] [--count 1000000]``.

x = normalise(e + 0.5 g / sqrt(384)), e drawn from the embeddings of the WorkBench and BFCL queries, g standard normal; 1,000
queries are drawn alike. Gaussian vectors, which have no structure to find, are measured too, and a book that grows in steps
of 10,000 to a fifth of the size. Recall is that of the three
nearest against an exact search; memory is what the process gained beside what the raw vectors take.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ace.playbook.index.dense import DenseIndex
from ace.playbook.index.ivf import release_memory

DIMENSION, QUERIES, BATCH = 384, 1_000, 50_000
CASES = ("queries", "queries-8bit", "queries-grown", "gaussian")


def resident() -> int:
    """Bytes of memory that this process holds now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return 1_024 * int(line.split()[1])
    raise RuntimeError("no VmRSS in /proc/self/status")


def draws(centres: np.ndarray | None, count: int, seed: int) -> np.ndarray:
    """`count` unit vectors, a batch at a time, around the centres, or Gaussian."""
    random = np.random.default_rng(seed)
    rows = np.empty((count, DIMENSION), dtype=np.float32)
    for start in range(0, count, BATCH):
        part = rows[start : start + BATCH]
        part[:] = random.standard_normal(part.shape, dtype=np.float32)
        if centres is not None:
            part *= 0.5 / np.sqrt(DIMENSION)
            part += centres[random.integers(len(centres), size=len(part))]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def centres_of(data: Path) -> np.ndarray:
    """Embeddings of the queries of both sets."""
    from retrieval_bench import read_tasks, suite_tasks

    from ace.playbook import MiniLMEmbedder
    from ace.suites.registry import load_suite

    tasks = [
        *suite_tasks(load_suite(f"workbench:{data / 'workbench'}")),
        *read_tasks(data / "bfcl_turns" / "tasks.jsonl"),
    ]
    return MiniLMEmbedder().embed([task.query for task in tasks])


def measure(centres: np.ndarray | None, count: int, quantization: str, step: int) -> dict[str, Any]:
    """Build, `step` vectors at a time; search, compare with exact search."""
    import faiss

    rows, queries = draws(centres, count, 0), draws(centres, QUERIES, 1)
    _, exact = faiss.knn(queries, rows, 3, metric=faiss.METRIC_INNER_PRODUCT)
    raw = rows.nbytes
    gc.collect()
    release_memory()  # what loading a model left behind must not count as memory that the index gave back
    index, before = DenseIndex(DIMENSION, quantization), resident()  # type: ignore[arg-type]
    started = time.perf_counter()
    for start in range(0, count, step):
        index.put(np.arange(start, min(start + step, count)), rows[start : start + step])
    index.wait()
    build = time.perf_counter() - started
    del rows
    gc.collect()
    held = resident() - before + raw  # the rows have been given back meanwhile
    times, hits = [], 0
    for query, wanted in zip(queries, exact, strict=True):
        started = time.perf_counter()
        found, _ = index.search(query, 3)
        times.append(time.perf_counter() - started)
        hits += len(set(found) & set(wanted.tolist()))
    started = time.perf_counter()
    index.remove(list(range(1_000)))
    removal = time.perf_counter() - started
    return {
        "vectors": count,
        "recall_at_3": hits / (3 * QUERIES),
        "p50_ms": 1_000 * statistics.median(times),
        "p95_ms": 1_000 * statistics.quantiles(times, n=20)[-1],
        "memory_ratio": held / raw,
        "build_minutes": build / 60,
        "remove_1000_s": removal,
        "cells_visited": int(index._index.nprobe),
        "cells": int(index._index.nlist),
    }


def main() -> None:
    """Each case in a process of its own, so that memory is its own; write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, nargs="?", help="where the figures are written")
    parser.add_argument("--data", type=Path, help="the folder with workbench and bfcl_turns; without it, Gaussian only")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--case", choices=CASES, help="one case only")
    given = parser.parse_args()
    if given.case:
        centres = centres_of(given.data) if given.case.startswith("queries") else None
        count, step = (given.count // 5, 10_000) if given.case.endswith("grown") else (given.count, given.count)
        report = measure(centres, count, "8bit" if given.case.endswith("8bit") else "none", step)
        given.target.write_text(json.dumps(report), encoding="utf-8")
        return
    cases = CASES if given.data else ("gaussian",)
    reports: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "case.json"
        for case in cases:
            print(f"{case} ...", flush=True)
            command = [sys.executable, __file__, str(part), "--count", str(given.count), "--case", case]
            subprocess.run([*command, *(["--data", str(given.data)] if given.data else [])], check=True)
            reports[case.replace("-", "_")] = json.loads(part.read_text(encoding="utf-8"))
            print(reports[case.replace("-", "_")], flush=True)
    if given.target:
        given.target.write_text(json.dumps(reports, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
