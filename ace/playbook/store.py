"""The journal and its fold in a database: one transaction per commit, revisions without gaps, SQLite or PostgreSQL."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from pydantic import ValidationError
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError

from ace.core import PlaybookError
from ace.playbook import schema
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.credits import Credits, credits_of
from ace.playbook.database import book_url, check_there, connect
from ace.playbook.delta import DELTAS, Add, Delta, Learned, Merge, Purge, Remove, Restore, Tag, apply, fold

START = ""
"""What stands before the first entry."""
_SUBJECT = re.compile(r'"(?:bullet_id|id)":"(b-\d+)"')


def link(previous: str, revision: int, position: int, delta: str, author: str, created_at: float) -> str:
    """Compute the checksum (sha256, hex) of one journal entry.

    Examples:
        >>> one = link(START, 1, 0, "{}", "ana", 1.5)
        >>> len(one), link(one, 2, 0, "{}", "ana", 1.5) == link(START, 2, 0, "{}", "ana", 1.5)
        (64, False)
    """
    content = json.dumps([previous, revision, position, delta, author, repr(float(created_at))])
    return hashlib.sha256(content.encode()).hexdigest()


class Row(NamedTuple):
    """One bullet as it is stored."""

    number: int
    bullet: str
    filter_key: str
    shape: str
    """Of its plan; empty for a lesson in free words."""

    @classmethod
    def of(cls, bullet: PlaybookBullet) -> Row:
        """Return a bullet as it is to be stored."""
        return cls(bullet.number, bullet.model_dump_json(), bullet.filter_key, bullet.shape)


@dataclass(frozen=True)
class Entry:
    """One delta in the journal, with its commit."""

    revision: int
    position: int
    text: str
    author: str
    created_at: float
    checksum: str

    @property
    def subject(self) -> str:
        """Id of the bullet that it changes, found without reading the rest; empty for none."""
        found = _SUBJECT.search(self.text)
        return found[1] if found is not None else ""

    @cached_property
    def delta(self) -> Delta:
        """The delta itself.

        Raises:
            PlaybookError: The entry is damaged.
        """
        try:
            return DELTAS.validate_json(self.text)
        except ValidationError as error:
            raise PlaybookError(
                f"the journal entry {self.revision}.{self.position} cannot be read; `ace playbook verify` says what else is "
                "damaged, and a copy of the file or an export brings it back"
            ) from error


class Transaction:
    """One revision that is being written; what is decided while it is open still holds when it ends.

    Attributes:
        newest: The revision that it follows.
        revision: Its own.
        before: The bullets that it touches, as they were.
        after: The same as they would be; None for one that goes.
        deltas: What it writes, in order.
    """

    def __init__(
        self,
        connection: sa.Connection,
        author: str,
        find: Callable[[Iterable[str]], Mapping[str, PlaybookBullet]],
    ) -> None:
        self._connection = connection
        self._author = author
        self._find = find
        self._now = time.time()
        self.newest = _newest(connection)
        self.revision = self.newest + 1
        self.before: dict[str, PlaybookBullet] = {}
        self.after: dict[str, PlaybookBullet | None] = {}
        self.deltas: list[Delta] = []
        self._present: dict[str, PlaybookBullet] = {}

    def add(self, *deltas: Delta) -> None:
        """Apply changes, in order; what a run has given or taught before is left out.

        Raises:
            PlaybookError: A delta does not apply.
        """
        changed = (delta for delta in deltas if not isinstance(delta, (Add, Restore)))
        ids = {i for delta in changed for i in (delta.bullet_id, *getattr(delta, "absorbed", ()))}
        fresh = self._find(ids - self.before.keys() - self.after.keys())
        self.before |= fresh
        self._present |= fresh
        for delta in deltas:
            if (completed := self._completed(delta)) is not None:
                self.after |= apply(self._present, completed, self.revision)
                self.deltas.append(completed)

    def entries_after(self, revision: int) -> list[Entry]:
        """Return the journal after a revision, as it is when this transaction begins."""
        return _entries(self._connection, after=revision)

    def write(self) -> None:
        """Put the bullets and the journal's entries into the database."""
        for bullet_id, bullet in self.after.items():
            _put(self._connection, bullet_id, bullet)
        previous = _last_checksum(self._connection)
        entries: list[Entry] = []
        for position, delta in enumerate(self.deltas):
            text = delta.model_dump_json()
            previous = link(previous, self.revision, position, text, self._author, self._now)
            entries.append(Entry(self.revision, position, text, self._author, self._now, previous))
        _append(self._connection, entries)
        if any(isinstance(delta, (Remove, Restore)) and delta.back_to is not None for delta in self.deltas):
            _credit_again(self._connection)

    def _completed(self, delta: Delta) -> Delta | None:
        """Return the delta, with its id where it is new; None when it is left out."""
        if isinstance(delta, Add):
            delta = delta.model_copy(update={"bullet": self._with_id(delta.bullet)})
        elif isinstance(delta, (Learned, Tag)):
            first = _first_credit(self._connection, delta)
            if not (first or getattr(delta, "again", False)):
                return None
        elif isinstance(delta, Merge):
            _move_credits(self._connection, delta)
        elif isinstance(delta, (Remove, Restore)):
            credited = delta.credited or () if isinstance(delta, Restore) else ()
            _replace_credits(self._connection, {delta.bullet_id: credited})
        return delta

    def _with_id(self, bullet: PlaybookBullet) -> PlaybookBullet:
        """Give the next number; the counter outlives removals, so no id comes twice."""
        number = _next_number(self._connection)
        _put_meta(self._connection, "next_number", str(number + 1))
        return bullet.model_copy(update={"id": f"b-{number}"})


