"""How a law is examined, and how a mutant of the code must break it."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ace.core import AceError

CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def examine(law, strategies, examples: int, **options) -> None:
    """Raise what the law raises at the smallest of at most this many examples that breaks it."""
    wanted = settings(max_examples=examples, deadline=None, suppress_health_check=CHECKS, **options)
    wanted(given(*strategies)(law))()


def must_break(law, strategies, examples: int) -> None:
    """One of this many examples must break the law, so that a law which cannot fail is found."""
    with pytest.raises((AssertionError, AceError)):
        examine(
            law,
            strategies,
            examples,
            phases=(Phase.generate,),
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        )
