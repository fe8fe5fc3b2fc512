"""Concurrent writers of a playbook are killed with SIGKILL at random moments; what was acknowledged is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def examine(url: str, folder: Path, kills: int, seed: int) -> None:
    harness = Path(__file__).with_name("playbook_harness.py")
    done = subprocess.run(
        [sys.executable, str(harness), url, str(folder), str(kills), str(seed)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["acked"] > kills / 4, report  # there was something to lose
    assert report["kills"] == kills
    assert (report["problems"], report["lost"], report["half"], report["errors"]) == ([], [], [], []), report
    assert not report["gaps"]
    assert report["index_heals"]


def test_killed_writers_lose_nothing(url, tmp_path):
    examine(url, tmp_path, 12, 0)


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_two_hundred_killed_writers_lose_nothing(url, tmp_path):
    examine(url, tmp_path, 200, 1)
