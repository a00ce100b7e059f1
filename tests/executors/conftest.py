from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lab.needs import need_fuse
from lab.private import PrivateMounts
from service.executors.local import LocalExecutor
from tests.executors.envelope_place import Place, give_run


def _make(stack: ExitStack, size: str) -> Place:
    need_fuse()
    mounts = stack.enter_context(PrivateMounts())
    give_run(mounts, size=size)
    place = Place(mounts, LocalExecutor())
    place.executor = LocalExecutor(prefix=place.prefix)
    stack.callback(place.close)
    return place


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Give a namespace with a /run that the tests of a module share."""
    with ExitStack() as stack:
        yield _make(stack, "64m")


@pytest.fixture
def own_place() -> Iterator[Callable[..., Place]]:
    """Give namespaces of the test's own, by the size of their /run."""
    with ExitStack() as stack:

        def make(size: str = "16m") -> Place:
            return _make(stack, size)

        yield make
