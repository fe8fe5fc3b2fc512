"""The journal, its fold, vectors and settings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "journal",
        sa.Column("revision", sa.Integer, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("delta", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_table(
        "bullets",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("bullet", sa.Text, nullable=False),
    )
    op.create_table(
        "vectors",
        sa.Column("embedder", sa.Text, primary_key=True),
        sa.Column("text_sha256", sa.Text, primary_key=True),
        sa.Column("vector", sa.LargeBinary, nullable=False),
    )
    op.create_table("meta", sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
