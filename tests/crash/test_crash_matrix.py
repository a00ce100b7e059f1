"""kill -9 before and after every store write and executor call of a run of six steps, then a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.needs import need_fuse
from tests.crash.machine import PretendMachine
from tests.crash.matrix import EXECUTIONS, Play, Undisturbed, faults, settings_for

INVENTORY = "nodes: {gpu-01: {executor: local, view: private}}\n"
#: The boundaries are dealt out to this many tests, which may run side by side.
PARTS = 4


@pytest.fixture(scope="module")
def machine() -> Iterator[PretendMachine]:
    """Give one machine for all runs of this module."""
    need_fuse()
    with PretendMachine() as made:
        yield made


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a configuration with one node."""
    folder = tmp_path_factory.mktemp("config")
    (folder / "inventory.yaml").write_text(INVENTORY)
    return folder


def play(
    folder: Path, machine: PretendMachine, config: Path, crash_at: int | None = None
) -> tuple[Play, dict[str, Any]]:
    """Play the run on a machine in its first state."""
    machine.reset()
    played = Play(settings_for(folder, config=config), folder, tuple(machine.enter_prefix), "gpu-01", crash_at)
    return played, played.run()


@pytest.fixture(scope="module")
def undisturbed(machine: PretendMachine, config: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Give the run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    played, run = play(folder, machine, config)
    assert machine.executions() == EXECUTIONS
    return Undisturbed((folder / "boundaries").read_text().splitlines(), played.audit(), run)


def test_the_undisturbed_run_cures(undisturbed: Undisturbed) -> None:
    assert undisturbed.run["state"] == "succeeded"
    assert undisturbed.run["nodes"][0]["verdict"] == "cured"
    assert len(undisturbed.boundaries) > 60


@pytest.mark.parametrize("part", range(PARTS))
def test_every_boundary_ends_as_the_undisturbed_run(
    part: int, undisturbed: Undisturbed, machine: PretendMachine, config: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wrong = []
    for crash_at in range(1 + part, len(undisturbed.boundaries) + 1, PARTS):
        folder = tmp_path_factory.mktemp(f"boundary{crash_at}")
        played, run = play(folder, machine, config, crash_at)
        name = f"{crash_at} {undisturbed.boundaries[crash_at - 1]}"
        wrong += faults(name, played, run, machine=machine, undisturbed=undisturbed)
        crashed = len((folder / "boundaries").read_text().splitlines())
        if crashed != crash_at:
            wrong.append(f"{name}: it died at boundary {crashed}")

    assert wrong == []
