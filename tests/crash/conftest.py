"""One pretended machine and the run that nothing disturbs, for each file of the matrix."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.needs import need_fuse
from tests.crash.machine import PretendMachine
from tests.crash.matrix import EXECUTIONS, Undisturbed, play_pretended

INVENTORY = "nodes: {gpu-01: {executor: local, view: private, confine: off}}\n"


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


@pytest.fixture(scope="module")
def undisturbed(machine: PretendMachine, config: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Give the run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    played, run = play_pretended(folder, machine, config)
    assert machine.executions() == EXECUTIONS
    return Undisturbed((folder / "boundaries").read_text().splitlines(), played.audit(), run)
