"""The shape of a mined Pitfall, and of a plan that only reads, as this release derives it from the bullet."""

import sqlalchemy as sa
from alembic import op

from ace.playbook.bullet import PlaybookBullet

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Compute the column again."""
    bullets = sa.table(
        "bullets", sa.column("number", sa.Integer), sa.column("bullet", sa.Text), sa.column("shape", sa.Text)
    )
    connection = op.get_bind()
    for row in connection.execute(sa.select(bullets.c.number, bullets.c.bullet)).all():
        shape = PlaybookBullet.model_validate_json(str(row.bullet)).shape
        connection.execute(bullets.update().where(bullets.c.number == row.number).values(shape=shape))