class Rewriting:
    """A journal that is being changed where it stands; its checksums are made again.

    Attributes:
        entries: The journal as it is.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.entries = _entries(connection)

    def write(
        self,
        changes: Mapping[tuple[int, int], tuple[str, str]],
        bullets: Mapping[str, PlaybookBullet],
        deltas: Sequence[Delta],
        author: str,
    ) -> None:
        """Put other entries in the place of some, and add a revision.

        Args:
            changes: By revision and position, the new delta as JSON and its author.
            bullets: What the table has to be afterwards.
            deltas: Of the new revision.
            author: Of the new revision.
        """
        now, newest = time.time(), _newest(self._connection)
        fresh = [Entry(newest + 1, n, d.model_dump_json(), author, now, "") for n, d in enumerate(deltas)]
        previous, entries = START, list[Entry]()
        for entry in [*self.entries, *fresh]:
            text, by = changes.get((entry.revision, entry.position), (entry.text, entry.author))
            previous = link(previous, entry.revision, entry.position, text, by, entry.created_at)
            entries.append(replace(entry, text=text, author=by, checksum=previous))
        self._connection.execute(schema.journal.delete())
        _write_all(self._connection, entries, bullets)


def given_numbers(delta: Delta) -> list[int]:
    """Return the numbers of bullets that a delta shows to have been given."""
    if isinstance(delta, (Add, Restore)):
        return [delta.bullet.number]
    added = isinstance(delta, Purge) and delta.what == "added"
    return [int(delta.bullet_id.removeprefix("b-"))] if added else []


def _passing(error: Exception) -> bool:
    """Check whether the database is at fault, and not what it was asked, or a damaged file."""
    return not isinstance(error, (IntegrityError, DataError, ProgrammingError, UnicodeDecodeError))


_FAILURES = (DBAPIError, UnicodeDecodeError)
"""What a database raises; SQLite may quote a damaged file in its own words."""
_ADVICE = {
    "not a database": "name a playbook, or restore this one from a backup",
    "malformed": "restore it from a backup",
    "disk I/O": "make room on its disk",
    "is full": "make room on its disk",
    "locked": "another program writes to it; try again when that has finished",
}
"""What to do, by the words of a database."""


def _why(error: Exception, otherwise: str = "") -> str:
    """Say what a database says, on one line, and what to do about it."""
    said = " ".join(str(getattr(error, "orig", error)).split())
    advice = next((advice for words, advice in _ADVICE.items() if words in said), otherwise)
    return f"{said}; {advice}" if advice else said


def _parsed(url: str | sa.URL) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise PlaybookError(
            f"not a database URL: {url!r}; expected a path, sqlite:///FILE or postgresql://..."
        ) from error
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername in ("postgresql", "postgres") else parsed


def _inode(file: str | None) -> tuple[int, int] | None:
    try:
        found = os.stat(file) if file is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


class Store:
    """A playbook's database.

    Args:
        url: An SQLAlchemy URL; ``sqlite://`` alone lives in memory, ``postgresql+psycopg://...`` on a server.

    Raises:
        PlaybookError: The database cannot be reached, is no playbook, or is newer than this release.
    """

    def __init__(self, url: str | sa.URL) -> None:
        parsed = _parsed(url)
        self.file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        self.place = self.file or parsed.render_as_string()
        memory = parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:")
        if memory:
            self.file = None
        elif self.file is not None and "uri" not in parsed.query:
            with suppress(OSError):  # what is wrong with the place, the database says
                os.close(os.open(self.file, os.O_CREAT | os.O_EXCL, 0o600))  # for its owner's eyes alone
        # a database in memory lives in one connection, which threads must take in turns
        self._lock = threading.RLock() if memory else nullcontext()
        self._memory = memory
        self._busy = threading.local()
        self._inode: tuple[int, int] | None = None
        self.engine = connect(parsed, memory)
        try:
            with self._read() as connection:
                found = schema.version(connection)
            if found != schema.HEAD:
                with self._write() as connection:  # checked again: another process may have been faster
                    found = schema.version(connection)
                    if found != schema.HEAD:
                        schema.bring_up(connection, found)
            self._inode = _inode(self.file)
            with self._read() as connection:
                self.book_id = _meta(connection, "book_id")
        except _FAILURES as error:
            raise PlaybookError(
                f"cannot open the playbook {self.place!r}: {_why(error, 'is it a playbook file?')}"
            ) from error
        except PlaybookError as error:
            if error.__cause__ is not None:  # the database's own failure, which names the book
                raise
            raise PlaybookError(f"cannot open the playbook {self.place!r}: {error}") from error

    def close(self) -> None:
        """Release the connections."""
        self.engine.dispose()

    @property
    def address(self) -> str | None:
        """Where another process opens it again: its file, or its URL without the password; None for memory."""
        if self.file is not None:
            return str(self.file)
        if self.server_url is None:
            return None
        url = self.engine.url
        return sa.URL.create(
            url.drivername, url.username, None, url.host, url.port, url.database, url.query
        ).render_as_string()

    @property
    def server_url(self) -> str | None:
        """Where other machines reach it, password included; None for a file and for memory."""
        url = self.engine.url
        return None if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=False)

    @contextmanager
    def _read(self) -> Generator[sa.Connection]:
        if self._memory:
            self._refuse("read")
        self._check_file()
        try:
            with self._lock, self.engine.connect() as connection:
                yield connection
        except _FAILURES as error:
            raise PlaybookError(
                f"cannot read the playbook {self.place!r}: {_why(error, 'is it a playbook, and within reach?')}",
                out_of_reach=_passing(error),
            ) from error

    @contextmanager
    def _write(self) -> Generator[sa.Connection]:
        self._refuse("write")
        self._busy.writing = True
        try:
            self._check_file()
            with self._lock, self.engine.execution_options(ace_write=True).begin() as connection:
                yield connection
                _seal(connection)
            self._check_file()
        except _FAILURES as error:
            raise PlaybookError(
                f"cannot write to {self.place!r}: {_why(error)}; nothing was written",
                out_of_reach=_passing(error),
            ) from error
        finally:
            self._busy.writing = False

    def _check_file(self) -> None:
        """Refuse a file that was deleted or replaced: it goes on being written to, and no new reader would find what is
        in it."""
        if self._inode is not None and (now := _inode(self.file)) != self._inode:
            what = "is gone" if now is None else "was replaced by another file"
            raise PlaybookError(
                f"the playbook {self.place!r} {what} while it was open; put it back, or open the playbook again",
                out_of_reach=True,
            )

    def _refuse(self, what: str) -> None:
        """Refuse that what a commit calls reads or writes the same book: it would wait for its own commit to end."""
        if getattr(self._busy, "writing", False):
            raise PlaybookError(
                f"cannot {what} while this thread is in the middle of a commit: a screen must look at what it is given, and "
                "leave the playbook alone"
            )

    # -- reading -----------------------------------------------------------------------------------------------------

    def revision(self) -> int:
        """Return the newest revision."""
        with self._read() as connection:
            return _newest(connection)

    def snapshot(self) -> tuple[int, list[Row]]:
        """Return the newest revision and the bullet table at it, read in one transaction."""
        with self._read() as connection:
            return _newest(connection), _rows(connection)

    def entries(self, after: int = 0, until: int | None = None) -> list[Entry]:
        """Return the journal after a revision, up to and with another, in order."""
        with self._read() as connection:
            return _entries(connection, after, until)

    def credits(self, run_id: str | None = None) -> Credits:
        """Return by bullet id which runs, or whether this one, have given their credit; the book's own id is ``b-0``."""
        with self._read() as connection:
            return _credits(connection, run_id)

    def digest(self) -> str:
        """Return the checksum of the journal's last entry, which covers all before it; empty for an empty book."""
        with self._read() as connection:
            return _last_checksum(connection)

    def has_been(self, digest: str) -> bool:
        """Check whether the book is, or once was, in the state of a digest."""
        query = sa.select(schema.journal.c.revision).where(schema.journal.c.checksum == digest).limit(1)
        with self._read() as connection:
            return not digest or connection.execute(query).first() is not None

    def last_number(self) -> int:
        """Return the highest number that a bullet was given, whether it is still there or not."""
        with self._read() as connection:
            return _next_number(connection) - 1

    def everything(self) -> tuple[list[Entry], list[Row], int, Credits, list[str]]:
        """Read journal, table, next bullet number, credits, and what else is damaged, in one transaction: for `verify`."""
        with self._read() as connection:
            if misshapen := list(_misshapen(connection)):
                return [], [], 1, {}, misshapen  # nothing of it can be relied on
            entries, following = _entries(connection), _next_number(connection)
            return entries, _rows(connection), following, _credits(connection), list(_broken_seals(connection))

    # -- writing -----------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(
        self, author: str, find: Callable[[Iterable[str]], Mapping[str, PlaybookBullet]]
    ) -> Generator[Transaction]:
        """Write one revision, or nothing: no other commit can begin until it ends, and an exception undoes all of it.

        Args:
            author: Who changes the book.
            find: Gives those of the named bullets that are there, as the newest revision has them.

        Raises:
            PlaybookError: A delta does not apply, or the database cannot be reached; nothing was written.
        """
        with self._write() as connection:
            transaction = Transaction(connection, author, find)
            yield transaction
            transaction.write()

    @contextmanager
    def rewriting(self) -> Generator[Rewriting]:
        """Change what was written, as one transaction: only a purge does that."""
        with self._write() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA secure_delete=ON")
            yield Rewriting(connection)

    def take_over(self, entries: Sequence[Entry]) -> None:
        """Write the journal of another book into an empty one, as it is, and what follows from it.

        Raises:
            PlaybookError: This book is not empty; nothing was written.
        """
        with self._write() as connection:
            if _newest(connection):
                raise PlaybookError("a whole journal is imported into an empty playbook only; name a new file")
            _write_all(connection, entries, fold((entry.revision, entry.delta) for entry in entries))
            given = [number for entry in entries for number in given_numbers(entry.delta)]
            _put_meta(connection, "next_number", str(max(given, default=0) + 1))

    def back_up(self, target: Path) -> None:
        """Copy the book into a file, while others may write to it: SQLite's own backup.

        Raises:
            PlaybookError: It is on a server, or the file is there already.
        """
        if self.server_url is not None:
            url = sa.make_url(str(self.address)).set(drivername="postgresql").render_as_string()
            raise PlaybookError(
                f"a playbook on a server is backed up there: pg_dump '{url}' > {target.with_suffix('.sql')}"
            )
        if not target.parent.is_dir():
            raise PlaybookError(f"cannot write {str(target)!r}: the folder {str(target.parent)!r} does not exist")
        if target.exists():
            raise PlaybookError(f"{str(target)!r} is there already; name a new file")
        with self._lock, closing(self.engine.raw_connection()) as raw, closing(sqlite3.connect(target)) as copy:
            source: Any = raw.driver_connection
            source.backup(copy)

    def compact(self) -> None:
        """Leave nothing of what was deleted in free pages, old row versions or the write-ahead log."""
        sqlite = self.engine.dialect.name == "sqlite"
        wal = "PRAGMA wal_checkpoint(TRUNCATE)"
        steps = [wal, "VACUUM", wal] if sqlite else [f"VACUUM FULL {name}" for name in schema.metadata.tables]
        with self._lock, closing(self.engine.raw_connection()) as raw:  # neither may run inside a transaction
            connection: Any = raw.driver_connection
            if not sqlite:
                connection.autocommit = True
            try:
                for step in steps:
                    row = connection.execute(step).fetchone() if sqlite else connection.execute(step)
                    if step == wal and row and row[0]:  # the driver has waited for its turn
                        raise PlaybookError(
                            "another process is reading the playbook, so that what was purged is still in its "
                            "write-ahead log; purge again when it has finished"
                        )
            except self.engine.dialect.loaded_dbapi.Error as error:
                raise PlaybookError(
                    f"what was purged may still be in free pages of {self.place!r}, which could not be rewritten: {error}; "
                    "make room on the disk, and purge again"
                ) from error
            finally:
                if not sqlite:
                    connection.autocommit = False

    def remember_queue(self, path: Path) -> None:
        """Note a folder of runs that wait to be learned from, or of stored ones: a purge looks through it, too."""
        key = f"queue:{path.resolve()}"
        with self._write() as connection:
            _put_meta(connection, key, schema.seal(self.book_id or "", key))

    def queues(self) -> list[Path]:
        """Return the folders that were noted."""
        with self._read() as connection:
            found = connection.execute(sa.select(schema.meta.c.key).where(schema.meta.c.key.startswith("queue:")))
            return [Path(key.removeprefix("queue:")) for key in found.scalars()]

    def start_ids_after(self, number: int) -> None:
        """Give no new bullet this number, or a lower one."""
        with self._write() as connection:
            _put_meta(connection, "next_number", str(number + 1))

    # -- vectors -----------------------------------------------------------------------------------------------------

    def vectors(self, embedder: str, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return stored vectors by text hash; one that was changed after it was written is left out, and so computed
        again."""
        found: dict[str, NDArray[np.float32]] = {}
        table = schema.vectors
        with self._read() as connection:
            for start in range(0, len(keys), 500):
                query = sa.select(table.c.text_sha256, table.c.vector).where(
                    table.c.embedder == embedder, table.c.text_sha256.in_(keys[start : start + 500])
                )
                for row in connection.execute(query):
                    if (vector := _unsealed(embedder, row.text_sha256, row.vector)) is not None:
                        found[row.text_sha256] = np.frombuffer(vector, dtype=np.float32)
        return found

    def put_vectors(self, embedder: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store vectors, in the place of older ones."""
        rows = [
            {"embedder": embedder, "text_sha256": key, "vector": _sealed(embedder, key, vector)}
            for key, vector in vectors.items()
        ]
        if rows:
            table = schema.vectors
            with self._write() as connection:  # two processes may have computed the same one
                for row in rows:
                    key = (table.c.embedder == embedder) & (table.c.text_sha256 == row["text_sha256"])
                    connection.execute(table.delete().where(key))
                connection.execute(table.insert(), rows)

    def drop_vectors(self, keep: Mapping[str, set[str]]) -> int:
        """Forget vectors whose text no bullet has any more, and those of other embedders; returns how many went."""
        table, gone = schema.vectors, 0
        with self._write() as connection:
            for name, key in connection.execute(sa.select(table.c.embedder, table.c.text_sha256)).all():
                if key not in keep.get(name, set()):
                    where = (table.c.embedder == name) & (table.c.text_sha256 == key)
                    gone += connection.execute(table.delete().where(where)).rowcount
        return gone


_SEAL = 16
"""Bytes before the numbers of a stored vector: their checksum."""


def _sealed(embedder: str, key: str, vector: NDArray[Any]) -> bytes:
    numbers = vector.astype(np.float32).tobytes()
    return schema.seal(embedder, key, numbers).encode() + numbers


def _unsealed(embedder: str, key: str, stored: bytes) -> bytes | None:
    """Read the numbers of a stored vector; None where they are not those that were written."""
    numbers = stored[_SEAL:]
    return numbers if schema.seal(embedder, key, numbers).encode() == stored[:_SEAL] else None


def _misshapen(connection: sa.Connection) -> Iterator[str]:
    """Yield where a file is no whole database, or a column holds what does not belong there: SQLite takes any value."""
    if connection.dialect.name != "sqlite":
        return
    yield from (row for row in connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars() if row != "ok")
    for table in schema.metadata.sorted_tables:
        for column in table.columns:
            right = _TYPES[type(column.type)]
            query = sa.select(sa.func.count()).select_from(table).where(sa.func.typeof(column).not_in(right))
            if connection.execute(query).scalar_one():
                yield f"the column {column.name} of the table {table.name} holds what is no {right[0]}"


_TYPES: dict[type[Any], tuple[str, ...]] = {
    sa.Integer: ("integer",),
    sa.Text: ("text",),
    sa.Float: ("real", "integer"),
    sa.LargeBinary: ("blob",),
}


def _broken_seals(connection: sa.Connection) -> Iterator[str]:
    """Yield what of the vectors and of the table `meta` was changed after it was written."""
    broken = sum(_unsealed(*row) is None for row in connection.execute(sa.select(schema.vectors)))
    if broken:
        yield f"{broken} vectors were changed after they were written; they are computed again when they are needed"
    rows = {row.key: row.value for row in connection.execute(sa.select(schema.meta))}
    book_id = rows.get("book_id", "")
    for key, value in rows.items():
        good = {"book_id": True, "next_number": True, "seal": value in (_sealing(connection), schema.seal(book_id))}
        if not good.get(key, key.startswith("queue:") and value == schema.seal(book_id, key)):
            yield f"{key!r} in the table meta was changed after it was written"
    if "seal" not in rows:
        yield "the seal is missing from the table meta"


def _sealing(connection: sa.Connection) -> str:
    """Compute what the seal has to be: a row of `meta`, or the newest entry, that is taken out breaks it."""
    names = connection.execute(sa.select(schema.meta.c.key).where(schema.meta.c.key.startswith("queue:"))).scalars()
    return schema.seal(_meta(connection, "book_id") or "", _last_checksum(connection), *sorted(names))


def _seal(connection: sa.Connection) -> None:
    sealed = schema.meta.update().where(schema.meta.c.key == "seal").values(value=_sealing(connection))
    connection.execute(sealed)


def _put_meta(connection: sa.Connection, key: str, value: str) -> None:
    table = schema.meta
    if not connection.execute(table.update().where(table.c.key == key).values(value=value)).rowcount:
        connection.execute(table.insert().values(key=key, value=value))


def _next_number(connection: sa.Connection) -> int:
    return int(_meta(connection, "next_number") or 1)


def _newest(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.max(schema.journal.c.revision))).scalar_one() or 0


