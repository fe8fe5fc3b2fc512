"""All tables of a playbook, from nothing."""

from alembic import op

from ace.playbook.schema import metadata

revision = "0015"
down_revision = None


def upgrade() -> None:
    """Create the tables; the next migration, which changes one, freezes them here."""
    metadata.create_all(op.get_bind())
