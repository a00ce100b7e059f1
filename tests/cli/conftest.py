"""Fixtures: one running service for the tests of a module, persons, and a node of its own for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from service.domain.person import Role
from tests.cli.installation import NODES, Installation, Serving, Someone


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Give a running service, shared by all tests that do not break it."""
    place = Installation(tmp_path_factory.mktemp("unstick") / "place")
    with place.serving() as serving:
        yield serving


@pytest.fixture(scope="session")
def ann(service: Serving) -> Someone:
    """Give an operator."""
    return Someone(service.place, service.url, service.place.token("ann", Role.OPERATOR))


@pytest.fixture(scope="session")
def bob(service: Serving) -> Someone:
    """Give an approver."""
    return Someone(service.place, service.url, service.place.token("bob", Role.APPROVER))


@pytest.fixture(scope="session")
def vera(service: Serving) -> Someone:
    """Give a viewer."""
    return Someone(service.place, service.url, service.place.token("vera", Role.VIEWER))


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def node(_numbers: Iterator[int]) -> str:
    """Give the name of a node that no other test uses."""
    return f"n{next(_numbers) % NODES:02}"
