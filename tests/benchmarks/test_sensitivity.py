"""The breaks that show whether a claim can turn red."""

import tomllib

from conftest import ROOT

from benchmarks.sensitivity import BREAKS


def test_each_break_finds_its_place_and_its_row():
    claims = tomllib.loads((ROOT / "benchmarks/claims.toml").read_text())["claim"]
    rows = {figure["name"] for claim in claims for figure in claim["figures"]}
    assert len({one.row for one in BREAKS}) == 10
    for one in BREAKS:
        assert one.row in rows
        assert one.old in (ROOT / one.file).read_text()
