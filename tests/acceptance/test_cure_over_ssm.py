"""The incident on a booted node, cured over Run Command by the shipped runbook; no sshd is asked for anything."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.nodes import Node as LabNode
from lab.ssm import Instance, Moment, Outcome, SsmServer
from lab.stuck import BusyMount, StuckConnection
from service.app.guard import GuardedExecutor
from service.domain.node import Endpoint, ExecutorKind, Inventory, Node, View
from service.domain.run import NodeRunState, StepOutcome, Verdict
from service.executors.local import LocalExecutor
from service.executors.registry import ExecutorsByKind
from service.executors.ssm.executor import SsmExecutor
from tests.support.prompt_aws import TEMPO, TIMING
from tests.support.world import RealClock, World

pytest_plugins = ["lab.fixtures"]
HOLD = {"hold_seconds": 3}
INSTANCE = "i-0123456789abcdef0"


@pytest.fixture(scope="module")
def server() -> Iterator[SsmServer]:
    """Give a stand-in for AWS."""
    with SsmServer(timing=TIMING) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def node(server: SsmServer, lab_node: Callable[[str], LabNode]) -> Iterator[LabNode]:
    """Give a booted node whose agent the stand-in plays."""
    booted = lab_node("gpu-01")
    server.add(Instance(INSTANCE, prefix=lambda: booted.enter_prefix, name="gpu-01"))
    yield booted
    server.faults.clear()
    server.remove(INSTANCE)


@pytest.fixture
def world(node: LabNode, tmp_path: Path) -> Iterator[World]:
    """Give a service that reaches the node by SSM alone."""
    clock = RealClock()
    local = GuardedExecutor(LocalExecutor())
    executors = ExecutorsByKind(
        local=local, ssh=local, ssm=lambda: GuardedExecutor(SsmExecutor(clock.now, tempo=TEMPO))
    )
    endpoint = Endpoint("gpu-01", ExecutorKind.SSM, INSTANCE, view=View.BOOT)
    inventory = Inventory({"gpu-01": Node("gpu-01", endpoint)})
    built = World.build(f"sqlite:///{tmp_path}/unstick.db", executors, inventory=inventory, clock=clock)
    yield built
    built.close()


def test_the_incident_is_cured_over_run_command_and_each_script_was_sent_once(
    world: World, server: SsmServer, node: LabNode
) -> None:
    since = len(server.calls)
    with BusyMount(node) as busy, StuckConnection(node) as stuck:
        read_before = busy.bytes_read()
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)

        node_run = world.play_to_end(run)

        assert (node_run.state, node_run.verdict) == (NodeRunState.SUCCEEDED, Verdict.CURED), world.told(node_run)
        outcomes = {result.step: result.outcome for result in node_run.results}
        assert outcomes["abort-dead"] is StepOutcome.CHANGED
        assert stuck.freed()
        assert busy.exists()
        assert busy.bytes_read() > read_before
    attempts = world.history(node_run).attempts
    calls = server.calls[since:]
    sent = Counter(call.parameters["Comment"] for call in calls if call.operation == "SendCommand")
    assert sent == Counter(attempt.id for attempt in attempts)
    assert {attempt.stdout_bytes > 0 for attempt in attempts if attempt.step == "abort-dead"} != {False}
    assert world.chain_holds()


def test_a_cure_whose_every_answer_is_lost_acts_once(world: World, server: SsmServer, node: LabNode) -> None:
    server.faults.next("SendCommand", *[Outcome.CUT_AFTER, Outcome.OK] * 8)
    server.faults.duplicates = 1
    with StuckConnection(node) as stuck:
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)

        node_run = world.play_to_end(run)

        assert (node_run.verdict, stuck.freed()) == (Verdict.CURED, True)
    acting = [attempt for attempt in world.history(node_run).attempts if attempt.acting]
    assert [(attempt.state, attempt.exit_code) for attempt in acting] == [("finished", 0)]


def test_a_boot_between_approval_and_arrival_runs_nothing(world: World, server: SsmServer, node: LabNode) -> None:
    with StuckConnection(node):
        run = world.request("abort-stuck-fuse", "gpu-01", params=HOLD)
        world.settle()
        gate = world.open_gates()[0]
    server.faults.die(INSTANCE, Moment.BEFORE, back_after=1)
    node.reboot()
    world.answer(gate)

    node_run = world.play_to_end(run)

    history = world.history(node_run)
    assert node_run.verdict is Verdict.WELL
    assert [attempt.not_started for attempt in history.attempts if attempt.acting] == ["other_boot"]
