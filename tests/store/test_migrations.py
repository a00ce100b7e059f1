"""Migrations make exactly the tables that the code knows, once, and nothing else ever does."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text

from lab.postgres import Postgres
from service.domain.audit import first_fault
from service.domain.errors import ConfigInvalid, Conflict
from service.store import locks, migrate
from service.store.every_table import metadata
from service.store.session import open_database
from service.store.sql_store import SqlStore
from tests.store.made import TestClock, append, behind, fact

pytest_plugins = ["lab.fixtures"]

ROOT = Path(__file__).resolve().parents[2]
POSTGRES_COLUMNS = """SELECT table_name, column_name, data_type, is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'"""
POSTGRES_INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
POSTGRES_CONSTRAINTS = """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace"""
SQLITE_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type <> 'trigger'"


def schema(connection: Connection) -> set[tuple[object, ...]]:
    """Return every column, index and constraint, as the database itself tells it."""
    if connection.dialect.name == "sqlite":
        queries = [SQLITE_SCHEMA]
    else:
        queries = [POSTGRES_COLUMNS, POSTGRES_INDEXES, POSTGRES_CONSTRAINTS]
    rows = [tuple(row) for query in queries for row in connection.execute(text(query))]
    # Blanks and the order of constraints inside a statement mean nothing.
    parts = [
        (*row[:-1], tuple(sorted(part.strip(" \n)") for part in str(row[-1]).replace("\t", "").split(","))))
        for row in rows
    ]
    return {part for part in parts if "alembic_version" not in str(part)}


def test_the_migrations_make_the_tables_that_the_code_knows(
    empty_url: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    other = f"sqlite:///{tmp_path}/made.db"
    if kind == "postgres":
        other = request.getfixturevalue("postgres_server").create()
    migrate.upgrade(empty_url)
    with behind(other) as connection:
        metadata.create_all(connection)
        wanted = schema(connection)

    with behind(empty_url) as connection:
        found = schema(connection)
        differences = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)

    assert found == wanted
    assert differences == []


def test_sqlite_migrates_itself_and_only_once(tmp_path: Path, clock: TestClock) -> None:
    url = f"sqlite:///{tmp_path}/unstick.db"
    assert migrate.revision(url) is None

    with ThreadPoolExecutor(3) as pool:
        opened = list(pool.map(lambda _: SqlStore.open(url, clock), range(3)))

    assert migrate.revision(url) == migrate.head()
    assert migrate.upgrade(url) == (migrate.head(), migrate.head())
    for store in opened:
        store.close()


def test_postgres_is_migrated_by_hand_only(postgres_server: Postgres, clock: TestClock) -> None:
    url = postgres_server.create()

    with pytest.raises(Conflict, match="revision none") as caught:
        SqlStore.open(url, clock)
    assert "unstick migrate" in caught.value.way_out
    assert migrate.revision(url) is None

    assert migrate.upgrade(url) == (None, migrate.head())
    SqlStore.open(url, clock).close()


def test_a_database_of_a_later_version_is_left_alone(url: str, clock: TestClock) -> None:
    with behind(url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    try:
        with pytest.raises(Conflict, match="9999"):
            SqlStore.open(url, clock)
        with pytest.raises(Conflict, match="9999"):
            migrate.upgrade(url)
    finally:
        with behind(url) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": migrate.head()})


def test_a_database_in_use_is_not_migrated(empty_url: str) -> None:
    held = locks.acquire(empty_url, name="serve")

    with pytest.raises(Conflict, match="unstick serve"):
        migrate.upgrade(empty_url, wait=timedelta(0))
    assert migrate.upgrade(empty_url, lock=held) == (None, migrate.head())
    held.release()


# Ends itself after the n-th statement of a migration.
KILLED_HALF_WAY = """
import os, sys
from sqlalchemy import Engine, event
from service.store import migrate
left = int(sys.argv[2])
@event.listens_for(Engine, "after_cursor_execute")
def count(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)
migrate.upgrade(sys.argv[1])
"""


@pytest.mark.parametrize("after", [3, 12, 30])
def test_a_migration_that_is_killed_half_way_is_done_by_the_next(empty_url: str, after: int, clock: TestClock) -> None:
    command = [sys.executable, "-c", KILLED_HALF_WAY, empty_url, str(after)]
    ended = subprocess.run(command, cwd=ROOT, check=False, timeout=120)
    assert ended.returncode == -9

    assert migrate.upgrade(empty_url) == (None, migrate.head())

    store = SqlStore.open(empty_url, clock)
    append(store, fact())
    assert first_fault(store.audit_events()) is None
    store.close()


def test_the_settings_of_sqlite_are_really_set(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/unstick.db")
    for engine, patience, query_only in ((database.writer, 20, 0), (database.reader, 4000, 1)):
        with engine.connect() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "query_only")
            }

        assert found == {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": patience,
            "query_only": query_only,
        }
    database.close()


def test_the_writer_of_sqlite_locks_at_its_beginning(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/unstick.db")
    other = sqlite3.connect(tmp_path / "unstick.db", timeout=0)

    with (
        database.writer.connect() as connection,
        connection.begin(),
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")

    other.close()
    database.close()


def test_the_settings_of_postgres_are_really_set(postgres_server: Postgres) -> None:
    database = open_database(postgres_server.url())
    for engine, isolation, read_only in (
        (database.writer, "read committed", "off"),
        (database.reader, "repeatable read", "on"),
    ):
        with engine.connect() as connection:
            found = {
                name: connection.exec_driver_sql(f"SHOW {name}").scalar()
                for name in (
                    "synchronous_commit",
                    "timezone",
                    "lock_timeout",
                    "idle_in_transaction_session_timeout",
                    "transaction_isolation",
                    "transaction_read_only",
                )
            }

        assert found == {
            "synchronous_commit": "on",
            "timezone": "UTC",
            "lock_timeout": "3s",
            "idle_in_transaction_session_timeout": "5s",
            "transaction_isolation": isolation,
            "transaction_read_only": read_only,
        }
    database.close()


def test_the_file_is_for_its_owner_alone(tmp_path: Path, clock: TestClock) -> None:
    path = tmp_path / "unstick.db"
    path.touch(mode=0o644)
    path.chmod(0o644)

    store = SqlStore.open(f"sqlite:///{path}", clock)
    append(store, fact())

    modes = {found.name: oct(found.stat().st_mode & 0o777) for found in tmp_path.iterdir()}
    assert modes == {f"unstick.db{suffix}": "0o600" for suffix in ("", "-wal", "-shm", ".lock")}
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////nowhere/of/this/name/unstick.db",
        "sqlite:///x.db?mode=ro",
        "mysql://root@localhost/x",
        "not a url",
        "",
    ],
)
def test_a_database_that_the_service_does_not_work_on_is_refused(url: str, clock: TestClock) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        SqlStore.open(url, clock)

    assert caught.value.way_out


def test_a_password_is_not_in_a_refusal(clock: TestClock) -> None:
    for url in ("postgresql+psycopg://ann:hunter2@127.0.0.1:1/x", "mysql://ann:hunter2@127.0.0.1/x"):
        with pytest.raises(Exception, match=r"database|store") as caught:
            SqlStore.open(url, clock)

        assert "hunter2" not in str(caught.value)
