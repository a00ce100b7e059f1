"""Brings a database to the tables of this version, or says that it is not there."""

from datetime import timedelta
from functools import cache

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from service.domain.errors import Conflict
from service.resources import migrations_folder
from service.store import locks
from service.store.faults import unavailable
from service.store.locks import EngineLock
from service.store.session import is_sqlite, open_database, parse_url

#: Another process that migrates the same SQLite file is done well before.
_WAIT = timedelta(seconds=20)


def require_current(url: str, *, lock: EngineLock | None = None) -> None:
    """Return when the database has the tables of this version.

    SQLite is brought there, under the engine's lock (or the caller's). On PostgreSQL, and for a
    database of a later version, raises Conflict with the command to type.
    """
    found, wanted = revision(url), head()
    if found == wanted:
        return
    _refuse_unknown(found)
    if is_sqlite(parse_url(url)):
        upgrade(url, lock=lock)
    else:
        raise Conflict(
            f"The database is at revision {found or 'none'}, this version needs {wanted}.",
            "Stop the service, make a backup, then run: unstick migrate",
        )


def upgrade(url: str, *, lock: EngineLock | None = None, wait: timedelta = _WAIT) -> tuple[str | None, str]:
    """Migrate to this version in one transaction; return the revision before and after.

    Raises Conflict when a service has the database and still has it after `wait`.
    """
    taken = lock or locks.acquire(url, name="migrate", wait=wait)
    try:
        return _upgrade(url)
    finally:
        if lock is None:
            taken.release()


def revision(url: str) -> str | None:
    """Return the revision that a database is at, None for an empty one; Unavailable."""
    database = open_database(url)
    try:
        with database.reader.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except SQLAlchemyError as error:
        raise unavailable(error) from error
    finally:
        database.close()


@cache
def head() -> str:
    """Return the revision of this version."""
    return _scripts().get_current_head() or ""


def _upgrade(url: str) -> tuple[str | None, str]:
    database = open_database(url)
    try:
        with database.writer.connect() as connection:
            before = _upgrade_through(connection)
    except SQLAlchemyError as error:
        raise unavailable(error) from error
    finally:
        database.close()
    return before, head()


def _upgrade_through(connection: Connection) -> str | None:
    with connection.begin():
        if connection.dialect.name == "postgresql":
            lock = text("SELECT pg_advisory_xact_lock(:space, :migration)")
            connection.execute(lock, {"space": locks.SPACE, "migration": locks.MIGRATION})
        before = MigrationContext.configure(connection).get_current_revision()
        _refuse_unknown(before)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return before


def _refuse_unknown(found: str | None) -> None:
    if found is None:
        return
    try:
        _scripts().get_revision(found)
    except CommandError as error:
        raise Conflict(
            f"The database is at revision {found}, which this version does not know.",
            "It was made by a later version of unstick; install that one.",
        ) from error


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config
