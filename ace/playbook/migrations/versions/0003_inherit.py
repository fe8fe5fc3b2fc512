"""The fold learned to let a merge inherit, and to date evidence by the mean of its credits: fold the journal anew."""

import sqlalchemy as sa
from alembic import op

from ace.playbook import history, schema
from ace.playbook.store import Entry

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Write what the journal adds up to now; the journal itself stays as it is."""
    connection = op.get_bind()
    query = sa.select(schema.journal).order_by(schema.journal.c.revision, schema.journal.c.position)
    entries = [Entry(*row) for row in connection.execute(query)]
    try:
        bullets, credited = history.state_at(entries), history.credits(entries)
    except ValueError:
        return  # a damaged journal stays as it is, for `verify` to tell
    rows = [{"number": b.number, "bullet": b.model_dump_json(), "facets": b.facets} for b in bullets.values()]
    given = [{"run_id": run, "number": number} for run, number in sorted(credited)]
    book_credit = sa.text("INSERT INTO credits (run_id, number, revision) VALUES (:run_id, :number, 0)")
    for table, insert, content in (
        (schema.bullets, schema.bullets.insert(), rows),
        (schema.credits, book_credit, given),
    ):
        connection.execute(table.delete())
        if content:
            connection.execute(insert, content)
