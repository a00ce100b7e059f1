"""One booted node for each module, and the service that reaches it in each way there is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.needs import need_fuse
from lab.nodes import Node
from service.domain.node import ExecutorKind
from tests.cures.cure import EXECUTORS, Cure


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """Give a booted node that the tests of a module share."""
    need_fuse()
    with Node("gpu-01") as booted:
        yield booted


@pytest.fixture(params=EXECUTORS, ids=str)
def executor(request: pytest.FixtureRequest) -> ExecutorKind:
    """Give each way by which a node is reached."""
    kind: ExecutorKind = request.param
    return kind


@pytest.fixture
def cure(tmp_path: Path, node: Node, executor: ExecutorKind) -> Iterator[Cure]:
    """Give a service that reaches the node."""
    built = Cure.build(tmp_path, node, executor=executor)
    yield built
    built.close()
