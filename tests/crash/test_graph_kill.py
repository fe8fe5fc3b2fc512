"""A graph that is cut off anywhere ends in the state that it would have had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from crash import graph_harness as harness


def examine(folder: Path, kills: int, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(harness.__file__)), str(folder), str(kills), str(seed)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["kills"] >= kills
    assert report["wrong"] == [], report
    assert report["moments"] > min(4, kills / 4), report  # they died at different steps


def cuts(folder: Path, every: int) -> int:
    """Cut at regular distances, in a process of its own; how many cuts there were."""
    code = (
        "import sys, json, logging, pathlib, graph_harness as harness; logging.disable(logging.WARNING); "
        "print(json.dumps(harness.cut_everywhere(pathlib.Path(sys.argv[1]), int(sys.argv[2]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(every)],
        capture_output=True,
        text=True,
        cwd=Path(harness.__file__).parent,
        timeout=3_000,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    count, wrong = json.loads(done.stdout.splitlines()[-1])
    assert wrong == []
    return count


def test_a_file_cut_at_many_bytes_comes_to_the_same_end(tmp_path):
    assert cuts(tmp_path, 20) > 500


def test_killed_graphs_come_to_the_same_end(tmp_path):
    examine(tmp_path, 8, 2)


@pytest.mark.full
@pytest.mark.timeout(3_600)
def test_a_file_cut_at_every_byte_comes_to_the_same_end(tmp_path):
    assert cuts(tmp_path, 1) > 10_000


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_a_hundred_killed_graphs_come_to_the_same_end(tmp_path):
    examine(tmp_path, 100, 1)
