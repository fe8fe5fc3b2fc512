"""Tables and arrays as rows, those of pandas and NumPy and others of their shape. Neither is imported here."""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_right
from itertools import accumulate
from typing import Any, cast

MAX_ROWS = 1_000
"""At most so many rows of a table are read."""
MAX_COLUMNS = 200
"""At most so many of its columns."""
MAX_ITEMS = 10_000
"""At most so many items of an array."""
_NOTE = 40
"""Characters that are kept free for the note of what is left out."""


def table_rows(value: Any) -> tuple[list[list[Any]], int] | None:
    """Read a table, `table_rows(frame)`: its header with its first rows, how many are left out; None of anything else."""
    kind = cast("type[object]", type(value))  # a class says what it is; an object may answer to any name
    if hasattr(kind, "to_frame") and hasattr(kind, "iloc"):  # one column
        return table_rows(value.to_frame())
    if not (hasattr(kind, "itertuples") and hasattr(kind, "reset_index")):
        return None
    head = value.head(MAX_ROWS)
    if type(head.index).__name__ != "RangeIndex":  # an index that says something
        head = head.reset_index(allow_duplicates=True)
    header = [str(name) for name in head.columns[:MAX_COLUMNS]]
    if (beyond := len(head.columns) - MAX_COLUMNS) > 0:
        header.append(f"... [{beyond} more columns]")
    rows = [list(row[:MAX_COLUMNS]) for row in head.itertuples(index=False, name=None)]
    return [header, *rows], len(value) - len(rows)


def table_text(value: Any, limit: int) -> str | None:
    """Write a table as lines of CSV of at most `limit` characters, then how many rows are left out; None of anything
    else."""
    found = table_rows(value)
    if found is None:
        return None
    rows, left = found
    lines = [_csv_line(row) for row in rows]
    ends = list(accumulate(len(line) + 1 for line in lines))
    fitting = max(1, bisect_right(ends, limit - _NOTE))  # the header in any case
    left += len(lines) - fitting
    del lines[fitting:]
    return "\n".join([*lines, f"... [{left} more rows]"] if left else lines)


def _csv_line(row: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(row)
    return text.getvalue()


def nested_rows(value: Any) -> Any:
    """Convert a table or an array inside something else to lists for JSON; None of anything else.

    Where something is left out, the last item says how much.
    """
    found = table_rows(value)
    if found is not None:
        rows, left = found
        return [*rows, f"... [{left} more rows]"] if left else rows
    kind = cast("type[object]", type(value))
    return _array(value, MAX_ITEMS) if hasattr(kind, "tolist") and hasattr(kind, "shape") else None


def _array(array: Any, room: int) -> Any:
    if not array.shape or math.prod(array.shape) <= room:
        return array.tolist()
    inner = max(1, math.prod(array.shape[1:]))
    shown = array[: room // inner].tolist() if inner <= room else [_array(array[0], room)]
    return [*shown, f"... [{len(array) - len(shown)} more]"]
