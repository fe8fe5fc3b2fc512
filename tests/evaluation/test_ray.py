"""Runs on a Ray cluster with two local workers give what they give here, task by task."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ace.core import SuiteError
from ace.evaluation import evaluate
from ace.evaluation.ray import BUILD, RayCluster
from ace.suites import load_suite
from ace.testing import SimulatedLM

ray = pytest.importorskip("ray", reason="no Ray: pip install 'dspy-ace[dev]'")
ACE = Path(sys.executable).with_name("ace")
ARMS = "none,playbook,online,gold,random,full-history"
CONFIG = {
    "suite": "office",
    "lm": "simulated",
    "models": {},
    "judge_lm": "",
    "api_base": None,
    "cache": False,
    "program": "",
}


def command(folder, *words):
    folder.mkdir(exist_ok=True)
    words = ["evaluate", "office", "--lm", "simulated", "--arms", ARMS, *words, "--json", "out.json"]
    done = subprocess.run([ACE, *words], cwd=folder, capture_output=True, text=True, timeout=3_000)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    report = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    runs = {(run["arm"], run["seed"], run["id"]): run for run in report["runs"]}
    for run in runs.values():
        del run["seconds"]
    return report, runs


@pytest.mark.timeout(1_800)
def test_the_same_numbers_with_one_store_behind_all_workers(tmp_path, postgres):
    few = ("--seeds", "1", "--limit", "5", "--epochs", "1")
    _, here = command(tmp_path / "here", *few)
    _, there = command(tmp_path / "there", *few, "--engine", "ray", "--workers", "2", "--store", postgres)
    assert len(here) == 6 * 5
    assert there == here
    assert not list((tmp_path / "there").rglob("playbook-*.db"))


@pytest.fixture
def cluster():
    made = RayCluster(4, "ace.evaluation.ray:setup_of", CONFIG, processes=2)
    yield made
    made.close()


def test_a_worker_that_dies_loses_nothing(cluster):
    suite = load_suite("office")
    runs = evaluate(suite, lambda seed: SimulatedLM(suite, seed=seed), tasks=suite.tasks[:40], engine=cluster)
    found = [next(runs)]
    killed = ray.get(cluster._actors[0].pid.remote())
    os.kill(killed, 9)
    found += runs
    assert len({attempt.task.id for attempt in found}) == len(found) == 40
    alone = evaluate(suite, lambda seed: SimulatedLM(suite, seed=seed), tasks=suite.tasks[:40])
    assert {a.task.id: a.output.usage.iterations for a in alone} == {
        a.task.id: a.output.usage.iterations for a in found
    }


def test_an_error_on_a_worker_is_reported(tmp_path):
    with pytest.raises(SuiteError, match=r"Ray cluster cannot be used: .*no suite 'nowhere'"):
        RayCluster(1, "ace.evaluation.ray:setup_of", {**CONFIG, "suite": "nowhere"}, processes=1)
    with pytest.raises(SuiteError, match=r"no Ray cluster answers at '127\.0\.0\.1:1'"):
        RayCluster(1, "ace.evaluation.ray:setup_of", CONFIG, address="127.0.0.1:1")
    with pytest.raises(SuiteError, match="at least 1 worker"):
        RayCluster(0, "ace.evaluation.ray:setup_of", CONFIG)


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def open_to_others():
    """Ports on which this machine listens for other machines."""
    rows = [row.split() for kind in ("tcp", "tcp6") for row in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    places = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {int(port, 16) for address, port in places if address not in LOOPBACK}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc: ports are looked up on Linux only")
def test_ray_that_is_started_here_listens_on_loopback_only(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = open_to_others()
    cluster = RayCluster(1, BUILD, CONFIG, processes=1)
    try:
        assert open_to_others() <= before
    finally:
        cluster.close()
