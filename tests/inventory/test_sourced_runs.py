"""What a run may be planned on when sources tell of the nodes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from service.app.request_run import RunRequest, Selector, prepare
from service.domain.errors import Conflict
from service.domain.node import Inventory, SourceState
from service.executors.scripted import ScriptedExecutor
from tests.inventory.sources import state
from tests.support.world import FixedInventory, SteppedClock, World, local_nodes

START = SteppedClock().at
HINTS = {"ssm_ping": "Online"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    built = World.build(f"sqlite:///{tmp_path}/unstick.db", ScriptedExecutor({}), inventory=sourced())
    yield built
    built.close()


def sourced(*, source: SourceState | None = None, by_source: bool = True) -> Inventory:
    plain = local_nodes("gpu-01")
    known = replace(plain.nodes["gpu-01"], sources=("fleet",) if by_source else (), hints=HINTS)
    one = source or state("fleet", answered_at=START)
    return replace(plain, nodes={"gpu-01": known}, sources=(one,), refused={"gpu-02": "gpu-02 is two machines: a, b."})


def digest(world: World, inventory: Inventory) -> str:
    service = replace(world.service, inventory=FixedInventory(inventory))
    return prepare(service, RunRequest("abort-stuck-fuse", "x", nodes=("gpu-01",))).plan.digest


def refusal(world: World, inventory: Inventory, request: RunRequest) -> str:
    with pytest.raises(Conflict) as caught:
        prepare(replace(world.service, inventory=FixedInventory(inventory)), request)
    return str(caught.value)


def test_hints_and_sources_stand_outside_the_digest_and_are_not_seen_by_conditions(world: World) -> None:
    run = world.request("abort-stuck-fuse", "gpu-01")

    (node_run,) = world.node_runs(run)

    assert digest(world, sourced()) == digest(world, local_nodes("gpu-01"))
    assert node_run.attributes == {"name": "gpu-01", "pools": ["lab"]}


def test_nothing_is_planned_on_a_node_that_only_a_stale_source_knows(world: World) -> None:
    stale = state("fleet", answered_at=START - timedelta(minutes=11), problem="SSM did not answer.")

    said = refusal(world, sourced(source=stale), RunRequest("abort-stuck-fuse", "x", nodes=("gpu-01",)))

    assert said == (
        "What is known of node gpu-01 is too old (fleet 660 s). SSM did not answer. "
        "`unstick nodes` shows the sources; mend them, or name the node in inventory.yaml."
    )


def test_a_node_that_the_file_names_is_planned_on_however_old_a_source_is(world: World) -> None:
    stale = state("fleet", answered_at=START - timedelta(days=1))

    assert digest(world, sourced(source=stale, by_source=False)) == digest(world, local_nodes("gpu-01"))


def test_a_name_of_two_machines_is_refused_with_both(world: World) -> None:
    said = refusal(world, sourced(), RunRequest("abort-stuck-fuse", "x", nodes=("gpu-02",)))

    assert said.startswith("gpu-02 is two machines: a, b. Name gpu-02 in inventory.yaml")


def test_a_selector_finds_nothing_for_sure_while_a_source_has_never_answered(world: World) -> None:
    silent = sourced(source=state("fleet", answered_at=None), by_source=False)

    said = refusal(world, silent, RunRequest("abort-stuck-fuse", "x", selector=Selector(pool="lab")))

    assert said.startswith("Which nodes the selector finds is not known: the source fleet has not answered yet.")
