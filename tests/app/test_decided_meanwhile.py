"""What a person decides between the look at the record and the next script is heard before that script is sent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from service.app.cancel_run import cancel_run
from service.app.drive import drive
from service.app.hold_node import hold_node
from service.app.ports import Store
from service.domain.run import History, NodeRunState
from service.domain.script import OutputChunk, Report, ScriptKind, ScriptOrder
from service.executors.scripted import ScriptedExecutor
from tests.app.conftest import Make, works
from tests.support.world import ON_CALL, OPERATOR, SECOND, World


@dataclass
class Meanwhile:
    """The store, with a person who acts once, after a look at an approved gate and before what follows from it."""

    store: Store
    act: Callable[[], object]
    acted: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def read(self, look: Callable[..., Any]) -> Any:
        seen = self.store.read(look)
        if isinstance(seen, History) and any(gate.decided_by for gate in seen.gates) and not self.acted:
            self.acted = True
            self.act()
        return seen


def approved(make: Make) -> tuple[World, str]:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")
    world.settle()
    world.answer(world.open_gates()[0], by=OPERATOR)
    return world, run.id


def drive_while(world: World, act: Callable[[], object]) -> None:
    service = replace(world.service, store=Meanwhile(world.service.store, act))
    store, now = world.service.store, world.clock.now()
    node_run = store.read(lambda reader: reader.due(now, limit=1))[0]
    claimed = store.write(lambda transaction: transaction.claim(node_run.id, owner="tests", now=now))
    assert claimed is not None
    drive(service, claimed)


@pytest.mark.parametrize("decision", ["cancel", "hold"])
def test_nothing_acts_after_a_cancel_or_a_hold_that_was_recorded_first(make: Make, decision: str) -> None:
    world, run_id = approved(make)
    acts = {
        "cancel": lambda: cancel_run(world.service, run_id, person=ON_CALL, reason="wrong node"),
        "hold": lambda: hold_node(world.service, "gpu-01", person=ON_CALL, reason="hands in the machine"),
    }

    drive_while(world, acts[decision])

    run = world.service.store.read(lambda reader: reader.run(run_id))
    [node_run] = world.node_runs(run)
    assert [order.kind for order in world.scripted.orders if order.acting] == []
    assert (node_run.state, node_run.cancel_requested_by) == (NodeRunState.CANCELLED, SECOND.name)


def test_no_gate_opens_on_a_node_that_was_held_while_the_check_looked(make: Make) -> None:
    world = make(works("cure"))
    run = world.request("cure", "gpu-01")
    hold_during_check(world)

    world.settle()

    [node_run] = world.node_runs(run)
    assert (world.open_gates(), node_run.state) == ([], NodeRunState.CANCELLED)
    assert "hands in the machine" in node_run.reason


def hold_during_check(world: World) -> None:
    start = world.scripted.start

    def started(order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        if order.kind is ScriptKind.CHECK:
            hold_node(world.service, "gpu-01", person=ON_CALL, reason="hands in the machine")
        return start(order, on_output)

    assert isinstance(world.scripted, ScriptedExecutor)
    world.scripted.start = started  # type: ignore[method-assign]
