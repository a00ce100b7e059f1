"""The incident on a booted node, cured over real SSH by the shipped runbook, on both databases."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.nodes import Node as LabNode
from lab.postgres import Postgres
from lab.stuck import BusyMount, MountOptions, StuckConnection
from service.app.cancel_run import cancel_run
from service.app.guard import GuardedExecutor
from service.domain.node import Endpoint, ExecutorKind, Inventory, Node, View
from service.domain.run import GateState, NodeRunState, StepOutcome, Verdict
from service.domain.script import ScriptKind, Stream
from service.executors.local import LocalExecutor
from service.executors.registry import ExecutorsByKind
from service.executors.ssh.executor import SshExecutor
from service.store.migrate import upgrade
from tests.support.world import OPERATOR, RUNBOOKS, SECOND, RealClock, World, outcomes

pytest_plugins = ["lab.fixtures"]
HOLD = {"hold_seconds": 3}
DENIED = MountOptions(direct=True, fstype="fuse.lxcfs")
Booted = Callable[[str], LabNode]


def inventory_of(*nodes: LabNode) -> Inventory:
    """Return the inventory of booted nodes, each with its host key pinned."""
    return Inventory(
        {
            node.name: Node(
                node.name,
                Endpoint(
                    node.name,
                    ExecutorKind.SSH,
                    node.address,
                    port=node.port,
                    key_file=str(node.private_key),
                    host_keys=(node.host_key,),
                    view=View.BOOT,
                ),
            )
            for node in nodes
        }
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give a fresh database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/unstick.db"
    server: Postgres = request.getfixturevalue("postgres_server")
    made = server.create()
    upgrade(made)
    return made


@pytest.fixture
def world(url: str, lab_node: Booted) -> Iterator[World]:
    """Give a service that reaches two booted nodes by SSH."""
    clock = RealClock()
    executors = ExecutorsByKind(local=GuardedExecutor(LocalExecutor()), ssh=GuardedExecutor(SshExecutor(clock.now)))
    nodes = inventory_of(lab_node("gpu-01"), lab_node("gpu-02"))
    built = World.build(url, executors, inventory=nodes, clock=clock)
    yield built
    built.close()


def test_the_shipped_runbook_cures_the_incident_and_touches_nothing_else(world: World, lab_node: Booted) -> None:
    first, second = lab_node("gpu-01"), lab_node("gpu-02")
    with (
        BusyMount(first) as busy,
        StuckConnection(first, DENIED) as denied,
        StuckConnection(second) as elsewhere,
        StuckConnection(first) as stuck,
    ):
        read_before = busy.bytes_read()
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)

        node_run = world.play_to_end(run)

        assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED), world.told(node_run)
        assert outcomes(node_run)["abort-dead"] is StepOutcome.CHANGED
        assert stuck.freed()
        assert busy.exists()
        assert busy.bytes_read() > read_before
        assert denied.reader_state() == "D"
        assert elsewhere.reader_state() == "D"
        assert elsewhere.waiting() > 0
    requested = world.service.store.read(lambda reader: reader.audit_after(0, run_id=run.id, limit=1))[0]
    shipped = hashlib.sha256((RUNBOOKS / "abort-stuck-fuse.yaml").read_bytes()).hexdigest()
    assert requested.fact.body["file_sha256"] == shipped
    assert world.chain_holds()


def test_what_became_stuck_after_the_look_is_left_alone_and_named(world: World, lab_node: Booted) -> None:
    node = lab_node("gpu-01")
    with StuckConnection(node) as stuck:
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)
        world.settle()
        with StuckConnection(node) as later:
            for gate in world.open_gates():
                world.answer(gate)
            while world.history(world.node_runs(run)[0]).attempts[-1].step == "abort-dead":
                world.step()
                if world.history(world.node_runs(run)[0]).node_run.results[1].outcome is not None:
                    break

            acted = next(
                one
                for one in world.history(world.node_runs(run)[0]).attempts
                if (one.step, one.kind) == ("abort-dead", ScriptKind.RUN)
            )
            said = world.service.store.read(lambda reader: reader.output(acted.id, Stream.STDERR)).decode()
            assert stuck.freed()
            assert later.reader_state() == "D"
            assert f"left alone, not approved: connection {later.connection} " in said
            cancel_run(world.service, run.id, person=OPERATOR, reason="seen enough")
            for _ in range(50):
                if not world.step():
                    break


def test_a_target_that_vanished_is_cleared_without_credit(world: World, lab_node: Booted) -> None:
    with StuckConnection(lab_node("gpu-01")) as stuck:
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)
        world.settle()
        assert [gate.state for gate in world.open_gates()] == [GateState.OPEN]
        stuck.kill_helper()

        node_run = world.play_to_end(run)

        assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CLEARED), world.told(node_run)


def test_a_boot_while_the_gate_is_open_voids_the_approval_and_asks_anew(world: World, lab_node: Booted) -> None:
    node = lab_node("gpu-01")
    with StuckConnection(node):
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)
        world.settle()
        gate = world.open_gates()[0]
    node.reboot()
    world.answer(gate, by=SECOND)

    node_run = world.play_to_end(run)

    history = world.history(node_run)
    assert node_run.verdict is Verdict.WELL
    assert [one.state for one in history.gates] == [GateState.VOID]
    assert [one.not_started for one in history.attempts if one.acting] == ["other_boot"]
