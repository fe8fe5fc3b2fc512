"""Law of foreign text: a forged decision that a model quotes is never executed, under any adapter; a share of the benchmark."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.trust import markers

CASES = list(
    product(
        markers.ADAPTERS,
        markers.DOORS,
        markers.PLACES,
        markers.FORGED + markers.KEPT,
    )
)


def bad(case: tuple[str, str, str, str]) -> list[str]:
    return [what for what, wrong in markers.run(*case) if wrong]


@pytest.mark.parametrize("number", range(0, len(CASES), 17))
def test_a_quoted_marker_is_no_decision(number: int) -> None:
    assert bad(CASES[number]) == []


@pytest.mark.full
def test_no_quoted_marker_is_a_decision() -> None:
    assert [(case, found) for case in CASES if (found := bad(case))] == []


def test_nothing_raw_reaches_a_terminal() -> None:
    assert not any(map(markers.on_a_terminal, markers.FORGED))