def _entries(connection: sa.Connection, after: int = 0, until: int | None = None) -> list[Entry]:
    table = schema.journal
    query = sa.select(table).where(table.c.revision > after).order_by(table.c.revision, table.c.position)
    if until is not None:
        query = query.where(table.c.revision <= until)
    return [Entry(*row) for row in connection.execute(query)]


def _rows(connection: sa.Connection) -> list[Row]:
    rows = connection.execute(sa.select(schema.bullets).order_by(schema.bullets.c.number)).all()
    return list(map(Row._make, rows))


def _meta(connection: sa.Connection, key: str) -> str | None:
    return connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar_one_or_none()


def _last_checksum(connection: sa.Connection) -> str:
    table = schema.journal
    query = sa.select(table.c.checksum).order_by(table.c.revision.desc(), table.c.position.desc()).limit(1)
    return connection.execute(query).scalar_one_or_none() or START


def _put(connection: sa.Connection, bullet_id: str, bullet: PlaybookBullet | None) -> None:
    table, number = schema.bullets, int(bullet_id.removeprefix("b-"))
    connection.execute(table.delete().where(table.c.number == number))
    if bullet is not None:
        connection.execute(table.insert().values(**Row.of(bullet)._asdict()))


def _append(connection: sa.Connection, entries: Iterable[Entry]) -> None:
    if rows := [asdict(entry) for entry in entries]:
        connection.execute(schema.journal.insert(), [{"delta": row.pop("text"), **row} for row in rows])


