"""Texts as points in time, with the benchmark's leniency and its error classes."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from dateutil import parser as dateutil_parser

_UNDEFINED = frozenset({"NaT", "nat", "NAT", "nan", "NaN", "NAN"})
_ISO = re.compile(
    r"\s*(\d{4})(?:-?(\d{2})(?:-?(\d{2})(?:[ T](\d{2})(?::?(\d{2})(?::?(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"(Z|[+-]\d{2}(?::?\d{2})?)?)?)?)?\s*",
    re.ASCII,
)


class DateParseError(ValueError):
    """A text is no date."""


@lru_cache(maxsize=4096)
def _parse(text: str) -> datetime | None:
    if text.strip() in _UNDEFINED:
        return None
    if match := _ISO.fullmatch(text):
        year, month, day, hour, minute, second, fraction, zone = match.groups()
        try:
            moment = datetime(
                int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
                int((fraction or "0").ljust(6, "0")[:6]),
            )  # fmt: skip
        except ValueError as error:
            raise DateParseError(f"{error}: {text}") from error
        return moment.replace(tzinfo=UTC) if zone else moment
    try:
        # month first, and the first of a month when no day is given; a text without a year gives year 1
        moment = dateutil_parser.parse(text, default=datetime(1, 1, 1))
    except (ValueError, OverflowError) as error:
        raise DateParseError(str(error)) from error
    if moment.year == 1:
        raise DateParseError(f"Unknown datetime string format, unable to parse: {text}")
    return moment


def point_in_time(value: Any) -> datetime | None:
    """Return the moment a text or a number means; None is the undefined time.

    Raises:
        DateParseError: The text is no date.
        TypeError: The value is neither text nor number.
    """
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value != value:
            return None
        return datetime(1970, 1, 1) + timedelta(microseconds=value / 1000)
    raise TypeError(f"Cannot convert input [{value!r}] of type {type(value)} to Timestamp")


def naive(moment: datetime | None) -> datetime | None:
    """Refuse a time zone: the tables hold none.

    Raises:
        TypeError: The moment has a time zone.
    """
    if moment is not None and moment.tzinfo is not None:
        raise TypeError("Cannot compare tz-naive and tz-aware timestamps")
    return moment


def calendar_date(value: Any) -> date:
    """Return the date of a bound, its time and zone dropped.

    Raises:
        TypeError: The undefined time has no date to compare with.
    """
    moment = point_in_time(value)
    if moment is None:
        raise TypeError("'>=' not supported between instances of 'datetime.date' and 'NaTType'")
    return moment.date()
