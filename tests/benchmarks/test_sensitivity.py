"""The breaks that show whether a claim can turn red."""

import tomllib

import pytest
from conftest import ROOT

from benchmarks import sensitivity
from benchmarks.sensitivity import BREAKS


@pytest.mark.parametrize(("said", "code", "told"), [("--help", 0, "OUT.json"), ("no-row", 2, "no break for no-row")])
def test_help_and_unknown_rows_break_nothing(said, code, told, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks sensitivity", *([said] if code == 0 else ["", said])])
    with pytest.raises(SystemExit) as left:
        sensitivity.main()
    assert left.value.code == code
    assert told in "".join(capsys.readouterr())


def test_each_break_finds_its_place_and_its_row():
    claims = tomllib.loads((ROOT / "benchmarks/claims.toml").read_text())["claim"]
    rows = {figure["name"] for claim in claims for figure in claim["figures"]}
    assert len({one.row for one in BREAKS}) == 10
    for one in BREAKS:
        assert one.row in rows
        assert one.old in (ROOT / one.file).read_text()
