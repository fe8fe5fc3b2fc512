"""Law of bounds: no text of a million characters keeps learning, masking, search or recall busy; a share of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.trust import bounds

MOST = 4.0
"""Seconds: what is quadratic takes twenty and more, whatever else the machine does."""


def test_a_million_characters_are_soon_done_with() -> None:
    found = bounds.measured(6)
    assert found["seconds"] < MOST, found["longest"]


@pytest.mark.full
def test_no_million_characters_take_long() -> None:
    found = bounds.measured()
    assert found["seconds"] < MOST, found["longest"]
