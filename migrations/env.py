"""Runs the migrations through the connection that `service/store/migrate.py` gives, in its transaction."""

from alembic import context

from service.store.every_table import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
