"""Many processes write to one playbook, others read: no writer waits in vain, no reader sees half a commit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def examine(url: str, folder: Path, processes: int, commits: int, seen_within: float) -> None:
    harness = Path(__file__).with_name("playbook_crowd.py")
    command = [sys.executable, str(harness), url, str(folder), str(processes), str(commits)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_500)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["failed"] == 0, done.stderr[-3000:]
    assert "locked" not in done.stderr
    assert (report["commits"], report["gapless"], report["problems"]) == (processes * commits, True, []), report
    assert report["torn"] == 0, report
    assert report["looks"] > 0
    assert report["seen_after"] < seen_within, report
    print(report)


def test_a_crowd_of_writers(url, tmp_path):
    examine(url, tmp_path, 8, 25, seen_within=5.0)  # beside other tests; the full form promises one second


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_eight_writers_of_five_hundred_commits(url, tmp_path):
    examine(url, tmp_path, 8, 500, seen_within=1.0)
