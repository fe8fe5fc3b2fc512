"""`benchmarks/command.py`: a function as a command, its report on the screen and in a file."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.command import command, show


def measure(data: Path, seeds: int = 5) -> dict[str, object]:
    """Return what was given."""
    return {"simulated": True, "data": str(data), "seeds": seeds}


def test_parameters_are_arguments_and_options_and_the_report_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["measure", "folder", str(tmp_path / "out.json"), "--seeds", "2"])
    with pytest.raises(SystemExit) as ended:
        command(measure)
    assert ended.value.code == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert report == {"simulated": True, "data": "folder", "seeds": 2}
    assert "'seeds': 2" in capsys.readouterr().out


def test_what_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["measure"])
    with pytest.raises(SystemExit) as ended:
        command(measure)
    assert ended.value.code == 2
    assert "Missing argument 'data'" in capsys.readouterr().err


def test_rows_are_shown_as_a_table_and_what_is_simulated_says_so(capsys):
    rows = {"none": {"solved": 0.123456, "span": (0.1, 0.2)}, "gold": {"solved": 1}}
    show({"simulated": True, "arms": rows, "cells": [{"n": 3}], "empty": {}, "tasks": 50})
    said = capsys.readouterr().out
    assert "arms (simulated)" in said
    assert "0.1235" in said
    assert "0.1, 0.2" in said
    assert "cells (simulated)" in said
    assert "'tasks': 50" in said
