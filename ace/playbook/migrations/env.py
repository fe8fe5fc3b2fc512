"""Runs migrations in the transaction that the store hands over."""

from alembic import context

from ace.playbook.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
