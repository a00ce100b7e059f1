"""How long the shipped runbook takes from request to verdict on a booted node, with its own hold time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.nodes import Node
from lab.stuck import StuckConnection
from tests.crash.booted import BootedMachine
from tests.crash.matrix import Play, settings_for
from tests.support.world import RUNBOOKS

pytest_plugins = ["lab.fixtures"]
pytestmark = [pytest.mark.proof, pytest.mark.needs_root]


@pytest.fixture
def machine(lab_node: Callable[[str], Node]) -> BootedMachine:
    """Give a booted node."""
    return BootedMachine(lab_node("gpu-01"))


def measure(machine: BootedMachine, folder: Path) -> tuple[dict[str, Any], float]:
    """Return the run of the real service, its gates answered at once, and the seconds it took."""
    settings = settings_for(folder, config=machine.write_config(folder), runbooks=RUNBOOKS)
    request = {"runbook": "abort-stuck-fuse", "reason": "proof of its time"}
    played = Play(settings, folder, None, machine.node.name, request=request)
    return played.run(), played.seconds


def test_a_stuck_connection_has_its_verdict_in_less_than_ninety_seconds(
    machine: BootedMachine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with StuckConnection(machine.node):
        run, seconds = measure(machine, tmp_path)

    record_property("proof", "request to verdict of a stuck connection, hold_seconds at its default, below 90 s")
    record_property("count", f"1, {seconds:.0f} s")
    assert (run["state"], run["nodes"][0]["verdict"]) == ("succeeded", "cured")
    assert seconds < 90


def test_a_healthy_node_has_its_verdict_in_less_than_ten_seconds(
    machine: BootedMachine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    run, seconds = measure(machine, tmp_path)

    record_property("proof", "request to verdict of a healthy node, below 10 s")
    record_property("count", f"1, {seconds:.1f} s")
    assert (run["state"], run["nodes"][0]["verdict"]) == ("succeeded", "well")
    assert seconds < 10
