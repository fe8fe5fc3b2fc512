"""Many playbooks on one PostgreSQL server, each in a schema of its own: machines of a cluster reach them all."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError

from ace.core import PlaybookError


def schema_url(server: str, schema: str, *, fresh: bool = False) -> str:
    """Make a schema when it is not there, and return the URL to open its playbook by.

    Args:
        server: As ``postgresql://user@host/db``.
        schema: Its name.
        fresh: Whether what it holds is dropped.

    Returns:
        It holds the password, if there is one.

    Raises:
        PlaybookError: It is no such server, or the schema cannot be made.
    """
    try:
        url = sa.make_url(server).set(drivername="postgresql+psycopg")
    except ArgumentError:
        url = None
    if url is None or not server.startswith("postgres"):
        raise PlaybookError(
            f"a store for several playbooks is a PostgreSQL server, postgresql://USER@HOST/DB; got {server!r}"
        )
    try:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        quoted = engine.dialect.identifier_preparer.quote_identifier(schema)
        with engine.begin() as connection:
            if fresh:
                connection.exec_driver_sql(f"DROP SCHEMA IF EXISTS {quoted} CASCADE")
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {quoted}")
    except DBAPIError as error:
        raise PlaybookError(
            f"cannot reach the schema {schema!r} in {url.render_as_string()!r}: {error.orig}"
        ) from error
    except ModuleNotFoundError as error:
        raise PlaybookError(f"a store on a server needs {error.name!r}: pip install 'dspy-ace[postgres]'") from error
    return url.update_query_dict({"options": f"-csearch_path={schema}"}).render_as_string(hide_password=False)
