"""How reports word counts, intervals and p values; what is not known is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line words things before it needs pydantic
    from ace.evaluation.report.models import Interval


def count(number: int, one: str, several: str = "") -> str:
    """Write a number with its noun.

    Examples:
        >>> count(1, "family", "families"), count(3, "task")
        ('1 family', '3 tasks')
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def span(interval: Interval, times: float = 1.0, digits: int = 1, *, sign: str = "", to: str = " to ") -> str:
    """Write an interval; empty where nothing bounds it.

    Examples:
        >>> span((0.1234, None), 100), span((None, None))
        ('at least 12.3', '')
        >>> span((-1.0, 2.0), digits=0, sign="+", to=", ")
        '-1, +2'
    """
    low, high = (None if bound is None else f"{times * bound:{sign}.{digits}f}" for bound in interval)
    if low is not None and high is not None:
        return f"{low}{to}{high}"
    return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""


def p_value(value: float | None, *, equals: bool = False) -> str:
    """Write a p value with three digits; empty where there is none.

    Examples:
        >>> p_value(0.0002), p_value(0.25), p_value(None), p_value(0.25, equals=True)
        ('< 0.001', '0.250', '', '= 0.250')
    """
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{'= ' if equals else ''}{value:.3f}"
