"""The tables of a playbook's database, and files that are no such database."""

import sqlite3

import pytest
import sqlalchemy as sa
from playbook_kit import filled

from ace.core import PlaybookError
from ace.playbook import Playbook, schema


@pytest.mark.parametrize("found", ["0004", "0012", None])
def test_a_playbook_of_before_the_first_release_is_refused_in_words(tmp_path, embedder, found):
    with Playbook.open(tmp_path / "old.db", embedder=embedder) as book:
        filled(book, "a")
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.execute("UPDATE alembic_version SET version_num = ?", (found,)) if found else connection.execute(
        "DROP TABLE alembic_version"
    )
    connection.commit()
    connection.close()
    before = (tmp_path / "old.db").read_bytes()
    with pytest.raises(PlaybookError, match=r"before the first release.*learn again"):
        Playbook.open(tmp_path / "old.db", embedder=embedder)
    assert (tmp_path / "old.db").read_bytes() == before


def test_migrations_lead_to_the_tables_of_the_code(url):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        schema.migrate(connection)
        assert schema.version(connection) == schema.HEAD
        found = compare_metadata(MigrationContext.configure(connection), schema.metadata)
    engine.dispose()
    assert [diff for diff in found if diff[0] != "remove_table"] == []


def test_a_newer_schema_is_refused(tmp_path, embedder):
    Playbook.open(tmp_path / "x.db", embedder=embedder).close()
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("update alembic_version set version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(PlaybookError, match="9999"):
        Playbook.open(tmp_path / "x.db", embedder=embedder)
