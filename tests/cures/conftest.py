"""One booted node for each module, and the service that reaches it in each way there is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.needs import need_fuse
from lab.nodes import Node
from lab.ssm import SsmServer
from lab.ssm.machines import node_instance
from service.domain.node import ExecutorKind
from tests.cures.cure import INSTANCE, Cure
from tests.support.prompt_aws import TIMING


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """Give a booted node that the tests of a module share."""
    need_fuse()
    with Node("gpu-01") as booted:
        yield booted


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Iterator[ExecutorKind]:
    """Give how the node is reached: over SSH, or as a test with `by_each` says; then SSM's stand-in serves it."""
    kind: ExecutorKind = getattr(request, "param", ExecutorKind.SSH)
    if kind is not ExecutorKind.SSM:
        yield kind
        return
    with SsmServer(timing=TIMING) as server, pytest.MonkeyPatch.context() as patch:
        server.add(node_instance(request.getfixturevalue("node"), INSTANCE))
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield kind
        assert server.calls_of("SendCommand") != []


@pytest.fixture
def cure(tmp_path: Path, node: Node, executor: ExecutorKind) -> Iterator[Cure]:
    """Give a service that reaches the node."""
    built = Cure.build(tmp_path, node, executor=executor)
    yield built
    built.close()
