"""`ace evaluate`."""

import pytest
from command import ace, interrupted, valid
from conftest import WORKBENCH, needs_workbench


@needs_workbench
def test_recorded_runs_are_evaluated_and_learned_from(tmp_path):
    suite = f"workbench:{WORKBENCH}"
    text = ace("evaluate", suite, "--lm", "recorded:gpt-4_all", "--limit", 30, "--json", tmp_path / "e.json")
    report = valid(tmp_path / "e.json", "evaluate")
    assert (report["policy"], report["label"], report["domains"]["none"]["email"]["n"]) == (
        "replay",
        "recorded:gpt-4_all",
        30,
    )
    assert "policy: replay" in text
    ace(
        "learn",
        "--from",
        suite,
        "--runs",
        "gpt-4_domains",
        "--playbook",
        tmp_path / "p.db",
        "--json",
        tmp_path / "l.json",
    )
    held_out = valid(tmp_path / "l.json", "learn")["held_out"]
    assert held_out["hit@3"] >= 85
    assert held_out["n"] > 200


def test_ctrl_c_keeps_what_was_evaluated(tmp_path):
    target = tmp_path / "e.json"

    def running(_text):
        return any(log.stat().st_size for log in tmp_path.rglob("runs.jsonl"))

    interrupted(["evaluate", "office", "--lm", "simulated", "--seeds", 500, "--json", target], tmp_path, running)
    report = valid(target, "evaluate")
    assert report["interrupted"]
    assert 0 < len(report["runs"]) < 100_000


@pytest.mark.parametrize(
    "words", [("evaluate", "office", "--limit", "2", "--arms", "none,gold"), ("suite", "list", "office")]
)
def test_every_table_fits_80_columns(tmp_path, words):
    out = ("--out", tmp_path / "o", "--lm", "simulated") if words[0] == "evaluate" else ()
    text = ace(*words, *out, cwd=tmp_path, COLUMNS="80")
    assert max(map(len, text.replace(str(tmp_path), "").splitlines())) <= 80
    assert "…" not in text, "nothing is cut off"
