"""The shape of a mined lesson's plan beside each bullet; a book from before has lessons in words only."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column."""
    op.add_column("bullets", sa.Column("shape", sa.Text, nullable=False, server_default=""))
