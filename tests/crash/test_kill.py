"""A 30-step run with side effects is killed with SIGKILL, at every step boundary and inside tools, and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PLANNED = 32
"""With a plan: one decision and thirty calls, then the last decision."""
SAVES = 62
"""30 decisions and 30 calls are each on the disk before they are made, then the last decision and the end."""


def examine(folder: Path, cases: list[str]) -> list[dict]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("harness.py")), str(folder), *cases],
        capture_output=True,
        text=True,
        timeout=1_500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    whole, *reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == len(cases)
    for report in reports:
        details = json.dumps(report)
        assert report["killed"], details
        assert not report["repeated"], details
        assert report["last"]["answer"] == whole["last"]["answer"], details
        assert report["last"]["reason"] == "completed", details
        assert report["state"] == whole["state"], details
        if report["out"] == ["append"]:  # it is unknown whether it was done: the run stops and asks
            assert report["first"]["waits"] == "unknown_effect", details
            assert report["first"]["reason"] == "interrupted", details
            assert report["first"]["interrupted"] == ["append"], details
        else:  # at a boundary, or inside a tool that may be repeated: it just goes on
            assert report["first"] == report["last"], details
            assert report["first"]["attempts"] == (2 if report["out"] else 1), details
    return reports


def test_killed_and_resumed(tmp_path):
    reports = examine(tmp_path, [*(f"save:{n}" for n in range(1, SAVES, 9)), *(f"tool:{n}" for n in range(8))])
    assert any(report["boundary"] for report in reports)
    assert any(report["out"] == ["append"] for report in reports)
    assert any(report["out"] == ["put"] for report in reports)


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_killed_at_every_boundary_and_at_fifty_moments_inside_tools(tmp_path):
    examine(tmp_path, [*(f"save:{n}" for n in range(1, SAVES + 1)), *(f"tool:{n}" for n in range(100, 150))])


def test_a_run_that_follows_a_plan_is_killed_and_resumed(tmp_path):
    reports = examine(
        tmp_path, [*(f"plan-save:{n}" for n in range(1, PLANNED, 6)), *(f"plan-tool:{n}" for n in range(6))]
    )
    assert any(report["out"] == ["append"] for report in reports)


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_a_run_that_follows_a_plan_is_killed_two_hundred_times(tmp_path):
    cases = [*(f"plan-save:{n}" for n in range(1, PLANNED + 1)), *(f"plan-tool:{n}" for n in range(200, 368))]
    assert len(cases) == 200
    examine(tmp_path, cases)
