"""Illegal transitions are type errors: pyright rejects each snippet in `rejected/` and accepts its counterpart in `accepted/`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in (HERE / "rejected").glob("*.py"))


@pytest.fixture(scope="module")
def problems():
    """Snippet to its errors; one run of pyright for all of them."""
    checker = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        [checker, "--outputjson", "--pythonpath", sys.executable, str(HERE / "rejected"), str(HERE / "accepted")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
    )
    found = {}
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        if item["severity"] == "error":
            path = Path(item["file"])
            found.setdefault(f"{path.parent.name}/{path.stem}", []).append(item["rule"])
    return found


def test_there_are_enough_snippets_and_each_has_a_counterpart():
    assert len(NAMES) >= 12
    assert sorted(path.stem for path in (HERE / "accepted").glob("*.py")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_illegal_transition_is_a_type_error(name, problems):
    expected = {"reportAttributeAccessIssue", "reportArgumentType"}
    assert expected & set(problems.get(f"rejected/{name}", [])), "pyright accepts it, or rejects it for another reason"


@pytest.mark.parametrize("name", NAMES)
def test_its_legal_counterpart_is_accepted(name, problems):
    assert f"accepted/{name}" not in problems
