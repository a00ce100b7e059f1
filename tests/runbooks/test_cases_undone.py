"""Whatever a runbook has taken from a node is given back when a gate is denied, expires, or its run is cancelled.

Each gate of each shipped runbook that undoes something is reached by the first of its cases that opens it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.app.cancel_run import cancel_run
from service.app.load_runbooks import RunbookFolder
from service.domain.run import Gate, NodeRunState, Run, StepOutcome
from service.domain.runbook import ApprovalKind, Runbook
from service.domain.script import ScriptOrder
from tests.runbooks.test_cases import CASES, NODE, answer_gate, read_case, scripted
from tests.support.world import OPERATOR, RUNBOOKS, SECOND, SteppedClock, World, local_nodes, outcomes

SHIPPED = [one for one in RunbookFolder(RUNBOOKS).all() if any(step.always for step in one.steps)]
GATES = [(one, step.id) for one in SHIPPED for step in one.steps if step.approval is not ApprovalKind.NONE]
ENDS = (NodeRunState.DENIED, NodeRunState.EXPIRED, NodeRunState.CANCELLED)


def case_at(runbook: Runbook, step: str) -> dict[str, Any]:
    """Return the first case in which this gate waits for a person."""
    for path in CASES:
        case = read_case(path) if path.parent.name == runbook.name else {}
        if step in case.get("approvals", {}) and "refused" not in case["expect"]:
            return case
    raise AssertionError(f"no case of {runbook.name} opens the gate of {step}")


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    built: list[World] = []
    yield built
    for world in built:
        world.close()


def build(tmp_path: Path, runbook: Runbook, case: dict[str, Any]) -> World:
    """Return a service whose node answers as in the case, and lets everything be undone."""
    clock = SteppedClock()
    undone = {f"{step.id}.{kind}": {"exit": 0} for step in runbook.steps if step.always for kind in ("run", "verify")}
    executor = scripted(case["answers"] | undone, clock=clock, takes=case.get("takes", {}))
    inventory = local_nodes(NODE, attributes={"k8s_name": NODE, "slurm_name": NODE})
    world = World.build(f"sqlite:///{tmp_path}/unstick.db", executor, inventory=inventory, clock=clock)
    world.scripted = executor
    return world


def come_to(world: World, step: str, case: dict[str, Any]) -> Gate:
    """Answer as the case says until the gate of this step is open."""
    for _ in range(20):
        world.settle()
        [gate] = world.open_gates()
        if gate.step == step:
            return gate
        answer_gate(world, gate, case["approvals"][gate.step])
    raise AssertionError(f"the gate of {step} does not open")


def end(world: World, gate: Gate, how: NodeRunState) -> None:
    match how:
        case NodeRunState.DENIED:
            world.answer(gate, by=SECOND, approve=False)
        case NodeRunState.EXPIRED:
            answer_gate(world, gate, {"decision": "expired"})
        case _:
            cancel_run(world.service, gate.run_id, person=OPERATOR)
    world.settle()


def acting(orders: list[ScriptOrder]) -> list[str]:
    return [order.step for order in orders if order.acting]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize(("runbook", "step"), GATES, ids=[f"{one.name}-{step}" for one, step in GATES])
def test_a_gate_that_ends_badly_leaves_nothing_taken_from_the_node(
    runbook: Runbook, step: str, how: NodeRunState, tmp_path: Path, worlds: list[World]
) -> None:
    case = case_at(runbook, step)
    world = build(tmp_path, runbook, case)
    worlds.append(world)
    run: Run = world.request(runbook.name, NODE, params=case.get("params", {}), waived=tuple(case.get("waive", ())))
    gate = come_to(world, step, case)
    before = len(world.scripted.orders)

    end(world, gate, how)

    [node_run] = world.node_runs(run)
    sent_before, sent_after = acting(world.scripted.orders[:before]), acting(world.scripted.orders[before:])
    undoing = [one.id for one in runbook.steps if one.always and one.undoes in sent_before]
    # One that stands above the gate has played in its turn.
    assert sent_after == [one for one in undoing if one not in sent_before]
    assert {outcomes(node_run)[one] for one in undoing} <= {StepOutcome.CHANGED}
    assert (node_run.state, node_run.verdict) == (how, None)
    assert world.service.store.read(lambda reader: (reader.holder(NODE), reader.holds())) == (None, ())
    assert world.chain_holds()
