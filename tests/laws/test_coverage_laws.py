"""Law of intervals: 95 % intervals of a paired difference hold the truth in simulated worlds; a twentieth of the repeats here."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest
from conftest import ROOT

_SPEC = importlib.util.spec_from_file_location("interval_coverage", ROOT / "benchmarks" / "interval_coverage.py")
assert _SPEC
assert _SPEC.loader
coverage: Any = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = coverage  # its processes find it by its name
_SPEC.loader.exec_module(coverage)


def holds(repeats: int) -> None:
    # the full count takes an hour on one core, and the other one has nothing left to do by then
    found = coverage.summary(coverage.simulated(repeats, workers=2))
    assert found["cells"] >= 1_200
    assert found["lowest_mean"] >= 95, found["families"]
    assert found["cells_below_90"] == 0, found["worst_cells"]
    assert found["false_alarms"] <= 5
    assert (found["width_12"] <= 1.12, found["width_25"] <= 1.06) == (True, True), found["families"]


@pytest.mark.timeout(300)
def test_intervals_hold_the_truth_in_a_twentieth_of_the_repeats() -> None:
    holds(coverage.FULL // 20)


@pytest.mark.full
@pytest.mark.timeout(3_600)
def test_intervals_hold_the_truth() -> None:
    holds(coverage.FULL)
