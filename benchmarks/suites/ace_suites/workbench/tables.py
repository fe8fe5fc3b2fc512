"""The benchmark's tables: ordered rows with invisible integer labels, their hashes, and when two are equal.

A row is a dict that is never changed in place; an update replaces it. So a fresh sandbox is a shallow copy.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import WithJsonSchema

if TYPE_CHECKING:
    Text = Any
else:
    # the benchmark's tools validate nothing themselves: the model is told "string", any single value is passed on as it
    # came, and only lists and objects are refused as malformed
    Text = Annotated[str | int | float | bool | None, WithJsonSchema({"type": "string"})]

Row = dict[str, Any]
"""Column to value; None is a missing cell, a `datetime` a date-time value."""

CASE_MATTERS = frozenset({"status", "list_name", "board"})
"""Columns compared as they are; everywhere else case and the value of non-strings do not matter."""


@dataclass
class Table:
    """Rows in table order, each with its label."""

    columns: list[str]
    rows: list[Row]
    labels: list[int] = field(default_factory=list[int])
    _sha256: str | None = field(default=None, repr=False, compare=False)
    """Kept until a row changes: most tables are left alone by most tasks, and hashing is the slow part of scoring."""

    def __post_init__(self) -> None:
        if not self.labels:
            self.labels = list(range(len(self.rows)))

    def copy(self) -> Table:
        """Copy it to a table that can be changed without touching this one."""
        return Table(list(self.columns), list(self.rows), list(self.labels), self._sha256)

    def column(self, name: str) -> list[Any]:
        """Return the cells of one column."""
        return [row[name] for row in self.rows]

    def append(self, row: Row, label: int) -> None:
        """Put a row last; columns it lacks are missing in it."""
        self._sha256 = None
        self.rows.append({name: row.get(name) for name in self.columns})
        self.labels.append(label)

    def replace(self, index: int, row: Row) -> None:
        """Put a row in place of another; the label stays."""
        self._sha256 = None
        self.rows[index] = row

    def add_column(self, name: str, filler: Any) -> None:
        """Add a new last column with the same cell in every row."""
        self._sha256 = None
        self.columns.append(name)
        self.rows = [{**row, name: filler} for row in self.rows]

    def relabel(self) -> None:
        """Give the rows the numbers 0 ... n-1 again."""
        self.labels = list(range(len(self.rows)))

    def keep(self, wanted: Callable[[Row], bool]) -> None:
        """Drop the rows that are not wanted; the labels of the others stay."""
        self._sha256 = None
        pairs = [(row, label) for row, label in zip(self.rows, self.labels, strict=True) if wanted(row)]
        self.rows = [row for row, _ in pairs]
        self.labels = [label for _, label in pairs]

    def update(self, wanted: Callable[[Row], bool], name: str, value: Any) -> None:
        """Set one cell in every wanted row."""
        self._sha256 = None
        self.rows = [{**row, name: value} if wanted(row) else row for row in self.rows]

    def sha256(self) -> str:
        """Hash of header and cells, labels not included."""
        if self._sha256 is None:
            lines = [_json(self.columns), *(_json([_plain(row[name]) for name in self.columns]) for row in self.rows)]
            text = "".join(f"{line}\n" for line in lines)
            self._sha256 = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return self._sha256

    def labels_sha256(self) -> str:
        """Hash of the labels."""
        return hashlib.sha256(_json(self.labels).encode()).hexdigest()

    def equals(self, other: Table) -> bool:
        """Apply the benchmark's equality: same columns, labels and cells, where case matters in few columns."""
        if self.columns != other.columns or self.labels != other.labels:
            return False
        return all(
            a is b or all(_folded(name, a[name]) == _folded(name, b[name]) for name in self.columns)
            for a, b in zip(self.rows, other.rows, strict=True)
        )


def _folded(name: str, value: Any) -> Any:
    if name in CASE_MATTERS:
        return value
    return value.lower() if isinstance(value, str) else None


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return None
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else value


def plain_value(value: Any) -> Any:
    """Return a tool's result as JSON values: date-times as text, not-a-number as null."""
    if isinstance(value, dict):
        return {key: plain_value(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return _plain(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_table(path: Path) -> Table:
    """Read a database file; every cell is text, an empty one is missing."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows: list[Row] = [{name: cell or None for name, cell in row.items()} for row in reader]
        return Table(list(reader.fieldnames or ()), rows)
