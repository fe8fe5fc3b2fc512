"""All tables of a playbook: the first schema that was released."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "journal",
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
    )
    op.create_table(
        "bullets",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("bullet", sa.Text, nullable=False),
        sa.Column("filter_key", sa.Text, nullable=False),
    )
    op.create_table(
        "vectors",
        sa.Column("embedder", sa.Text, primary_key=True),
        sa.Column("text_sha256", sa.Text, primary_key=True),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "credits",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    )
    op.create_table("meta", sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
