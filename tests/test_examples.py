"""Every example runs as it stands."""

import subprocess
import sys

import pytest
from conftest import ROOT

SHOWS = {
    ("calculator_agent.py",): ["calculator", "answer: 40.8"],
    ("failure_policy.py",): ["retried: 2 attempts, 21 °C", "out of service: True", "stopped: interrupted"],
    ("console_observer.py",): ["run_started", "tool_call_error", "run_completed"],
    ("tool_approval.py", "--yes"): ["the agent wants: pay", "paid 12.50 to Ana -> settled"],
    ("tool_approval.py", "--no"): ["not this month -> not paid"],
}


@pytest.mark.parametrize("command", SHOWS, ids=" ".join)
def test_an_example_runs(command, tmp_path):
    name, *options = command
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *options], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for text in SHOWS[command]:
        assert text in done.stdout


def test_every_example_is_tested():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {command[0] for command in SHOWS}
