"""The journal and its fold in a database: one transaction per commit, revisions without gaps, SQLite or PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from pydantic import ValidationError
from sqlalchemy.exc import ArgumentError, DBAPIError

from ace.core import PlaybookError
from ace.playbook import schema
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.chain import START, link
from ace.playbook.delta import DELTAS, Add, Delta, Merge, Restore, Tag, apply
from ace.playbook.engine import connect


@dataclass(frozen=True)
class Commit:
    """What one commit wrote; no deltas and the newest revision when there was nothing left to write."""

    revision: int
    deltas: tuple[Delta, ...]


Plan = Callable[[int], Sequence[Delta]]
Look = Callable[[Mapping[str, PlaybookBullet], Mapping[str, PlaybookBullet | None]], Sequence[Delta]]
Credits = Collection[tuple[str, int]]
"""Which run has given its credit to which bullet's number."""


class Row(NamedTuple):
    """One bullet as it is stored."""

    number: int
    bullet: str
    facets: str


@dataclass(frozen=True)
class Entry:
    """One delta in the journal, with its commit."""

    revision: int
    position: int
    text: str
    author: str
    created_at: float
    checksum: str

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


class Store:
    """A playbook's database.

    Args:
        url: An SQLAlchemy URL; ``sqlite://`` alone lives in memory, ``postgresql+psycopg://...`` on a server.

    Raises:
        PlaybookError: The database cannot be reached, is no playbook, or is newer than this release.
    """

    def __init__(self, url: str | sa.URL) -> None:
        try:
            parsed = sa.make_url(url)
        except ArgumentError as error:
            raise PlaybookError(
                f"not a database URL: {url!r}; expected a path, sqlite:///FILE or postgresql://..."
            ) from error
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.url = parsed.render_as_string()
        self.file = parsed.database if parsed.get_backend_name() == "sqlite" else None
        memory = parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:")
        if memory:
            self.file = None
        # a database in memory lives in one connection, which threads must take in turns
        self._lock = threading.RLock() if memory else nullcontext()
        self._memory = memory
        self._busy = threading.local()
        self.engine = connect(parsed, memory)
        try:
            with self._write() if memory else self._read() as connection:
                found = schema.version(connection)
                if memory:
                    schema.bring_up(connection, found)
            if found != schema.HEAD and not memory:
                with self._write() as connection:  # asked again: another process may have been faster
                    found = schema.version(connection)
                    if found != schema.HEAD:
                        schema.bring_up(connection, found)
            with self._read() as connection:
                self.book_id = _meta(connection, "book_id")
        except DBAPIError as error:
            raise PlaybookError(
                f"cannot open the playbook {self.url!r}: {error.orig}; is it a playbook file?"
            ) from error
        except PlaybookError as error:
            raise PlaybookError(f"cannot open the playbook {self.url!r}: {error}") from error

    def close(self) -> None:
        """Release the connections."""
        self.engine.dispose()

    @contextmanager
    def _read(self) -> Generator[sa.Connection]:
        if self._memory:
            self._refuse("read")
        try:
            with self._lock, self.engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise PlaybookError(
                f"cannot read {self.url!r}: {error.orig}; is it a playbook, and within reach?"
            ) from error

    @contextmanager
    def _write(self) -> Generator[sa.Connection]:
        self._refuse("write")
        self._busy.writing = True
        try:
            with self._lock, self.engine.execution_options(ace_write=True).begin() as connection:
                yield connection
        finally:
            self._busy.writing = False

    def _refuse(self, what: str) -> None:
        """A callback of a commit would wait for its own commit to end."""
        if getattr(self._busy, "writing", False):
            raise PlaybookError(
                f"cannot {what} while this thread is in the middle of a commit: a screen must look at what it is given, and "
                "leave the playbook alone"
            )

    # -- reading -----------------------------------------------------------------------------------------------------

    def revision(self) -> int:
        """The newest revision."""
        with self._read() as connection:
            return _newest(connection)

    def snapshot(self) -> tuple[int, list[Row]]:
        """The newest revision and the bullet table at it, read in one transaction."""
        with self._read() as connection:
            return _newest(connection), _rows(connection)

    def entries(self, after: int = 0, until: int | None = None) -> list[Entry]:
        """The journal after a revision, up to and with another, in order."""
        table = schema.journal
        query = sa.select(table).where(table.c.revision > after).order_by(table.c.revision, table.c.position)
        if until is not None:
            query = query.where(table.c.revision <= until)
        with self._read() as connection:
            return [Entry(*row) for row in connection.execute(query)]

    def entry_texts(self, after: int) -> list[str]:
        """The deltas after a revision as JSON, in order."""
        table = schema.journal
        query = sa.select(table.c.delta).where(table.c.revision > after).order_by(table.c.revision, table.c.position)
        with self._read() as connection:
            return list(connection.execute(query).scalars())

    def checksum(self, revision: int) -> str | None:
        """The checksum of the last entry of a revision; None when there is no such revision, empty for revision 0."""
        table = schema.journal
        query = (
            sa.select(table.c.checksum).where(table.c.revision == revision).order_by(table.c.position.desc()).limit(1)
        )
        with self._read() as connection:
            return connection.execute(query).scalar_one_or_none() if revision else START

    def everything(self) -> tuple[list[Entry], list[Row], int, set[tuple[str, int]]]:
        """Journal, table, the next bullet number and the credits, read in one transaction: for `verify`."""
        table = schema.journal
        query = sa.select(table).order_by(table.c.revision, table.c.position)
        with self._read() as connection:
            entries = [Entry(*row) for row in connection.execute(query)]
            credits = connection.execute(sa.select(schema.credits.c.run_id, schema.credits.c.number)).all()
            following = int(_meta(connection, "next_number") or 1)
            return entries, _rows(connection), following, {(row.run_id, row.number) for row in credits}

    # -- writing -----------------------------------------------------------------------------------------------------

    def commit(self, plan: Plan, author: str, look: Look | None = None, credited: Credits | None = None) -> Commit:
        """Write deltas as one revision, or nothing.

        A `Tag` of a run that has given its credit to the bullet before is left out.

        Args:
            plan: Called with the newest revision inside the transaction, where nobody else can commit: what to change, in
                order; it may refuse by raising.
            author: Who changes it.
            look: Called with the bullets before and after; what it answers is written too.
            credited: After a rollback, the credits that count; None leaves them.

        Raises:
            PlaybookError: A delta does not apply, or the database cannot be reached; nothing was written.
        """
        try:
            with self._write() as connection:
                newest = _newest(connection)
                deltas = plan(newest)
                if credited is not None and deltas:
                    _replace_credits(connection, credited)
                return self._commit(connection, newest, deltas, author, look)
        except DBAPIError as error:
            raise PlaybookError(f"cannot write to {self.url!r}: {error.orig}; nothing was written") from error

    def _commit(
        self, connection: sa.Connection, newest: int, deltas: Sequence[Delta], author: str, look: Look | None
    ) -> Commit:
        revision, now = newest + 1, time.time()
        touched = self._load(connection, deltas)
        before, changed, written = dict(touched), dict[str, PlaybookBullet | None](), list[Delta]()

        def take(delta: Delta) -> None:
            for bullet_id, bullet in apply(touched, delta, revision).items():
                changed[bullet_id] = bullet
                if bullet is None:
                    touched.pop(bullet_id, None)
                else:
                    touched[bullet_id] = bullet
            written.append(delta)

        for delta in deltas:
            if isinstance(delta, Add):
                delta = delta.model_copy(update={"bullet": self._with_id(connection, delta.bullet)})
            elif isinstance(delta, Tag) and not _first_credit(connection, delta):
                continue
            elif isinstance(delta, Merge):
                _move_credits(connection, delta)
            if getattr(delta, "at", None) == 0.0:
                delta = delta.model_copy(update={"at": now})
            take(delta)
        for delta in look(before, changed) if look is not None else ():
            take(delta)
        if not written:
            return Commit(newest, ())
        for bullet_id, bullet in changed.items():
            _put(connection, bullet_id, bullet)
        previous = _last_checksum(connection)
        rows: list[dict[str, Any]] = []
        for position, delta in enumerate(written):
            text = delta.model_dump_json()
            previous = link(previous, revision, position, text, author, now)
            entry = Entry(revision, position, text, author, now, previous)
            row = asdict(entry)
            rows.append({"delta": row.pop("text"), **row})
        connection.execute(schema.journal.insert(), rows)
        return Commit(revision, tuple(written))

    def _load(self, connection: sa.Connection, deltas: Sequence[Delta]) -> dict[str, PlaybookBullet]:
        """The bullets that these deltas speak of."""
        ids: set[str] = set()
        for delta in deltas:
            if not isinstance(delta, (Add, Restore)):
                ids.update((delta.bullet_id, *getattr(delta, "absorbed", ())))
        numbers = sorted(int(i.removeprefix("b-")) for i in ids)
        table, loaded = schema.bullets, list[PlaybookBullet]()
        for start in range(0, len(numbers), 500):
            query = sa.select(table.c.bullet).where(table.c.number.in_(numbers[start : start + 500]))
            loaded += [PlaybookBullet.model_validate_json(row) for row in connection.execute(query).scalars()]
        return {bullet.id: bullet for bullet in loaded}

    def _with_id(self, connection: sa.Connection, bullet: PlaybookBullet) -> PlaybookBullet:
        """Give the next number; the counter outlives removals, so no id comes twice."""
        found, table = _meta(connection, "next_number"), schema.meta
        number = int(found or 1)
        if found is None:
            connection.execute(table.insert().values(key="next_number", value=str(number + 1)))
        else:
            connection.execute(table.update().where(table.c.key == "next_number").values(value=str(number + 1)))
        return bullet.model_copy(update={"id": f"b-{number}"})

    def start_ids_after(self, number: int) -> None:
        """Give no new bullet this number, or a lower one."""
        table = schema.meta
        with self._write() as connection:
            connection.execute(table.delete().where(table.c.key == "next_number"))
            connection.execute(table.insert().values(key="next_number", value=str(number + 1)))

    # -- vectors -----------------------------------------------------------------------------------------------------

    def vectors(self, embedder: str, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Stored vectors by text hash."""
        found: dict[str, NDArray[np.float32]] = {}
        table = schema.vectors
        with self._read() as connection:
            for start in range(0, len(keys), 500):
                query = sa.select(table.c.text_sha256, table.c.vector).where(
                    table.c.embedder == embedder, table.c.text_sha256.in_(keys[start : start + 500])
                )
                for row in connection.execute(query):
                    found[row.text_sha256] = np.frombuffer(row.vector, dtype=np.float32)
        return found

    def has_vectors_of_others(self, embedder: str) -> bool:
        """Whether another embedder was used before."""
        query = sa.select(schema.vectors.c.embedder).where(schema.vectors.c.embedder != embedder).limit(1)
        with self._read() as connection:
            return connection.execute(query).first() is not None

    def put_vectors(self, embedder: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store vectors; ones that are there already stay."""
        known = self.vectors(embedder, list(vectors))
        rows = [
            {"embedder": embedder, "text_sha256": key, "vector": vector.astype(np.float32).tobytes()}
            for key, vector in vectors.items()
            if key not in known
        ]
        if rows:
            insert = schema.vectors.insert()
            with self._write() as connection:  # two processes may have computed the same one
                if self.engine.dialect.name == "sqlite":
                    insert = insert.prefix_with("OR IGNORE")
                else:
                    from sqlalchemy.dialects.postgresql import insert as upsert

                    insert = upsert(schema.vectors).on_conflict_do_nothing()
                connection.execute(insert, rows)

    def drop_vectors(self, keep: Mapping[str, set[str]]) -> int:
        """Forget vectors whose text no bullet has any more, and those of other embedders; returns how many went."""
        table, gone = schema.vectors, 0
        with self._write() as connection:
            for name, key in connection.execute(sa.select(table.c.embedder, table.c.text_sha256)).all():
                if key not in keep.get(name, set()):
                    where = (table.c.embedder == name) & (table.c.text_sha256 == key)
                    gone += connection.execute(table.delete().where(where)).rowcount
        return gone


def _newest(connection: sa.Connection) -> int:
    return connection.execute(sa.select(sa.func.max(schema.journal.c.revision))).scalar_one() or 0


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
        connection.execute(table.insert().values(number=number, bullet=bullet.model_dump_json(), facets=bullet.facets))


def _first_credit(connection: sa.Connection, tag: Tag) -> bool:
    """Book a run's credit for a bullet; False when it has been given."""
    if not tag.run_id:
        return True
    table, number = schema.credits, int(tag.bullet_id.removeprefix("b-"))
    where = (table.c.run_id == tag.run_id) & (table.c.number == number)
    if connection.execute(sa.select(table.c.run_id).where(where)).first() is not None:
        return False
    connection.execute(table.insert().values(run_id=tag.run_id, number=number))
    return True


def _move_credits(connection: sa.Connection, merge: Merge) -> None:
    """What runs gave to the absorbed bullets, they have given to the one that stays."""
    table, heir = schema.credits, int(merge.bullet_id.removeprefix("b-"))
    for other in merge.absorbed:
        number = int(other.removeprefix("b-"))
        have = sa.select(table.c.run_id).where(table.c.number == heir)
        connection.execute(table.delete().where((table.c.number == number) & table.c.run_id.in_(have)))
        connection.execute(table.update().where(table.c.number == number).values(number=heir))


def _replace_credits(connection: sa.Connection, credited: Credits) -> None:
    connection.execute(schema.credits.delete())
    rows = [{"run_id": run, "number": number} for run, number in sorted(credited)]
    if rows:
        connection.execute(schema.credits.insert(), rows)
