"""kill -9 at every boundary of a run of six steps on a booted node that really reboots, on both databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.nodes import Node
from lab.postgres import Postgres
from service.store.migrate import upgrade
from tests.crash.booted import BootedMachine
from tests.crash.matrix import EXECUTIONS, JITTER, Play, Undisturbed, faults, settings_for
from tests.proof.counts import count, spread

pytest_plugins = ["lab.fixtures"]
pytestmark = [pytest.mark.proof, pytest.mark.needs_root]

Fresh = Callable[[], str | None]


@pytest.fixture
def machine(fresh_node: Callable[[str], Node]) -> BootedMachine:
    """Give a booted node of the test's own."""
    return BootedMachine(fresh_node("gpu-01"))


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    """Give a maker of empty databases: their addresses, or None for a file beside the run."""
    if request.param == "sqlite":
        return lambda: None
    server: Postgres = request.getfixturevalue("postgres_server")
    template = server.create()
    upgrade(template)
    return lambda: server.create(template=template.rpartition("/")[2])


def test_every_boundary_ends_as_the_undisturbed_run(
    machine: BootedMachine,
    fresh: Fresh,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    config = machine.write_config(tmp_path)
    first = tmp_path / "undisturbed"
    calm, calm_run = play(first, machine, config, url=fresh())
    undisturbed = Undisturbed((first / "boundaries").read_text().splitlines(), calm.audit(), calm_run)
    every = len(undisturbed.boundaries)
    chosen = spread(every + JITTER, count("boundaries", every + JITTER))
    record_property("proof", f"kill -9 at every boundary, booted node, {request.node.callspec.params['fresh']}")
    wrong: list[str] = []
    died = 0

    for crash_at in chosen:
        name = f"{crash_at} {undisturbed.boundaries[min(crash_at, every) - 1]}"
        played, run = play(tmp_path / str(crash_at), machine, config, url=fresh(), crash_at=crash_at)
        wrong += faults(name, played, run, machine=machine, undisturbed=undisturbed)
        died += played.died()

    record_property("count", f"killed at {died} of about {every} boundaries")
    assert machine.executions() == EXECUTIONS
    assert wrong == []


def play(
    folder: Path, machine: BootedMachine, config: Path, *, url: str | None, crash_at: int | None = None
) -> tuple[Play, dict[str, Any]]:
    """Play the run on a machine in its first state."""
    folder.mkdir()
    machine.reset()
    played = Play(settings_for(folder, config=config, url=url), folder, None, machine.node.name, crash_at)
    return played, played.run()
