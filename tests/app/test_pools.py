"""A percentage of nodes is counted in the pool that was asked for, else in the node's smallest."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from service.app.request_run import Selector
from service.domain.node import Inventory
from service.executors.scripted import ScriptedExecutor
from tests.app.conftest import RUNBOOKS
from tests.support.world import World, local_nodes

POOLS = {
    "gpu-01": ("all", "h100"),
    "gpu-02": ("all", "h100", "a-pair"),
    "gpu-03": ("all", "z-pair", "a-pair"),
    "gpu-04": ("all", "z-pair"),
    "gpu-05": (),
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    plain = local_nodes(*POOLS)
    nodes = {name: replace(node, pools=POOLS[name]) for name, node in plain.nodes.items()}
    inventory = Inventory(nodes, plain.controllers)
    built = World.build(
        f"sqlite:///{tmp_path}/unstick.db", ScriptedExecutor({}), inventory=inventory, runbooks=RUNBOOKS
    )
    yield built
    built.close()


def test_a_node_counts_in_its_smallest_pool_and_of_equal_ones_in_the_first_by_name(world: World) -> None:
    run = world.request("fleet", *POOLS)

    assert {one.node: one.pool for one in world.node_runs(run)} == {
        "gpu-01": "h100",
        "gpu-02": "a-pair",
        "gpu-03": "a-pair",
        "gpu-04": "z-pair",
        "gpu-05": None,
    }


def test_nodes_that_a_selector_found_in_a_pool_count_in_that_one(world: World) -> None:
    run = world.request("fleet", selector=Selector(pool="all"))

    assert [(one.node, one.pool) for one in world.node_runs(run)] == [
        (name, "all") for name in ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
    ]
