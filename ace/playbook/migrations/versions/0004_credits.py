"""Credits are derived from the journal: the revision beside each was read by nobody."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Drop the column; by copying the table on SQLite, of which older releases cannot do it in place."""
    with op.batch_alter_table("credits") as table:
        table.drop_column("revision")
