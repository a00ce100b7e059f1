"""A gate that expired while nobody was there stays expired, and what had been taken out is given back."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from service.app.cancel_run import cancel_run
from service.app.decide import Decision, decide
from service.app.drive import drive
from service.app.load_runbooks import RunbookFolder
from service.domain.errors import Conflict, InvalidInput
from service.domain.run import Gate, GateState, NodeRun, NodeRunState, StepOutcome
from service.store.sql_store import SqlStore
from tests.app.conftest import Make, works
from tests.support.world import OPERATOR, SECOND, World, outcomes

UNDOING = {**works("take-out"), **works("repair"), **works("give-back")}


def waiting(make: Make) -> tuple[World, Gate]:
    """Take a node out, and return the gate at which the repair waits."""
    world = make(UNDOING)
    world.request("undoing", "gpu-01")
    world.settle()
    return world, world.open_gates()[0]


def started_anew(world: World, tmp_path: Path, *, after: timedelta) -> None:
    """Stop the service, and start it again on the same record when so much time has gone by."""
    world.service.store.close()
    world.move_to(world.clock.now() + after)
    world.service = replace(world.service, store=SqlStore.open(f"sqlite:///{tmp_path}/unstick0.db", world.clock))


def sent(world: World) -> list[str]:
    return [f"{order.step}.{order.kind}" for order in world.scripted.orders]


def node_run_of(world: World, gate: Gate) -> NodeRun:
    return world.service.store.read(lambda reader: reader.node_run(gate.node_run_id))


def assert_given_back(world: World, gate: Gate, state: NodeRunState) -> None:
    node_run = node_run_of(world, gate)
    assert (node_run.state, node_run.verdict) == (state, None)
    assert outcomes(node_run)["give-back"] is StepOutcome.CHANGED
    assert "repair.run" not in sent(world)
    assert world.service.store.read(lambda reader: reader.holder("gpu-01")) is None
    assert world.chain_holds()


def test_a_gate_that_expired_while_the_service_was_down_lets_nobody_answer_and_the_node_is_given_back(
    make: Make, tmp_path: Path
) -> None:
    world, gate = waiting(make)
    before = sent(world)
    started_anew(world, tmp_path, after=timedelta(hours=2))

    with pytest.raises(Conflict, match="The gate expired at"):
        world.answer(gate)
    world.settle()

    assert sent(world)[len(before) :] == ["give-back.run", "give-back.verify"]
    assert_given_back(world, gate, NodeRunState.EXPIRED)


def test_the_first_thing_that_is_done_with_it_after_the_start_is_to_close_it(make: Make, tmp_path: Path) -> None:
    world, gate = waiting(make)
    before = sent(world)
    started_anew(world, tmp_path, after=timedelta(hours=2))
    now, store = world.clock.now(), world.service.store
    claimed = store.write(lambda transaction: transaction.claim(gate.node_run_id, owner="tests", now=now))
    assert claimed is not None
    left = iter([True])

    drive(world.service, claimed, keep_on=lambda: next(left, False))

    assert store.read(lambda reader: reader.gate(gate.id)).state is GateState.EXPIRED
    assert sent(world) == before


@pytest.mark.parametrize("seen_by", ["a person", "the engine"])
def test_a_clock_that_is_set_back_does_not_open_it_again(make: Make, seen_by: str) -> None:
    world, gate = waiting(make)
    world.move_to(gate.expires_at)
    if seen_by == "a person":
        with pytest.raises(Conflict, match="expired"):
            world.answer(gate)
    else:
        world.step()
    world.move_to(gate.opened_at)

    with pytest.raises(Conflict, match="expired"):
        world.answer(gate)
    with pytest.raises(Conflict, match="expired"):
        decide(world.service, Decision(gate.id, gate.digest, approve=False, reason="no"), person=SECOND)
    world.move_to(gate.expires_at + timedelta(minutes=1))
    world.settle()

    assert_given_back(world, gate, NodeRunState.EXPIRED)


def test_at_the_very_moment_at_which_it_expires_nobody_answers(make: Make) -> None:
    world, gate = waiting(make)
    # Each question to this clock adds a millisecond, and it is the answer that asks first.
    world.move_to(gate.expires_at - timedelta(milliseconds=1))

    with pytest.raises(Conflict, match="The gate expired at"):
        world.answer(gate)

    assert world.service.store.read(lambda reader: reader.gate(gate.id)).state is GateState.EXPIRED


def test_an_approval_that_was_not_used_before_it_expired_is_asked_for_again(make: Make, tmp_path: Path) -> None:
    world, gate = waiting(make)
    world.answer(gate)
    started_anew(world, tmp_path, after=timedelta(hours=2))

    world.settle()

    [again] = world.open_gates()
    assert (again.step, again.round) == ("repair", 2)
    assert world.service.store.read(lambda reader: reader.gate(gate.id)).state is GateState.VOID
    assert "repair.run" not in sent(world)


def test_what_was_approved_is_sent_with_the_end_of_its_approval_as_the_latest_moment(make: Make) -> None:
    world, gate = waiting(make)
    world.answer(gate)

    world.settle()

    [order] = [order for order in world.scripted.orders if (order.step, order.acting) == ("repair", True)]
    assert order.not_after == gate.expires_at


@pytest.mark.parametrize("end", [NodeRunState.DENIED, NodeRunState.CANCELLED])
def test_a_node_is_given_back_though_the_service_was_down_after_the_word(
    make: Make, tmp_path: Path, end: NodeRunState
) -> None:
    world, gate = waiting(make)
    if end is NodeRunState.DENIED:
        world.answer(gate, approve=False)
    else:
        cancel_run(world.service, gate.run_id, person=OPERATOR)
    started_anew(world, tmp_path, after=timedelta(hours=2))

    world.settle()

    assert_given_back(world, gate, end)


REASONED = """
schema: 1
name: reasoned
title: A cure for which a reason is asked
owner: tests
description: Acts with a second person's reason.
steps:
  - id: strike
    title: Strike
    approval: second_person
    needs_reason: true
    timeout: 1m
    check: exit 0
    run: exit 0
    verify: exit 0
"""


@pytest.mark.parametrize("reason", ["", " \n "])
def test_where_a_step_asks_for_a_reason_nobody_approves_without_one(make: Make, tmp_path: Path, reason: str) -> None:
    folder = tmp_path / "runbooks"
    folder.mkdir()
    (folder / "reasoned.yaml").write_text(REASONED.lstrip())
    world = make(works("strike"))
    world.service = replace(world.service, runbooks=RunbookFolder(folder))
    world.request("reasoned", "gpu-01")
    world.settle()
    gate = world.open_gates()[0]

    with pytest.raises(InvalidInput, match="Step strike asks for a reason"):
        world.answer(gate, reason=reason)

    assert world.answer(gate, reason="the vendor says so").reason == "the vendor says so"