def _write_all(connection: sa.Connection, entries: Iterable[Entry], bullets: Mapping[str, PlaybookBullet]) -> None:
    """Write a whole journal, where none stands, and in the place of what stands there the bullets and credits."""
    _append(connection, entries)
    connection.execute(schema.bullets.delete())
    if rows := [Row.of(bullet)._asdict() for bullet in bullets.values()]:
        connection.execute(schema.bullets.insert(), rows)
    _credit_again(connection)


def _credits(connection: sa.Connection, run_id: str | None = None) -> Credits:
    query = sa.select(schema.credits.c.run_id, schema.credits.c.number).order_by(schema.credits.c.run_id)
    found: dict[str, set[str]] = {}
    for run, number in connection.execute(query if run_id is None else query.where(schema.credits.c.run_id == run_id)):
        found.setdefault(f"b-{number}", set()).add(run)
    return found


def _first_credit(connection: sa.Connection, tag: Tag | Learned) -> bool:
    """Record a run's credit for a bullet, or that it was learned from; False when that has been done."""
    if not tag.run_id:
        return True
    table, number = schema.credits, int(tag.bullet_id.removeprefix("b-"))
    where = (table.c.run_id == tag.run_id) & (table.c.number == number)
    if connection.execute(sa.select(table.c.run_id).where(where)).first() is not None:
        return False
    connection.execute(table.insert().values(run_id=tag.run_id, number=number))
    return True


