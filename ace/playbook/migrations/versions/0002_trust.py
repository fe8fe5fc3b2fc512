"""Checksums in the journal, facets beside the bullets, one credit per run and bullet, an identity of the book."""

import json
import uuid

import sqlalchemy as sa
from alembic import op

from ace.playbook.bullet import PlaybookBullet
from ace.playbook.chain import START, link

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns with their values, and the table of credits."""
    connection = op.get_bind()
    op.add_column("journal", sa.Column("checksum", sa.Text, nullable=False, server_default=""))
    op.add_column("bullets", sa.Column("facets", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "credits",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    rows = connection.execute(
        sa.text("SELECT revision, position, delta, author, created_at FROM journal ORDER BY revision, position")
    ).all()
    previous = START
    credited: set[tuple[str, int]] = set()
    for row in rows:
        previous = link(previous, row.revision, row.position, row.delta, row.author, row.created_at)
        connection.execute(
            sa.text("UPDATE journal SET checksum = :c WHERE revision = :r AND position = :p"),
            {"c": previous, "r": row.revision, "p": row.position},
        )
        delta = json.loads(row.delta)
        if delta["kind"] == "tag" and delta.get("run_id"):
            key = (delta["run_id"], int(delta["bullet_id"].removeprefix("b-")))
            if key not in credited:
                credited.add(key)
                connection.execute(
                    sa.text("INSERT INTO credits (run_id, number, revision) VALUES (:i, :n, :r)"),
                    {"i": key[0], "n": key[1], "r": row.revision},
                )
    # the words of a bullet stay as they are; only fields with their defaults are new, as in the fold of its journal
    for number, text in connection.execute(sa.text("SELECT number, bullet FROM bullets")).all():
        bullet = PlaybookBullet.model_validate_json(text)
        connection.execute(
            sa.text("UPDATE bullets SET bullet = :b, facets = :f WHERE number = :n"),
            {"b": bullet.model_dump_json(), "f": bullet.facets, "n": number},
        )
    connection.execute(sa.text("DELETE FROM meta WHERE key = 'schema_version'"))
    connection.execute(sa.text("INSERT INTO meta (key, value) VALUES ('book_id', :v)"), {"v": uuid.uuid4().hex})
