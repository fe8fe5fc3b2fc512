"""Law of quotations: a call of a stranger that a model repeats in order to refuse it is not made; a share of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.trust import quotes

CASES = list(quotes.cases())


@pytest.mark.parametrize("number", range(0, len(CASES), 17))
def test_a_quoted_call_is_not_made(number: int) -> None:
    assert not quotes.made(CASES[number])


@pytest.mark.full
def test_no_quoted_call_is_made() -> None:
    assert [case for case in CASES if quotes.made(case)] == []