def _replace_credits(connection: sa.Connection, credited: Mapping[str, Iterable[str]]) -> None:
    table = schema.credits
    for bullet_id, runs in credited.items():
        number = int(bullet_id.removeprefix("b-"))
        connection.execute(table.delete().where(table.c.number == number))
        if rows := [{"run_id": run, "number": number} for run in sorted(runs)]:
            connection.execute(table.insert(), rows)


def _credit_again(connection: sa.Connection) -> None:
    """Write the credits that the journal adds up to."""
    connection.execute(schema.credits.delete())
    _replace_credits(connection, credits_of((entry.revision, entry.delta) for entry in _entries(connection)))


def _move_credits(connection: sa.Connection, merge: Merge) -> None:
    """Credit that runs gave to the absorbed bullets counts as given to the one that stays."""
    table, absorbing = schema.credits, int(merge.bullet_id.removeprefix("b-"))
    for other in merge.absorbed:
        number = int(other.removeprefix("b-"))
        have = sa.select(table.c.run_id).where(table.c.number == absorbing)
        connection.execute(table.delete().where((table.c.number == number) & table.c.run_id.in_(have)))
        connection.execute(table.update().where(table.c.number == number).values(number=absorbing))


# -- before the work ---------------------------------------------------------------------------------------------------

