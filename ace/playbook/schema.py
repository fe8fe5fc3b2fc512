"""The tables of a playbook's database, and how an older one becomes the newest."""

from __future__ import annotations

import hashlib
import uuid

import sqlalchemy as sa

from ace.core import PlaybookError

HEAD = "0015"
"""The migration in `migrations/versions`, from nothing: books from before it are refused."""

metadata = sa.MetaData()
journal = sa.Table(
    "journal",
    metadata,
    sa.Column("revision", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("checksum", sa.Text, nullable=False),
)
bullets = sa.Table(
    "bullets",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("bullet", sa.Text, nullable=False),
    sa.Column("filter_key", sa.Text, nullable=False),
    sa.Column("shape", sa.Text, nullable=False, server_default=""),
)
vectors = sa.Table(
    "vectors",
    metadata,
    sa.Column("embedder", sa.Text, primary_key=True),
    sa.Column("text_sha256", sa.Text, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)
credits = sa.Table(
    "credits",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
)
meta = sa.Table(
    "meta", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)
_version = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))


def seal(*parts: str | bytes) -> str:
    """Compute a checksum of what stands beside the journal: `seal("a", b"b")`."""
    known = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        known.update(len(data).to_bytes(8, "big") + data)
    return known.hexdigest()[:16]


def version(connection: sa.Connection) -> str | None:
    """Return the migration that a database is at; None when it is empty.

    Raises:
        PlaybookError: It is the database of something else, or of a playbook that this release cannot read.
    """
    there = set(sa.inspect(connection).get_table_names())
    if not there:
        return None
    if not {meta.name, journal.name} <= there:
        raise PlaybookError("it is the database of something else; name a new file")
    found = None
    if _version.name in there:
        found = connection.execute(sa.select(_version.c.version_num)).scalar_one_or_none()
    if found is None or found < HEAD:
        raise PlaybookError(
            f"it was written before the first release (schema version {found or 'unknown'}; the oldest that can be read is "
            f"{HEAD}); name a new file and learn again"
        )
    if found > HEAD:
        raise PlaybookError(f"it has schema version {found}, this release reads up to {HEAD}; update the package")
    return found


def bring_up(connection: sa.Connection, found: str | None) -> None:
    """Create the tables of a new playbook, or migrate those of an older one, in the caller's transaction."""
    if found is not None:
        migrate(connection)
        return
    metadata.create_all(connection)
    _version.create(connection)
    connection.execute(_version.insert().values(version_num=HEAD))
    book_id = uuid.uuid4().hex
    connection.execute(meta.insert(), [{"key": "book_id", "value": book_id}, {"key": "seal", "value": seal(book_id)}])


def migrate(connection: sa.Connection) -> None:
    """Run the migrations that a database lacks, in the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "ace:playbook/migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
