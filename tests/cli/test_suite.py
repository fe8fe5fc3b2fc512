"""`ace suite`."""

import json

from command import ace, valid
from conftest import WORKBENCH, needs_workbench


def test_suites_are_listed_shown_and_checked(tmp_path):
    assert "workbench" in ace("suite", "list")
    assert "refund#0" in ace("suite", "list", "office")
    assert "refund_order" in ace("suite", "show", "office", "refund#0")
    ace("suite", "check", "office", "--json", tmp_path / "c.json")
    assert valid(tmp_path / "c.json", "suite-check")["tasks"]["oracle_right"] == 200


@needs_workbench
def test_golden_cases_pass_and_a_wrong_one_fails(tmp_path):
    lines = (WORKBENCH / "golden.jsonl").read_text().splitlines()[:20]
    (tmp_path / "g.jsonl").write_text("\n".join(lines))
    ace("suite", "check", f"workbench:{WORKBENCH}", "--golden", tmp_path / "g.jsonl", "--json", tmp_path / "c.json")
    assert valid(tmp_path / "c.json", "suite-check")["golden"] == {"n": 20, "passed": 20, "failed": []}
    wrong = json.loads(lines[0]) | {"results": ["other"]}
    (tmp_path / "g.jsonl").write_text(json.dumps(wrong))
    ace("suite", "check", f"workbench:{WORKBENCH}", "--golden", tmp_path / "g.jsonl", code=1)
