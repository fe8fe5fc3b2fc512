"""How a playbook's database is reached: SQLite in WAL mode, or PostgreSQL, with writers that take turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import NoSuchModuleError, OperationalError

from ace.core import PlaybookError

BUSY_SECONDS = 8
"""Seconds that a writer waits for a book to which nobody else writes meanwhile: one commit takes milliseconds, and who
learns does not wait for ten."""


def cache_folder() -> Path:
    """Return the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "dspy-ace"


def book_url(path: str | Path) -> str | sa.URL:
    """Return where a playbook is: a file, or what is an SQLAlchemy URL already.

    Raises:
        PlaybookError: The file's folder does not exist.
    """
    text = str(path)
    if "://" in text:
        return text
    if Path(path).is_dir():
        raise PlaybookError(f"{text!r} is a folder; name a file in it, for example {str(Path(path) / 'playbook.db')!r}")
    parent = Path(path).resolve().parent
    if not parent.is_dir():
        raise PlaybookError(f"cannot open the playbook {text!r}: the folder {str(parent)!r} does not exist")
    return sa.URL.create("sqlite", database=str(Path(path).resolve()))


def named_as(path: str) -> tuple[str, str]:
    """Return a playbook as it may be shown, without a password, and its name for files beside it.

    Examples:
        >>> named_as("postgresql://ana:secret@db.example/team")
        ('postgresql://ana:***@db.example/team', 'team')
    """
    if "://" not in path:
        return path, path
    url = sa.make_url(path)
    return url.render_as_string(), str(url.database)


def check_there(path: str | Path) -> None:
    """Refuse a playbook's file that is not there, which opening would make.

    Raises:
        PlaybookError: There is no such file.
    """
    file = str(path).removeprefix("sqlite:///")
    if "://" not in file and not Path(file).exists():
        raise PlaybookError(f"there is no playbook {str(path)!r}; `ace learn` and `ace demo` make one")


def connect(url: sa.URL, memory: bool) -> sa.Engine:
    """Open an engine whose transactions see one state, and whose writers wait for each other.

    Args:
        url: Of the database.
        memory: Whether it is SQLite without a file, which lives in one connection.

    Raises:
        PlaybookError: The database is of a kind that is not supported, or its driver is missing.
    """
    sqlite = url.get_backend_name() == "sqlite"
    options: dict[str, Any] = {"poolclass": sa.StaticPool} if memory else {}
    if sqlite:
        options["connect_args"] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    else:
        # a reader has one view of the whole transaction; a writer sees what was there when its turn came
        options |= {"isolation_level": "REPEATABLE READ", "pool_pre_ping": True}
    try:
        engine = sa.create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        if url.get_backend_name() == "postgresql":
            needed = f"{url.render_as_string()!r} needs psycopg: pip install 'dspy-ace[postgres]'"
            raise PlaybookError(needed) from error
        raise PlaybookError(
            f"no database of the kind {url.drivername!r} is supported; expected a path, sqlite:///FILE or postgresql://..."
        ) from error
    if sqlite:
        event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # SQLAlchemy, not the driver, opens transactions
    cursor = connection.cursor()
    if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _patiently(lambda: cursor.execute("PRAGMA journal_mode=WAL"))
    cursor.execute("PRAGMA synchronous=FULL")  # what is acknowledged survives a power cut
    cursor.close()


def _patiently(act: Callable[[], Any]) -> None:
    """Try again for a while: SQLite's own patience does not cover the change to WAL mode."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            act()
        except Exception as error:  # the driver's own class, whichever driver it is
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("ace_write", False)
    if connection.dialect.name == "sqlite":
        # a writer takes the lock at once, so that two of them never find out at the end that they read the same revision
        if writes:
            _take_turn(connection)
        else:
            connection.exec_driver_sql("BEGIN")
    elif writes:
        # the lock is taken before the transaction's view of the data is
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('ace.playbook'), hashtext(current_schema()))")


def _take_turn(connection: sa.Connection) -> None:
    """Begin to write, however long others come and go first: SQLite lets writers wait in no order."""
    while True:
        before = _commits(connection)
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except OperationalError as error:
            if "locked" not in str(error.orig) or _commits(connection) == before:
                raise
        else:
            return


def _commits(connection: sa.Connection) -> int:
    """Return a number that is another one after each commit of others."""
    return connection.exec_driver_sql("PRAGMA data_version").scalar_one()
