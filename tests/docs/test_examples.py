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
    ("model_server.py", "--help"): ["dspy.LM(", "--context CONTEXT", "tokens of prompt and reply together"],
    ("state_bench_agent.py", "--help"): ["--learn-only", "run_batch", "AcePlaybookAgent"],
    ("graph_retrieval.py",): ["Orders are sent on Mondays.", "answer: On Monday."],
    ("graph_agent.py",): ["agent_event agent tool_call_completed", "answer: 40.8 after 2 iterations"],
}


@pytest.mark.parametrize("command", SHOWS, ids=" ".join)
def test_an_example_runs(command, tmp_path):
    name, *options = command
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *options], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for text in SHOWS[command]:
        assert text in done.stdout


OVER_PROCESSES = {
    "graph_conversation.py": [
        ("Hello!", "2 messages; so far I saw 0 turns"),
        ("And you?", "4 messages; so far I saw 1 turns"),
    ],
    "graph_review.py": [
        ("run", "+ [new] (Strategies) For a task like <Refund {customer}'s last order>"),
        ("approve", "in the playbook: ['find_order(customer from the task)"),
    ],
}


@pytest.mark.parametrize("name", OVER_PROCESSES)
def test_an_example_goes_on_in_another_process(name, tmp_path):
    for word, shown in OVER_PROCESSES[name]:
        command = [sys.executable, ROOT / "examples" / name, word]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        assert shown in done.stdout


def test_every_example_is_tested():
    names = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert names == {command[0] for command in SHOWS} | OVER_PROCESSES.keys()
