"""Rules that several tools share: finding a row by id, patterns, text-order bounds, new ids."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from ace_suites.workbench.tables import Row, Table


def check_length(cells: Sequence[Any], rows: Sequence[Row]) -> None:
    """Check that a list compared with a column is as long as it.

    Raises:
        ValueError: It is not.
    """
    if cells and len(cells) != len(rows):
        raise ValueError(("Lengths must match to compare", (len(rows),), (len(cells),)))


def find(table: Table, column: str, wanted: Any) -> Row | None:
    """Find the first row with exactly that id, as the reading tools look it up."""
    if isinstance(wanted, list):
        cells = cast(list[Any], wanted)
        check_length(cells, table.rows)
        return next((row for row, cell in zip(table.rows, cells, strict=True) if row[column] == cell), None)
    return next((row for row in table.rows if row[column] == wanted), None)


def has_id(table: Table, column: str, wanted: Any) -> bool:
    """Check whether the id exists, as the writing tools look it up."""
    ids = table.column(column)
    if not isinstance(wanted, list):
        return wanted in ids
    cells = cast(list[Any], wanted)
    if len(cells) == 1:
        if cells[0] in ids:
            raise ValueError(("Lengths must match to compare", (len(ids),), (1,)))
        return False
    if len(cells) == len(ids):
        return any(a == b for a, b in zip(ids, cells, strict=True))
    raise ValueError(f"operands could not be broadcast together with shapes ({len(ids)},) ({len(cells)},) ")


def get_field(table: Table, column: str, wanted: Any, name: Any, noun: str) -> Any:
    """Do what every ``get_*_information_by_id`` does."""
    if not wanted:
        return f"{noun} ID not provided."
    if not name:
        return "Field not provided."
    row = find(table, column, wanted)
    if row is None:
        return f"{noun} not found."
    if not known_column(table, name):
        return "Field not found."
    return {name: row[name]}


def known_column(table: Table, name: Any) -> bool:
    """Check whether the table has that column.

    Raises:
        TypeError: `name` is a list or a dict.
    """
    hash(name)
    return name in table.columns


def delete_row(table: Table, column: str, wanted: Any, noun: str) -> str:
    """Do what every ``delete_*`` tool does."""
    if not wanted:
        return f"{noun} ID not provided."
    if not has_id(table, column, wanted):
        return f"{noun} not found."
    table.keep(lambda row: row[column] != wanted)
    return f"{noun} deleted successfully."


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd but legal patterns from a model are not our warnings
        return re.compile(pattern, re.IGNORECASE)


def pattern_of(value: Any) -> Callable[[str], bool]:
    """Make a test whether a text holds the pattern, case ignored; compiled even when there is nothing to test.

    Raises:
        TypeError: The value is not text.
        re.error: The pattern is malformed.
    """
    if not isinstance(value, str):
        raise TypeError("first argument must be string or compiled pattern")
    compiled = _compiled(value)
    return lambda text: compiled.search(text) is not None


def filter_pattern(rows: Sequence[Row], column: str, value: Any) -> list[Row]:
    """Keep the rows whose cell holds the pattern.

    Raises:
        ValueError: A row that is still in the running has no text there.
    """
    matches = pattern_of(value)
    if any(not isinstance(row[column], str) for row in rows):
        raise ValueError("Cannot mask with non-boolean array containing NA / NaN values")
    return [row for row in rows if matches(row[column])]


def filter_text_order(rows: Sequence[Row], column: str, low: Any, high: Any) -> list[Row]:
    """Keep the rows within two inclusive bounds compared as texts; a bound that is falsy is not given."""
    kept = list(rows)
    for bound, above in ((low, True), (high, False)):
        if not bound:
            continue
        if isinstance(bound, list):
            check_length(cast(list[Any], bound), kept)
        kept = [
            row for row in kept if row[column] is not None and (row[column] >= bound if above else row[column] <= bound)
        ]
    return kept


def next_id(table: Table, column: str) -> int:
    """Return one more than the greatest id by text order."""
    return int(max(table.column(column))) + 1


def padded(number: int) -> str:
    """Write an id as the tables do."""
    return f"{number:08d}"


def case_sensitive(pattern: str) -> Callable[[str], bool]:
    """Make a test whether a text holds the pattern, case respected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = re.compile(pattern)
    return lambda text: compiled.search(text) is not None
