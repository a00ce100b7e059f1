"""The service is killed at one boundary of each kind, while it cures a booted node that really reboots."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nodes import Node
from tests.crash.booted import BootedMachine
from tests.crash.matrix import EXECUTIONS, Play, Undisturbed, faults, settings_for

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

#: A boundary of each kind: its name, and how many boundaries after it the service dies.
KINDS = {
    "before the intent is written": ("before start of repair run", -2),
    "before an acting script is sent": ("before start of repair run", 0),
    "after an acting script has ended": ("after start of repair run", 0),
    "after its result is written": ("after start of repair run", 2),
    "before the reboot is sent": ("before start of reboot run", 0),
    "after the node has booted": ("after start of reboot run", 0),
}


@pytest.fixture(scope="module")
def machine(lab_node: Callable[[str], Node]) -> BootedMachine:
    """Give one booted node for all runs of this module."""
    return BootedMachine(lab_node("gpu-01"))


@pytest.fixture(scope="module")
def config(machine: BootedMachine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a configuration with that node."""
    return machine.write_config(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="module")
def undisturbed(machine: BootedMachine, config: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Give the run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    boot = machine.node.boot_id
    machine.reset()
    played = Play(settings_for(folder, config=config), folder, None, "gpu-01")
    run = played.run()
    assert machine.executions() == EXECUTIONS
    assert machine.node.boot_id != boot
    return Undisturbed((folder / "boundaries").read_text().splitlines(), played.audit(), run)


@pytest.mark.parametrize(("name", "offset"), KINDS.values(), ids=KINDS.keys())
def test_a_boundary_of_each_kind_ends_as_the_undisturbed_run(
    name: str, offset: int, undisturbed: Undisturbed, machine: BootedMachine, config: Path, tmp_path: Path
) -> None:
    crash_at = undisturbed.boundaries.index(name) + offset + 1
    machine.reset()
    played = Play(settings_for(tmp_path, config=config), tmp_path, None, "gpu-01", crash_at)

    run = played.run()

    assert faults(name, played, run, machine=machine, undisturbed=undisturbed) == []
    assert played.died()


def test_a_service_that_is_killed_while_the_node_boots_ends_as_the_undisturbed_run(
    undisturbed: Undisturbed, machine: BootedMachine, config: Path, tmp_path: Path
) -> None:
    machine.reset()
    # The next service asks while nobody answers.
    machine.node.set_reboot_delay(8)
    played = Play(settings_for(tmp_path, config=config), tmp_path, None, "gpu-01")
    played.kill_when = machine.node_is_down

    run = played.run()

    machine.node.set_reboot_delay(0)
    assert played.restarts == 1
    assert faults("while it boots", played, run, machine=machine, undisturbed=undisturbed) == []
