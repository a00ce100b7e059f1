"""The lab as pytest fixtures: `pytest_plugins = ["lab.fixtures"]` in a test module brings them in."""

from collections.abc import Iterator

import pytest

from lab import leftovers
from lab.needs import need_fuse
from lab.postgres import Postgres
from lab.private import PrivateMounts
from lab.stuck import StuckConnection


@pytest.fixture
def private_mounts() -> Iterator[PrivateMounts]:
    """Give a private mount namespace for FUSE mounts."""
    need_fuse()
    with PrivateMounts() as place:
        yield place


@pytest.fixture
def stuck_fuse_private(private_mounts: PrivateMounts) -> Iterator[StuckConnection]:
    """Give the incident in a private mount namespace; enter it with `.place.enter_prefix`."""
    with StuckConnection(private_mounts) as stuck:
        yield stuck


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """Give a PostgreSQL server of this test process's own; ask it for a fresh database per test."""
    with Postgres() as server:
        yield server


def pytest_sessionfinish() -> None:
    """Undo what tests of this process did not close."""
    if leftovers.RUN.exists():
        leftovers.undo_mine()
