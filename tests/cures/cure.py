"""A service that reaches one booted node, and the hands of the persons who answer its gates."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, assert_never

import pytest

from lab.nodes import Node as LabNode
from lab.process import wait_until
from service.app.guard import GuardedExecutor
from service.app.ports import Executors, Reader
from service.domain.node import Endpoint, ExecutorKind, Inventory, Node, View
from service.domain.run import GateState, NodeRun, NodeRunState, Run
from service.domain.script import ScriptKind, Stream
from service.executors.local import LocalExecutor
from service.executors.registry import ExecutorsByKind
from service.executors.ssh.executor import SshExecutor
from service.executors.ssm.executor import SsmExecutor
from tests.support.prompt_aws import TEMPO
from tests.support.world import RUNBOOKS, RealClock, World

#: Only stops a hang.
PATIENCE_SECONDS = 240
#: How the node may be reached: a test of this folder is played once over SSH, and those with `by_each` once by each.
EXECUTORS = (ExecutorKind.SSH, ExecutorKind.SSM)
by_each = pytest.mark.parametrize("executor", EXECUTORS, ids=str, indirect=True)
INSTANCE = "i-0123456789abcdef0"


class ShiftedClock(RealClock):
    """The machine's clock, which a test may set forward when nothing more is to be sent."""

    shift = timedelta()

    def now(self) -> datetime:
        """Return the time."""
        return super().now() + self.shift


def endpoint_of(node: LabNode, executor: ExecutorKind) -> Endpoint:
    """Return how a booted node is reached."""
    match executor:
        case ExecutorKind.SSH:
            return Endpoint(
                node.name,
                executor,
                node.address,
                port=node.port,
                key_file=str(node.private_key),
                host_keys=(node.host_key,),
                view=View.BOOT,
            )
        case ExecutorKind.SSM:
            return Endpoint(node.name, executor, INSTANCE, view=View.BOOT)
        case ExecutorKind.LOCAL:
            raise NotImplementedError(executor)
        case _:
            assert_never(executor)


def executors_with(clock: RealClock) -> Executors:
    """Return the real executors; over SSM AWS is whoever the environment names."""
    return ExecutorsByKind(
        local=GuardedExecutor(LocalExecutor()),
        ssh=GuardedExecutor(SshExecutor(clock.now)),
        ssm=lambda: GuardedExecutor(SsmExecutor(clock.now, tempo=TEMPO)),
    )


@dataclass
class Cure:
    """One service, one node."""

    world: World
    node: LabNode
    clock: ShiftedClock

    @classmethod
    def build(
        cls,
        folder: Path,
        node: LabNode,
        *,
        executor: ExecutorKind,
        runbooks: Path = RUNBOOKS,
        change: Callable[[Endpoint], Endpoint] = lambda endpoint: endpoint,
    ) -> "Cure":
        """Build a service on a fresh database; `change` makes another login or the like of the endpoint."""
        clock = ShiftedClock()
        inventory = Inventory({node.name: Node(node.name, change(endpoint_of(node, executor)))})
        url = f"sqlite:///{folder}/unstick.db"
        world = World.build(url, executors_with(clock), inventory=inventory, runbooks=runbooks, clock=clock)
        return cls(world, node, clock)

    def request(self, runbook: str, **more: Any) -> Run:
        """Request a run on the node."""
        return self.world.request(runbook, self.node.name, **more)

    def to_gate(self, run: Run, step: str) -> NodeRun:
        """Go on, with every earlier gate approved, until the gate of this step is open."""
        self._until(run, lambda: any(gate.step == step for gate in self.world.open_gates()), keep=step)
        return self.node_run(run)

    def deny(self, run: Run, step: str) -> NodeRun:
        """Say no at the gate of a step, and wait for the end."""
        self.to_gate(run, step)
        (gate,) = self.world.open_gates()
        self.world.answer(gate, approve=False)
        return self.end(run)

    def expire(self, run: Run, step: str) -> NodeRun:
        """Let nobody answer the gate of a step, and wait for the end."""
        self.to_gate(run, step)
        (gate,) = self.world.open_gates()
        self.clock.shift = gate.expires_at - datetime.now(gate.expires_at.tzinfo)
        ended = self.end(run)
        self.clock.shift = timedelta()
        return ended

    def end(self, run: Run) -> NodeRun:
        """Approve every gate that is open, and wait for the end."""
        self._until(run, lambda: self.node_run(run).state.ended or self.node_run(run).state is NodeRunState.STUCK)
        return self.node_run(run)

    def go_on(self, run: Run, true: Callable[[], bool]) -> None:
        """Go on, with every gate approved, until something is true."""
        self._until(run, true)

    def node_run(self, run: Run) -> NodeRun:
        """Return its only node run."""
        (node_run,) = self.world.node_runs(run)
        return node_run

    def said(self, run: Run, step: str, *, kind: ScriptKind) -> str:
        """Return what the scripts of a step have printed, in order."""

        def look(reader: Reader) -> bytes:
            attempts = reader.history(self.node_run(run).id).attempts
            ids = [one.id for one in attempts if (one.step, one.kind) == (step, kind)]
            return b"".join(reader.output(attempt_id, stream) for attempt_id in ids for stream in Stream)

        return self.world.service.store.read(look).decode()

    def gates(self, run: Run) -> dict[str, GateState]:
        """Return how the gates of a run ended."""
        return {gate.step: gate.state for gate in self.world.history(self.node_run(run)).gates}

    def acted(self, run: Run) -> list[str]:
        """Return the steps of which something that acts was sent."""
        return [one.step for one in self.world.history(self.node_run(run)).attempts if one.acting]

    def targets(self, run: Run, step: str) -> tuple[str, ...]:
        """Return the targets that the last check of a step has named."""
        attempts = self.world.history(self.node_run(run)).attempts
        return [one for one in attempts if (one.step, one.kind) == (step, ScriptKind.CHECK)][-1].targets

    def close(self) -> None:
        """Close the service."""
        self.world.close()

    def _until(self, run: Run, true: Callable[[], bool], *, keep: str | None = None) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            if time.monotonic() > deadline:
                raise TimeoutError(f"it does not go on: {self.node_run(run)}")
            if not self.world.step():
                for gate in self.world.open_gates():
                    if gate.step != keep and self.clock.now() < gate.expires_at:
                        self.world.answer(gate)
                time.sleep(0.05)


@contextmanager
def running(node: LabNode, name: str, command: Sequence[str]) -> Iterator[int]:
    """Let a program run on the node while the block does, whatever becomes of it; give its pid there."""
    pid = node.start(name, command)
    try:
        yield pid
    finally:
        node.kill(pid)
        # Its name is free again when systemd has forgotten the unit.
        unit = ["systemctl", "show", "--property=LoadState", "--value", f"lab-{name}.service"]
        wait_until(lambda: node.run(unit).stdout == "not-found\n", f"{name} has ended")


def outcomes(node_run: NodeRun) -> dict[str, str]:
    """Return the outcome of each step that was reached."""
    return {result.step: str(result.outcome) for result in node_run.results if result.outcome is not None}


def ending(node_run: NodeRun) -> tuple[str, str | None]:
    """Return state and verdict in words."""
    return str(node_run.state), None if node_run.verdict is None else str(node_run.verdict)
