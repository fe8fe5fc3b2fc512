"""Is a byte that was changed in a playbook found? ``python -m benchmarks.trust.tamper OUT.json [--flips 2000]``.

A book with lessons, evidence, a purge, vectors and what it knows of its queues is changed behind its back: in each table
every value (a letter, a number, a byte of a vector), every row but a vector's taken out; then single bytes anywhere in its
file. `verify` has to find it, or the file no longer is a playbook; a byte of the file that changes no value, of unused pages
or of an index, counts as harmless.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from ace.core import PlaybookError
from ace.playbook import Playbook
from ace.playbook.history import verify_file
from benchmarks.command import command
from benchmarks.playbook.purge import fill

TEXT = "Ana Miller"


def made(folder: Path, seed: int) -> Path:
    """Make a book that has gone through much."""
    path = folder / "book.db"
    with Playbook(path, screen=None) as book:
        fill(book, folder, TEXT, random.Random(seed))
        book.purge(text=TEXT)
        book.retrieve("Import something")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=DELETE")  # all of it in one file
    return path


def tables(path: Path) -> dict[str, list[Any]]:
    """Read all that a file says."""
    with closing(sqlite3.connect(path)) as database:
        names = [
            name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        return {name: sorted(database.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in names}


def other(value: Any, draw: random.Random) -> Any:
    """Return a value that differs in one place."""
    if isinstance(value, (int, float)):
        return value + 100_003
    at = draw.randrange(len(value)) if value else 0
    if isinstance(value, bytes):
        return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    return f"{value[:at]}{chr(ord(value[at]) ^ 1)}{value[at + 1 :]}" if value else "x"


def found(path: Path, missed: list[str]) -> bool:
    """Check whether `verify` sees that something is wrong; an error that is not ours is one that it missed."""
    try:
        return not verify_file(path).ok
    except PlaybookError:
        return True
    except Exception as error:
        missed.append(f"raw: {type(error).__name__}: {str(error)[:200]}")
        return True


def changed_values(path: Path, folder: Path, draw: random.Random, count: Counter[str], missed: list[str]) -> None:
    """Change every value of every table, and take every row out."""
    copy = folder / "copy.db"
    for table, rows in tables(path).items():
        with closing(sqlite3.connect(path)) as database:
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        for row in track(rows, table, console=Console(stderr=True)):
            where = " AND ".join(f'"{column}" IS ?' for column in columns)
            changes: list[Any] = [
                (f'SET "{column}" = ?', (other(value, draw),), column)
                for column, value in zip(columns, row, strict=True)
            ]
            if table != "vectors":  # one that is not there is made again
                changes.append(("", (), "the row"))
            for change, values, column in changes:
                shutil.copy(path, copy)
                with closing(sqlite3.connect(copy)) as database:
                    said = (
                        f'UPDATE "{table}" {change} WHERE {where}' if change else f'DELETE FROM "{table}" WHERE {where}'
                    )
                    database.execute(said, (*values, *row))
                    database.commit()
                count["values"] += 1
                if not found(copy, missed):
                    missed.append(f"{table}: {column} of {str(row)[:60]}")


def changed_bytes(
    path: Path, folder: Path, draw: random.Random, flips: int, count: Counter[str], missed: list[str]
) -> None:
    """Change single bytes of the file."""
    whole, said, copy = path.read_bytes(), tables(path), folder / "copy.db"
    for _ in track(range(flips), "bytes of the file", console=Console(stderr=True)):
        at, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        copy.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        count["bytes"] += 1
        if found(copy, missed):
            continue
        try:
            same = tables(copy) == said
        except sqlite3.Error:
            same = False
        count["harmless"] += same
        if not same:
            missed.append(f"byte {at} of the file, bit {bit}")


def main(flips: int = 2_000) -> dict[str, Any]:
    """Change, look, and return the report."""
    draw, count, missed = random.Random(7), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = made(folder, 7)
        assert verify_file(path).ok
        changed_values(path, folder, draw, count, missed)
        changed_bytes(path, folder, draw, flips, count, missed)
    return {**count, "tried": count["values"] + count["bytes"], "missed": len(missed), "which": missed[:50]}


if __name__ == "__main__":
    command(main)
