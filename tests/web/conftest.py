"""The application around a real service on SQLite; nodes are played from a table."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from service.app.load_runbooks import RunbookFolder
from service.app.tokens import create_token
from service.domain.node import Inventory
from service.domain.person import Role
from service.domain.script import ScriptKind
from service.executors.scripted import Answer, Place, ScriptedExecutor, exits
from service.store import migrate
from service.web.app import create_app
from tests.support.world import RUNBOOKS, SteppedClock, World, local_nodes
from tests.web.api import Api

NODES = ("gpu-01", "gpu-02", "gpu-03")
TARGET = "connection 57 since 2026-11-29+15:46:54.8413626520 device 0:57 fstype fuse.rclone mountpoint /data"


def dead_server(node: str) -> dict[Place, list[Answer]]:
    """Return a node on which one FUSE server is dead, and the cure works."""
    return {
        (node, "evidence", ScriptKind.RUN): [exits(0, stdout="a reader hangs\n", stderr="and a warning\n")],
        (node, "abort-dead", ScriptKind.CHECK): [exits(0, targets=(TARGET,), stdout="connection 57 is stuck\n")],
        (node, "abort-dead", ScriptKind.RUN): [exits(0)],
        (node, "abort-dead", ScriptKind.VERIFY): [exits(0)],
        (node, "abort-hung", ScriptKind.CHECK): [exits(77)],
        (node, "abort-hung", ScriptKind.VERIFY): [exits(0)],
        (node, "well", ScriptKind.VERIFY): [exits(0)],
    }


def hung_server(node: str) -> dict[Place, list[Answer]]:
    """Return a node on which a server lives and answers nobody."""
    return dead_server(node) | {
        (node, "abort-dead", ScriptKind.CHECK): [exits(77)],
        (node, "abort-hung", ScriptKind.CHECK): [exits(0, targets=(TARGET,))],
        (node, "abort-hung", ScriptKind.RUN): [exits(0)],
    }


@pytest.fixture
def executor() -> ScriptedExecutor:
    """Give the nodes: gpu-01 has a dead server, gpu-02 a hung one, gpu-03 a dead one."""
    return ScriptedExecutor(dead_server("gpu-01") | hung_server("gpu-02") | dead_server("gpu-03"))


@pytest.fixture
def inventory() -> Inventory:
    """Give three nodes that answer, in a pool so large that a tenth of it is two."""
    played = local_nodes(*NODES, pool="h100", attributes={"rack": "r1"})
    others = local_nodes(*(f"gpu-{number:02}" for number in range(4, 21)), pool="h100", attributes={"rack": "r2"})
    return replace(played, nodes={**played.nodes, **others.nodes})


@pytest.fixture(scope="session")
def runbooks() -> RunbookFolder:
    """Give the shipped runbooks; examining them costs a second."""
    return RunbookFolder(RUNBOOKS)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a migrated file with nothing in it, to be copied."""
    file = tmp_path_factory.mktemp("database") / "empty.db"
    migrate.require_current(f"sqlite:///{file}")
    return file


@pytest.fixture
def clock() -> SteppedClock:
    """Give the clock of the service, which a test moves."""
    return SteppedClock()


@pytest.fixture
def world(
    tmp_path: Path,
    executor: ScriptedExecutor,
    inventory: Inventory,
    runbooks: RunbookFolder,
    empty_database: Path,
    clock: SteppedClock,
) -> Iterator[World]:
    """Give the service."""
    shutil.copy(empty_database, tmp_path / "unstick.db")
    built = World.build(f"sqlite:///{tmp_path}/unstick.db", executor, inventory=inventory, clock=clock)
    built.service = replace(built.service, runbooks=runbooks)
    yield built
    built.close()


@pytest.fixture
def api(world: World) -> Api:
    """Give the application with a token for each role; the person is called as the role."""
    tokens = {role: create_token(world.service, role, roles=frozenset({role}), person=role, by="test") for role in Role}
    return Api(create_app(world.service), tokens)
