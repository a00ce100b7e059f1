"""Fixtures: a booted node in a real Slurm, and the service that reaches both; `pytest_plugins` brings them in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.needs import need_fuse
from lab.nodes import Node
from lab.slurm import Slurm
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, View
from service.domain.node import Node as InventoryNode
from tests.cures.cure import Cure, ShiftedClock, endpoint_of, executors_with
from tests.cures.slurm_place import NAME
from tests.support.world import RUNBOOKS, World


@pytest.fixture(scope="module")
def slurm_node() -> Iterator[Node]:
    """Give the node."""
    need_fuse()
    with Node(NAME) as booted:
        yield booted


@pytest.fixture(scope="module")
def cluster(slurm_node: Node) -> Iterator[Slurm]:
    """Give the cluster."""
    with Slurm([slurm_node]) as started:
        yield started


@pytest.fixture
def slurm(cluster: Slurm, slurm_node: Node) -> Slurm:
    """Give the cluster with an idle node, as it was made."""
    assert slurm_node.run(["systemctl", "enable", "--quiet", "slurmd"]).returncode == 0
    cluster.clear(NAME)
    return cluster


@pytest.fixture
def runbooks() -> Path:
    """Give the folder of runbooks; a test may have others."""
    return RUNBOOKS


@pytest.fixture
def slurm_cure(
    tmp_path: Path, slurm_node: Node, slurm: Slurm, executor: ExecutorKind, runbooks: Path
) -> Iterator[Cure]:
    """Give the service; the controller is this machine."""
    clock = ShiftedClock()
    known = InventoryNode(NAME, endpoint_of(slurm_node, executor), ("gpu",), "slurm", {"slurm_name": NAME})
    here = Controller(
        "slurm", Endpoint("slurm", ExecutorKind.LOCAL, "slurm", view=View.PRIVATE, keeps_user=True), slurm.environment
    )
    inventory = Inventory({NAME: known}, {"slurm": here})
    url = f"sqlite:///{tmp_path}/unstick.db"
    world = World.build(url, executors_with(clock), inventory=inventory, runbooks=runbooks, clock=clock)
    built = Cure(world, slurm_node, clock)
    yield built
    built.close()
