"""`ace demo`."""

from pathlib import Path

import pytest
from command import ace, valid


def test_the_demo_learns_and_says_that_it_is_simulated(tmp_path):
    text = ace("demo", "--out", tmp_path, "--epochs", 2, "--seeds", 1, "--json", tmp_path / "demo.json")
    report = valid(tmp_path / "demo.json", "demo")
    assert report["label"] == "simulated"
    assert set(report["arms"]) == set(report["unseen_families"]) == {"none", "playbook", "gold", "random"}
    assert (
        report["arms"]["gold"]["iterations"]
        < report["arms"]["playbook"]["iterations"]
        < report["arms"]["none"]["iterations"]
    )
    assert report["arms"]["none"]["n"] == 100
    assert "simulated" in text
    assert report["playbook_path"] in text
    assert Path(report["playbook_path"]).exists()
    said = [line for line in text.splitlines() if line.strip()]
    assert said[0].startswith("Does an agent get better")
    assert "playbook helps more than none (simulated)" in "\n".join(said[-8:]), "it ends with the sentence that matters"
    assert f"report:   {report['report_path']}" in said
    assert "simulated" in Path(report["report_path"]).read_text()
    assert said[-1] == f"or in a browser: ace serve {report['playbook_path']}", "and with the next command to type"
    assert "without a lesson, it fails (simulated):" in said
    assert "with that lesson, it is solved (simulated):" in said
    assert f"{report['bullets']} lessons" in ace("playbook", "list", report["playbook_path"])


@pytest.mark.full
@pytest.mark.timeout(1_800)
def test_the_whole_demo_closes_most_of_the_way(tmp_path):
    ace("demo", "--out", tmp_path, "--json", tmp_path / "demo.json")
    report = valid(tmp_path / "demo.json", "demo")
    assert report["closed"]["playbook"]["iterations"] >= 0.6
    assert report["closed"]["random"]["iterations"] <= 0.15
