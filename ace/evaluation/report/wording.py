"""How reports word intervals and p values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line words things before it needs pydantic
    from ace.evaluation.report.models import EvaluateReport, Interval


def span(interval: Interval, times: float = 1.0, digits: int = 1, *, sign: str = "", to: str = " to ") -> str:
    """An interval; a question mark where nothing bounds it.

    Examples:
        >>> span((0.1234, None), 100)
        '12.3 to ?'
        >>> span((-1.0, 2.0), digits=0, sign="+", to=", ")
        '-1, +2'
    """
    return to.join("?" if bound is None else f"{times * bound:{sign}.{digits}f}" for bound in interval)


def interval_rules(report: EvaluateReport) -> list[str]:
    """How the intervals of the comparisons were made, or why there are none, each rule once."""
    return list(dict.fromkeys(f"{row.metric}: {row.rule}" for row in report.comparisons if row.rule))


def p_value(value: float | None) -> str:
    """A p value with three digits.

    Examples:
        >>> p_value(0.0002), p_value(0.25), p_value(None)
        ('< 0.001', '0.250', '?')
    """
    return "?" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
