"""The incident, cured by the shipped runbook through the loop, in a private mount namespace of this kernel."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.private import PrivateMounts
from lab.process import wait_until
from lab.stuck import BusyMount, FuseMount, MountOptions, StuckConnection
from service.domain.run import NodeRunState, StepOutcome, Verdict
from service.domain.script import Stream
from service.executors.local import LocalExecutor
from tests.support.world import RealClock, World, local_nodes, outcomes

pytest_plugins = ["lab.fixtures"]
#: A type of our own: what other tests have mounted at the same time is not looked at.
OWN = f"fuse.lab{os.getpid()}"
OPTIONS = MountOptions(direct=True, fstype=OWN)
HOLD = {"hold_seconds": 3, "fstype": OWN}


@pytest.fixture
def world(private_mounts: PrivateMounts, tmp_path: Path) -> Iterator[World]:
    """Give a service that reaches the namespace as its node."""
    executor = LocalExecutor(prefix=private_mounts.enter_prefix)
    built = World.build(
        f"sqlite:///{tmp_path}/unstick.db", executor, inventory=local_nodes("gpu-01"), clock=RealClock()
    )
    yield built
    built.close()


def test_a_dead_server_s_connection_is_aborted_and_the_node_is_proven_cured(
    world: World, private_mounts: PrivateMounts
) -> None:
    with BusyMount(private_mounts, MountOptions(fstype=OWN)) as busy, StuckConnection(private_mounts, OPTIONS) as stuck:
        read_before = busy.bytes_read()
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)

        node_run = world.play_to_end(run)

        assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED), world.told(node_run)
        assert outcomes(node_run) == {
            "evidence": StepOutcome.OK,
            "abort-dead": StepOutcome.CHANGED,
            "abort-hung": StepOutcome.OK,
            "unmount": StepOutcome.SKIPPED,
            "well": StepOutcome.OK,
        }
        assert stuck.freed()
        assert busy.exists()
        assert busy.bytes_read() > read_before
        assert world.chain_holds()


def test_a_denied_type_is_never_touched(world: World, private_mounts: PrivateMounts) -> None:
    with StuckConnection(private_mounts, MountOptions(direct=True, fstype="fuse.lxcfs")) as denied:
        run = world.request("abort-stuck-fuse", "gpu-01", params={"hold_seconds": 3, "fstype": "fuse.lxcfs"})

        node_run = world.play_to_end(run)

        assert outcomes(node_run)["abort-dead"] is StepOutcome.OK
        assert denied.exists()
        assert denied.waiting() > 0


def test_targets_that_vanish_while_the_gate_is_open_give_cleared(world: World, private_mounts: PrivateMounts) -> None:
    with StuckConnection(private_mounts, OPTIONS) as stuck:
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)
        world.settle()
        assert [gate.step for gate in world.open_gates()] == ["abort-dead"]
        stuck.abort()

        node_run = world.play_to_end(run)

        assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CLEARED), world.told(node_run)
        assert outcomes(node_run)["abort-dead"] is StepOutcome.SKIPPED


def test_run_looks_again_and_leaves_what_is_no_longer_stuck(world: World, private_mounts: PrivateMounts) -> None:
    with FuseMount(private_mounts, OPTIONS) as stuck:
        stuck.kill_server()
        reader = stuck.read("other", command=("stat", "{file}"))
        wait_until(lambda: stuck.waiting() > 0, "a request waits for its answer")
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)
        world.settle()
        assert [gate.step for gate in world.open_gates()] == ["abort-dead"]
        private_mounts.kill(reader)
        wait_until(lambda: stuck.waiting() == 0, "the reader's request is withdrawn")

        node_run = world.play_to_end(run)

        assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CLEARED), world.told(node_run)
        assert stuck.exists()
        acted = next(one for one in world.history(node_run).attempts if one.acting)
        said = world.service.store.read(lambda reader: reader.output(acted.id, Stream.STDOUT)).decode()
        assert "aborted" not in said


def test_a_dry_run_names_the_targets_and_touches_nothing(world: World, private_mounts: PrivateMounts) -> None:
    with StuckConnection(private_mounts, OPTIONS) as stuck:
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD, dry_run=True)

        node_run = world.play_to_end(run)

        assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, None), world.told(node_run)
        assert outcomes(node_run)["abort-dead"] is StepOutcome.WOULD_CHANGE
        assert stuck.reader_state() == "D"
        assert stuck.waiting() > 0
        assert world.open_gates() == []


def test_a_healthy_node_is_well_without_a_gate(world: World) -> None:
    run = world.request("abort-stuck-fuse", "gpu-01", params={"fstype": OWN})

    node_run = world.play_to_end(run)

    assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.WELL), world.told(node_run)
    assert world.history(node_run).gates == ()
