"""Law of intervals: 95 % intervals of a paired difference hold the truth in simulated worlds; a twentieth of the repeats here."""

from __future__ import annotations

import pytest

from benchmarks.evaluation import coverage


def holds(repeats: int) -> None:
    # in two processes: by then the other tests are mostly done
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
