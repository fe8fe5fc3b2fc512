"""A process that observes runs is killed with SIGKILL at random moments: what `observe` took is learned, once."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crash.learner_harness import embedder

from ace import Learner, Playbook

HARNESS = Path(__file__).with_name("learner_harness.py")


def kill_at_random(folder: Path, kills: int, seed: int) -> None:
    dice, taken = random.Random(seed), 0
    for _ in range(kills):
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        process = subprocess.Popen(
            [sys.executable, str(HARNESS), str(folder), str(taken)], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(dice.randint(1, 60)):
            taken = int(process.stdout.readline()) + 1
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")[:-1]
        process.wait()
        process.stdout.close()
        taken = int(rest[-1]) + 1 if rest else taken
    with Playbook.open(folder / "book.db", embedder=embedder()) as book:
        with Learner(book, state=folder / "runs") as learner:
            assert learner.flush(60)
        rests_on = [run for bullet in book.bullets for run in bullet.provenance.run_ids]
        # a run that was being observed when the process died may be there or not
        assert {f"r{n}" for n in range(taken)} <= set(rests_on) <= {f"r{n}" for n in range(taken + 1)}
        assert len(rests_on) == len(set(rests_on)), "no run was learned from twice"
        assert book.history.verify().ok
    assert list((folder / "runs").glob("*.json")) == []


@pytest.mark.timeout(600)
def test_what_observe_took_survives_the_process(tmp_path):
    kill_at_random(tmp_path, 5, 0)


@pytest.mark.full
@pytest.mark.timeout(1_200)
def test_what_observe_took_survives_two_hundred_kills(tmp_path):
    kill_at_random(tmp_path, 200, 1)
