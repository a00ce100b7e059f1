"""Every test of the store is played on both databases."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from lab.postgres import Postgres
from service.store import migrate
from service.store.every_table import metadata
from service.store.sql_store import SqlStore
from tests.store.made import TestClock, behind

KINDS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def shared_database(postgres_server: Postgres) -> str:
    """Give the address of a migrated database that tests share, one after the other: a new one costs a second."""
    url = postgres_server.create()
    migrate.upgrade(url)
    return url


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a migrated SQLite database to copy."""
    path = tmp_path_factory.mktemp("store") / "unstick.db"
    migrate.require_current(f"sqlite:///{path}")
    return path


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Give the name of the database that this test is played on."""
    return str(request.param)


@pytest.fixture
def empty_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the address of a database without tables."""
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path}/unstick.db"
        return
    server: Postgres = request.getfixturevalue("postgres_server")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the address of a database with tables and nothing in them."""
    if kind == "sqlite":
        shutil.copyfile(request.getfixturevalue("migrated_file"), tmp_path / "unstick.db")
        yield f"sqlite:///{tmp_path}/unstick.db"
        return
    shared: str = request.getfixturevalue("shared_database")
    yield shared
    with behind(shared) as connection:
        connection.execute(text("SET lock_timeout = '20s'"))
        connection.execute(text("ALTER TABLE audit_events DISABLE TRIGGER ALL"))
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        for trigger in ("audit_events_next", "audit_events_append_only"):
            connection.execute(text(f"ALTER TABLE audit_events ENABLE ALWAYS TRIGGER {trigger}"))


@pytest.fixture
def clock() -> TestClock:
    """Give a clock that goes on by a millisecond each time it is read."""
    return TestClock()


@pytest.fixture
def store(url: str, clock: TestClock) -> Iterator[SqlStore]:
    """Give a store on the database of this test."""
    opened = SqlStore.open(url, clock)
    yield opened
    opened.close()