PATIENCE = 0.8
"""Seconds that `check_usable` waits for a writer that does not come to an end."""
ROOM = 256 * 1024
"""Bytes that a disk needs to have for a playbook to be written to."""


def check_usable(path: str | Path, *, made: bool = False) -> None:
    """Find out in a moment that a playbook cannot be used: it is not there, damaged, old, locked, or without room.

    Args:
        path: A file, or a URL.
        made: Whether one that is not there would be made.

    Raises:
        PlaybookError: It says which, and what to do.

    Examples:
        >>> check_usable("no-such-book.db", made=True)
    """
    if not made:
        check_there(path)
    url, text = book_url(path), str(path).removeprefix("sqlite:///")
    if "://" not in text:
        file = Path(text)
        if not os.access(file if file.exists() else file.resolve().parent, os.W_OK):
            raise PlaybookError(f"may not write to the playbook {str(path)!r}; change who owns it, or name another")
        if shutil.disk_usage(file.resolve().parent).free < ROOM:
            raise PlaybookError(
                f"there is no room on the disk of the playbook {str(path)!r}; make some, or name another"
            )
        if not file.exists():
            return
        _check_free(file)
    Store(url).close()


def _check_free(file: Path) -> None:
    """Refuse a book to which somebody writes for so long that runs would wait for it."""
    with closing(sqlite3.connect(file, timeout=PATIENCE, isolation_level=None)) as connection:
        while True:
            before = None
            try:
                before = connection.execute("PRAGMA data_version").fetchone()
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.DatabaseError as error:
                if "locked" not in str(error):
                    return  # what else is wrong with it, opening it says
                if before is not None and connection.execute("PRAGMA data_version").fetchone() != before:
                    continue  # others come and go
                raise PlaybookError(
                    f"the playbook {str(file)!r} is locked by another program, which writes to it; try again when that "
                    "has ended"
                ) from error
