"""The benchmark gate passes equal code and stops slowed code."""

import json
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

from benchmarks.gate import judge


def gate(tmp_path, base, head, **constants):
    script = tmp_path / "gate.py"
    text = (ROOT / "benchmarks" / "gate.py").read_text(encoding="utf-8")
    text = text.replace(
        "PAIRS, ROUNDS, RUNS, RESAMPLES = 3, 12, 6, 2_000", "PAIRS, ROUNDS, RUNS, RESAMPLES = 1, 8, 4, 400"
    )
    script.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "benchmarks" / "scenarios.py", tmp_path)
    signoff = tmp_path / "signoff.toml"
    signoff.write_text(constants.get("signoff", ""), encoding="utf-8")
    report = tmp_path / "report.json"
    command = [sys.executable, script, "--base", base, "--head", head, "--signoff", signoff, "--json", report]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert report.exists(), done.stderr
    return done.returncode, {row["name"]: row for row in json.loads(report.read_text(encoding="utf-8"))["figures"]}


def spoiled(tmp_path, old, new):
    """A copy of the library with one line changed."""
    shutil.copytree(ROOT / "ace", tmp_path / "head" / "ace", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "head" / "ace" / "agent" / "drivers.py"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    return tmp_path / "head"


SLOW = ("            step = run.next_step()\n", "            __import__('time').sleep(0.003); step = run.next_step()\n")


def test_equal_code_passes(tmp_path):
    code, figures = gate(tmp_path, ROOT, ROOT)
    if code:  # one interval in forty is chance on a busy machine; two in a row are not
        code, figures = gate(tmp_path, ROOT, ROOT)
    assert code == 0, {name: row for name, row in figures.items() if row["verdict"] == "FAIL"}
    assert set(figures) == {
        f"{scenario}/{figure}"
        for scenario in ("short_answer", "one_hop", "multi_hop", "malformed_recovery")
        for figure in ("p50", "p95", "peak_mb", "errors", "steps")
    }


@pytest.mark.parametrize("signed", [False, True])
def test_slowed_code_is_stopped_unless_somebody_signs(tmp_path, signed):
    names = [f"{s}/{f}" for s in ("short_answer", "one_hop", "multi_hop", "malformed_recovery") for f in ("p50", "p95")]
    rows = "".join(f'[[accept]]\nfigure = "{name}"\nreason = "a test"\n' for name in names)
    code, figures = gate(tmp_path, ROOT, spoiled(tmp_path, *SLOW), signoff=rows if signed else "")
    assert code == (0 if signed else 1)
    assert figures["multi_hop/p50"]["verdict"] == ("signed off: a test" if signed else "REVIEW")
    assert figures["multi_hop/p95"]["low"] > 1.10


def test_a_new_error_is_stopped(tmp_path):
    broken = spoiled(tmp_path, SLOW[0], "            raise RuntimeError('broken')\n")
    code, figures = gate(tmp_path, ROOT, broken, signoff='[[accept]]\nfigure = "one_hop/errors"\nreason = "a test"\n')
    assert code == 1, "an error cannot be signed off"
    assert figures["one_hop/errors"]["verdict"] == "FAIL"


@pytest.mark.parametrize("signed", [{}, {"one_hop/p50": "a test"}])
def test_slower_medians_alone_are_stopped_until_somebody_signs(signed):
    fast = {"ms": [1.0] * 90 + [2.0] * 10, "peak_mb": 1.0, "errors": 0, "steps": 2}
    slow = fast | {"ms": [1.09] * 90 + [2.0] * 10}
    figures, good = judge({"base": {"one_hop": [fast] * 8}, "head": {"one_hop": [slow] * 8}}, signed)
    assert good == bool(signed)
    assert {row["name"] for row in figures if row["verdict"] == "REVIEW"} == (set() if signed else {"one_hop/p50"})
