"""An approval that is early, late, or given while the service was down."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from service.domain.errors import Conflict
from service.domain.run import GateState, NodeRunState
from service.domain.script import ScriptKind
from service.executors.scripted import ScriptedExecutor, exits
from tests.cli.installation import Installation
from tests.support.world import SteppedClock, World, local_nodes

LIFE = timedelta(minutes=5)


@pytest.fixture
def executor() -> ScriptedExecutor:
    looks = {("n00", "touch", ScriptKind.CHECK): [exits(0, targets=["thing"])]}
    acts = {("n00", "touch", kind): [exits(0)] for kind in (ScriptKind.RUN, ScriptKind.VERIFY)}
    return ScriptedExecutor({**looks, **acts})


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    found = Installation(tmp_path / "place")
    runbook = found.folder / "runbooks" / "brief.yaml"
    runbook.write_text(runbook.read_text().replace("approval_expires: 1s", "approval_expires: 5m"))
    return found


def build(place: Installation, executor: ScriptedExecutor, *, at: datetime | None = None) -> World:
    clock = SteppedClock() if at is None else SteppedClock(at)
    url = f"sqlite:///{place.database}"
    runbooks = place.folder / "runbooks"
    return World.build(url, executor, inventory=local_nodes("n00"), runbooks=runbooks, clock=clock)


def move(world: World, at: datetime) -> None:
    assert isinstance(world.clock, SteppedClock)
    world.clock.at = at


@pytest.fixture
def world(place: Installation, executor: ScriptedExecutor) -> Iterator[World]:
    found = build(place, executor)
    yield found
    found.close()


def acted(executor: ScriptedExecutor) -> bool:
    return any(order.kind is ScriptKind.RUN for order in executor.orders)


def test_a_second_before_the_end_an_approval_counts(world: World, executor: ScriptedExecutor) -> None:
    run = world.request("brief", "n00")
    world.settle()
    gate = world.open_gates()[0]
    move(world, gate.opened_at + LIFE - timedelta(seconds=1))

    answered = world.answer(gate)
    world.settle()

    assert answered.state is GateState.APPROVED
    assert world.node_runs(run)[0].state is NodeRunState.SUCCEEDED
    assert acted(executor)


@pytest.mark.parametrize("late", [timedelta(0), timedelta(seconds=1)])
def test_at_and_after_the_end_an_approval_is_refused_and_nothing_is_run(
    world: World, executor: ScriptedExecutor, late: timedelta
) -> None:
    run = world.request("brief", "n00")
    world.settle()
    gate = world.open_gates()[0]
    move(world, gate.opened_at + LIFE + late)

    with pytest.raises(Conflict) as refused:
        world.answer(gate)
    world.settle()

    assert refused.value.status == 409
    assert "expired" in refused.value.reason
    assert "nothing was run" in refused.value.reason
    assert refused.value.way_out == f"Ask again: unstick retry {gate.run_id}"
    assert world.node_runs(run)[0].state is NodeRunState.EXPIRED
    assert not acted(executor)


def test_an_expired_run_leaves_no_lock_on_the_node(world: World) -> None:
    world.request("brief", "n00")
    world.settle()
    move(world, world.open_gates()[0].opened_at + LIFE)
    world.settle()

    again = world.request("free", "n00")
    world.settle()

    assert world.node_runs(again)[0].state is NodeRunState.SUCCEEDED


def test_a_service_that_was_down_at_the_end_comes_to_the_same_result(
    place: Installation, executor: ScriptedExecutor
) -> None:
    before = build(place, executor)
    run = before.request("brief", "n00")
    before.settle()
    gate = before.open_gates()[0]
    before.close()

    after = build(place, executor, at=gate.opened_at + timedelta(minutes=10))
    with pytest.raises(Conflict) as refused:
        after.answer(gate)
    after.settle()
    ended = after.node_runs(run)[0].state, after.service.store.read(lambda reader: reader.gate(gate.id)).state
    after.close()

    assert "nothing was run" in refused.value.reason
    assert ended == (NodeRunState.EXPIRED, GateState.EXPIRED)
    assert not acted(executor)
