"""Law of quotations: a call of a stranger that a model repeats in order to refuse it is not made; a share of the benchmark."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from conftest import ROOT

_SPEC = importlib.util.spec_from_file_location("trust_quotes", ROOT / "benchmarks" / "trust_quotes.py")
assert _SPEC
assert _SPEC.loader
quotes: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(quotes)
CASES = list(quotes.cases())


@pytest.mark.parametrize("number", range(0, len(CASES), 17))
def test_a_quoted_call_is_not_made(number: int) -> None:
    assert not quotes.made(CASES[number])


@pytest.mark.full
def test_no_quoted_call_is_made() -> None:
    assert [case for case in CASES if quotes.made(case)] == []
