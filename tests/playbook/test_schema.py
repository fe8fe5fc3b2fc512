"""The tables of a playbook's database, and files that are no such database."""

import sqlite3

import pytest
import sqlalchemy as sa
from playbook_kit import filled

from ace.core import PlaybookError
from ace.playbook import Add, Playbook, PlaybookBullet, schema
from ace.playbook.bullet import readable
from ace.playbook.plan import Call, Plan, Situation


@pytest.mark.parametrize("found", ["0004", None])
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


def test_a_book_of_the_first_release_is_read_on(tmp_path, embedder):
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        filled(book, "a")
        bullets = book.bullets
    connection = sqlite3.connect(tmp_path / "p.db")
    connection.execute("alter table bullets drop column shape")
    connection.execute("update bullets set bullet = json_remove(bullet, '$.plan', '$.situations')")
    connection.execute("update alembic_version set version_num = '0011'")
    connection.commit()
    connection.close()
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        assert book.bullets == bullets
        assert book.history.verify().problems == ()


def test_shapes_are_derived_anew(tmp_path, embedder):
    """Before this schema a mined Pitfall had none, and a plan that only reads another one."""
    plan = Plan(calls=(Call(tool="find"), Call(tool="find")))
    lesson = PlaybookBullet(section="Strategies", **readable(plan, [Situation(template="Find it")]))
    pitfall = PlaybookBullet(section="Pitfalls", content="No.", **readable(None, [Situation(template="Find it")]))
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        book.commit([Add(bullet=lesson), Add(bullet=pitfall)])
        bullets = book.bullets
    connection = sqlite3.connect(tmp_path / "p.db")
    connection.execute("update bullets set shape = 'old'")
    connection.execute("update alembic_version set version_num = '0012'")
    connection.commit()
    connection.close()
    with Playbook.open(tmp_path / "p.db", embedder=embedder) as book:
        assert book.bullets == bullets
        assert book.history.verify().problems == ()
        assert book.index.planned(bullets[0].shape, "Strategies") == [bullets[0]]
        assert book.index.planned(bullets[1].shape, "Pitfalls") == [bullets[1]]
