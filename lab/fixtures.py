"""The lab as pytest fixtures: `pytest_plugins = ["lab.fixtures"]` in a test module brings them in."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab import leftovers
from lab.needs import need_fuse
from lab.nodes import Node
from lab.postgres import Postgres
from lab.private import PrivateMounts
from lab.sshd import SshdFarm
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
def lab_node() -> Iterator[Callable[[str], Node]]:
    """Give booted nodes by name, shared by the tests of this process; one that is down for good is made anew."""
    need_fuse()
    nodes: dict[str, Node] = {}

    def booted(name: str = "gpu-01") -> Node:
        if name in nodes and nodes[name].down():
            nodes.pop(name).close()
        if name not in nodes:
            nodes[name] = stack.enter_context(Node(name))
        return nodes[name]

    with ExitStack() as stack:
        yield booted


@pytest.fixture
def fresh_node() -> Iterator[Callable[[str], Node]]:
    """Give nodes of the test's own, for those that it breaks."""
    need_fuse()
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(Node(name))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """Give a PostgreSQL server of this test process's own; ask it for a fresh database per test."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def sshd_farm() -> Iterator[Callable[..., SshdFarm]]:
    """Give farms of plain sshd on loopback; the arguments are those of SshdFarm, and all end with the session."""
    with ExitStack() as stack:
        yield lambda *given, **named: stack.enter_context(SshdFarm(*given, **named))


def pytest_sessionfinish() -> None:
    """Undo what tests of this process did not close."""
    if leftovers.RUN.exists():
        leftovers.undo_mine()
