"""What could not be confined on a machine is said wherever a person decides by what was seen there."""

from dataclasses import replace

import pytest

from service.domain.node import Confine, Inventory
from service.domain.person import Role
from service.domain.script import ScriptKind
from service.executors.scripted import ScriptedExecutor
from tests.support.world import World, local_nodes
from tests.web.api import CURE, Api
from tests.web.browsing import opened, signed_in, words
from tests.web.conftest import dead_server

WHY = "its mounts are not read-only (Function not implemented)"
OFF = "the inventory says confine: off"


@pytest.fixture
def executor() -> ScriptedExecutor:
    """Give gpu-01, whose kernel is too old, and gpu-02, on which looks are not to be confined."""
    old = dead_server("gpu-01")
    [check] = old["gpu-01", "abort-dead", ScriptKind.CHECK]
    told = replace(check, report=replace(check.report, reason=f"Unconfined: {WHY}."))
    return ScriptedExecutor(old | dead_server("gpu-02") | {("gpu-01", "abort-dead", ScriptKind.CHECK): [told]})


@pytest.fixture
def inventory() -> Inventory:
    """Give them."""
    inventory = local_nodes("gpu-01", "gpu-02", pool="h100")
    loose = inventory.nodes["gpu-02"]
    off = replace(loose, endpoint=replace(loose.endpoint, confine=Confine.OFF))
    return replace(inventory, nodes={**inventory.nodes, "gpu-02": off})


@pytest.mark.parametrize(("node", "why"), [("gpu-01", WHY), ("gpu-02", OFF)])
def test_a_gate_says_that_its_check_was_not_confined(api: Api, world: World, node: str, why: str) -> None:
    gate = opened(world, api, node)

    shown = api.get(f"/approvals/{gate.id}").json()
    page = words(signed_in(api, Role.APPROVER).get(f"/gates/{gate.id}"))

    assert shown["unconfined"] == why
    assert f"This check was unconfined: {why}." in page


def test_a_plan_says_what_is_known_before_and_what_the_last_run_has_found(api: Api, world: World) -> None:
    body = {**CURE, "nodes": ["gpu-01", "gpu-02"]}
    before = api.post("/plans", body).json()
    gate = opened(world, api, "gpu-01")

    after = api.post("/plans", body).json()
    recorded = api.get(f"/runs/{gate.run_id}/plan").json()

    found = f"gpu-01: {WHY}, in step abort-dead of run {gate.run_id}"
    assert before["unconfined"] == [f"gpu-02: {OFF}"]
    assert after["unconfined"] == [f"gpu-02: {OFF}", found]
    assert recorded["unconfined"] == [found]
    assert before["digest"] == after["digest"]
