"""Law of trust: what a planted text asked for does not become a lesson that is shown; a share of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.trust import steered


def shares(every: int) -> dict[str, float]:
    found = steered.measured(every)
    return {name: row["share"] for name, row in found.items()}


def test_few_steered_runs_and_most_honest_ones_are_shown() -> None:
    found = shares(17)
    assert max(found["before"], found["after"], found["three times"]) <= 0.05, found
    assert found["asking"] >= 0.45, found
    assert found["tongues"] >= 0.8, found


@pytest.mark.full
def test_hardly_any_steered_run_is_shown() -> None:
    found = shares(1)
    assert max(found["all"], found["after"], found["three times"]) <= 0.05, found
    assert found["asking"] >= 0.45, found
    assert found["tongues"] >= 0.8, found
