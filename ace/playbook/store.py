"""The journal and its fold in a database: one transaction per commit, revisions without gaps."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import event
from sqlalchemy.exc import DatabaseError

from ace.core import PlaybookError
from ace.playbook.bullet import PlaybookBullet
from ace.playbook.delta import DELTAS, Add, Delta, apply

SCHEMA_VERSION = "1"

_metadata = sa.MetaData()
_journal = sa.Table(
    "journal",
    _metadata,
    sa.Column("revision", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
)
_bullets = sa.Table(
    "bullets",
    _metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("bullet", sa.Text, nullable=False),
)
_vectors = sa.Table(
    "vectors",
    _metadata,
    sa.Column("embedder", sa.Text, primary_key=True),
    sa.Column("text_sha256", sa.Text, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)
_meta = sa.Table(
    "meta", _metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)


@dataclass(frozen=True)
class Commit:
    """What one commit wrote."""

    revision: int
    deltas: tuple[Delta, ...]


class Store:
    """A playbook's database.

    Args:
        url: An SQLAlchemy URL; ``sqlite://`` alone lives in memory.
    """

    def __init__(self, url: str | sa.URL) -> None:
        parsed = sa.make_url(url)
        self.url = parsed.render_as_string()
        memory = parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:")
        # a database in memory lives in one connection, which threads must take in turns
        self._lock = threading.RLock() if memory else nullcontext()
        options: dict[str, Any] = {"poolclass": sa.StaticPool} if memory else {}
        if parsed.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": 60, "check_same_thread": False}
        self.engine = sa.create_engine(parsed, **options)
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _configure_sqlite)
            event.listen(self.engine, "begin", _begin)
        try:
            with self._write() as connection:
                there = set(sa.inspect(connection).get_table_names())
                if there and _meta.name not in there:
                    raise PlaybookError(f"{self.url!r} is the database of something else; name a new file")
                _metadata.create_all(connection)
                found = connection.execute(
                    sa.select(_meta.c.value).where(_meta.c.key == "schema_version")
                ).scalar_one_or_none()
                if found is None:
                    connection.execute(_meta.insert().values(key="schema_version", value=SCHEMA_VERSION))
        except DatabaseError as error:
            raise PlaybookError(f"cannot open the playbook {self.url!r}: {error.orig}; is it a playbook file?") from error
        if found not in (None, SCHEMA_VERSION):
            raise PlaybookError(
                f"the playbook {self.url!r} has schema version {found}, this release reads {SCHEMA_VERSION}; update the package"
            )

    def close(self) -> None:
        """Release the connections."""
        self.engine.dispose()

    @contextmanager
    def _read(self) -> Generator[sa.Connection]:
        with self._lock, self.engine.connect() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Generator[sa.Connection]:
        with self._lock, self.engine.execution_options(ace_write=True).begin() as connection:
            yield connection

    def snapshot(self) -> tuple[int, dict[str, PlaybookBullet]]:
        """The newest revision and the bullet table at it, read in one transaction."""
        with self._read() as connection:
            revision = connection.execute(sa.select(sa.func.max(_journal.c.revision))).scalar_one() or 0
            rows = connection.execute(sa.select(_bullets.c.bullet).order_by(_bullets.c.number)).scalars()
            loaded = (PlaybookBullet.model_validate_json(row) for row in rows)
            return revision, {bullet.id: bullet for bullet in loaded}

    def journal(self, after: int = 0) -> list[tuple[int, Delta]]:
        """All deltas after a revision, in order."""
        query = (
            sa.select(_journal.c.revision, _journal.c.delta)
            .where(_journal.c.revision > after)
            .order_by(_journal.c.revision, _journal.c.position)
        )
        with self._read() as connection:
            return [(row.revision, DELTAS.validate_json(row.delta)) for row in connection.execute(query)]

    def commit(self, deltas: Sequence[Delta], author: str, check: Callable[[int], None]) -> Commit:
        """Write deltas as one revision, or nothing.

        Args:
            deltas: What to change, in order.
            author: Who changes it.
            check: Called with the newest revision inside the transaction; it may refuse by raising.

        Raises:
            PlaybookError: A delta does not apply; nothing was written.
        """
        with self._write() as connection:
            newest = connection.execute(sa.select(sa.func.max(_journal.c.revision))).scalar_one() or 0
            check(newest)
            revision = newest + 1
            touched = self._load(connection, deltas)
            written: list[Delta] = []
            for position, delta in enumerate(deltas):
                if isinstance(delta, Add):
                    delta = delta.model_copy(update={"bullet": self._with_id(connection, delta.bullet)})
                for bullet_id, bullet in apply(touched, delta, revision).items():
                    self._put(connection, bullet_id, bullet)
                    if bullet is None:
                        touched.pop(bullet_id, None)
                    else:
                        touched[bullet_id] = bullet
                connection.execute(
                    _journal.insert().values(
                        revision=revision,
                        position=position,
                        delta=delta.model_dump_json(),
                        author=author,
                        created_at=time.time(),
                    )
                )
                written.append(delta)
            return Commit(revision, tuple(written))

    def _load(self, connection: sa.Connection, deltas: Sequence[Delta]) -> dict[str, PlaybookBullet]:
        """The bullets that these deltas speak of."""
        ids: set[str] = set()
        for delta in deltas:
            if not isinstance(delta, Add):
                ids.update((delta.bullet_id, *getattr(delta, "absorbed", ())))
        numbers = [int(i.removeprefix("b-")) for i in ids if i.removeprefix("b-").isdigit()]
        rows = connection.execute(sa.select(_bullets.c.bullet).where(_bullets.c.number.in_(numbers))).scalars()
        loaded = (PlaybookBullet.model_validate_json(row) for row in rows)
        return {bullet.id: bullet for bullet in loaded}

    def _with_id(self, connection: sa.Connection, bullet: PlaybookBullet) -> PlaybookBullet:
        """Give the next number; the counter outlives removals, so no id comes twice."""
        key = "next_number"
        found = connection.execute(sa.select(_meta.c.value).where(_meta.c.key == key)).scalar_one_or_none()
        number = int(found or 1)
        if found is None:
            connection.execute(_meta.insert().values(key=key, value=str(number + 1)))
        else:
            connection.execute(_meta.update().where(_meta.c.key == key).values(value=str(number + 1)))
        return bullet.model_copy(update={"id": f"b-{number}"})

    def _put(self, connection: sa.Connection, bullet_id: str, bullet: PlaybookBullet | None) -> None:
        number = int(bullet_id.removeprefix("b-"))
        connection.execute(_bullets.delete().where(_bullets.c.number == number))
        if bullet is not None:
            connection.execute(_bullets.insert().values(number=number, bullet=bullet.model_dump_json()))

    def history(self) -> list[dict[str, Any]]:
        """One entry per delta: revision, kind, author, time."""
        query = sa.select(_journal).order_by(_journal.c.revision, _journal.c.position)
        with self._read() as connection:
            return [
                {
                    "revision": row.revision,
                    "author": row.author,
                    "created_at": row.created_at,
                    **json.loads(row.delta),
                }
                for row in connection.execute(query)
            ]

    def vectors(self, embedder: str, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Stored vectors by text hash."""
        found: dict[str, NDArray[np.float32]] = {}
        with self._read() as connection:
            for start in range(0, len(keys), 500):
                query = sa.select(_vectors.c.text_sha256, _vectors.c.vector).where(
                    _vectors.c.embedder == embedder, _vectors.c.text_sha256.in_(keys[start : start + 500])
                )
                for row in connection.execute(query):
                    found[row.text_sha256] = np.frombuffer(row.vector, dtype=np.float32)
        return found

    def put_vectors(self, embedder: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store vectors; ones that are there already stay."""
        if not vectors:
            return
        known = self.vectors(embedder, list(vectors))
        rows = [
            {"embedder": embedder, "text_sha256": key, "vector": vector.astype(np.float32).tobytes()}
            for key, vector in vectors.items()
            if key not in known
        ]
        if rows:
            with self._write() as connection:
                connection.execute(_vectors.insert().prefix_with("OR IGNORE", dialect="sqlite"), rows)


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # SQLAlchemy, not the driver, opens transactions
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    # a writer takes the lock at once, so that two of them never find out at the end that they read the same revision
    writes = connection.get_execution_options().get("ace_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
