"""A node of a real Slurm is drained while a job runs, really reboots, and is given back; or is left as it was found."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lab.needs import need_fuse
from lab.nodes import Node
from lab.process import wait_until
from lab.slurm import Slurm
from service.domain.node import Controller, Endpoint, ExecutorKind, Inventory, View
from service.domain.node import Node as InventoryNode
from service.domain.run import GateState
from service.domain.script import ScriptKind
from tests.cures.cure import Cure, ShiftedClock, ending, endpoint_of, executors_with, outcomes
from tests.support.world import World

pytestmark = pytest.mark.needs_root
RUNBOOK = "drain-and-reboot-slurm"
NAME = "gpu-01"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    need_fuse()
    with Node(NAME) as booted:
        yield booted


@pytest.fixture(scope="module")
def cluster(node: Node) -> Iterator[Slurm]:
    with Slurm([node]) as started:
        yield started


@pytest.fixture
def slurm(cluster: Slurm) -> Iterator[Slurm]:
    """Give the cluster with an idle node, and leave it so."""
    cluster.clear(NAME)
    yield cluster
    cluster.clear(NAME)


@pytest.fixture
def cure(tmp_path: Path, node: Node, slurm: Slurm, executor: ExecutorKind) -> Iterator[Cure]:
    clock = ShiftedClock()
    known = InventoryNode(NAME, endpoint_of(node, executor), ("gpu",), "slurm", {"slurm_name": NAME})
    here = Controller("slurm", Endpoint("slurm", ExecutorKind.LOCAL, "slurm", view=View.PRIVATE), slurm.environment)
    inventory = Inventory({NAME: known}, {"slurm": here})
    world = World.build(f"sqlite:///{tmp_path}/db", executors_with(clock), inventory=inventory, clock=clock)
    built = Cure(world, node, clock)
    yield built
    built.close()


def as_found(node: Node, slurm: Slurm) -> dict[str, object]:
    """Return all that this runbook could change."""
    return {"state": slurm.state(NAME), "reason": slurm.reason(NAME), "jobs": slurm.jobs(NAME), "boot": node.boot_id}


def test_a_node_with_a_running_job_is_drained_rebooted_proven_and_given_back(
    cure: Cure, node: Node, slurm: Slurm
) -> None:
    boot, number = node.boot_id, slurm.submit(NAME, "while [ ! -e /run/lab-job-may-end ]; do sleep 0.1; done")

    run = cure.request(RUNBOOK)
    import time
    t=time.monotonic()
    cure.to_gate(run, "drain")
    print("gate drain", time.monotonic()-t)
    (gate,) = cure.world.open_gates()
    cure.world.answer(gate)
    wait_until(lambda: cure.world.step() is not None and "DRAIN" in slurm.state(NAME), "the node is drained")
    print("drained", time.monotonic()-t)
    waits = slurm.state(NAME), slurm.jobs(NAME), slurm.reason(NAME)
    (node.root / "run/lab-job-may-end").touch()
    cure.to_gate(run, "reboot")
    print("gate reboot", time.monotonic()-t)
    for s in ("reboot",): print(cure.said(run, s, kind=ScriptKind.CHECK))
    ended = cure.end(run)
    print("end", time.monotonic()-t)
    for a in cure.world.history(ended).attempts: print(a.step, a.kind, a.state, a.exit_code, a.started_at, a.finished_at)
    for s in outcomes(ended):
        for k in ScriptKind: print("==", s, k, cure.said(run, s, kind=k))

    assert (ending(ended), outcomes(ended)) == (("succeeded", "cured"), {})
