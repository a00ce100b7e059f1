"""A service with a scripted executor, on a database of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from service.domain.script import ScriptKind
from service.executors.scripted import Answer, ScriptedExecutor, exits
from tests.support.world import World, local_nodes

RUNBOOKS = Path(__file__).parent / "runbooks"
Make = Callable[..., World]


def table(nodes: Sequence[str], answers: Mapping[str, Sequence[Answer]]) -> ScriptedExecutor:
    """Return an executor that answers `step.kind` alike on every node, `node:step.kind` on one."""
    places: dict[tuple[str, str, ScriptKind], Sequence[Answer]] = {}
    for name, given in answers.items():
        where, _, script = name.rpartition(":")
        step, _, kind = script.rpartition(".")
        for node in [where] if where else nodes:
            if where or (node, step, ScriptKind(kind)) not in places:
                places[node, step, ScriptKind(kind)] = given
    return ScriptedExecutor(places)


def works(step: str) -> dict[str, list[Answer]]:
    """Return the answers of a step that does what it should."""
    return {f"{step}.check": [exits(0, targets=["it"])], f"{step}.run": [exits(0)], f"{step}.verify": [exits(0)]}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Give a maker of services; the answers decide what the nodes say."""
    made: list[World] = []

    def build(
        answers: Mapping[str, Sequence[Answer]], *, nodes: Sequence[str] = ("gpu-01",), **attributes: str
    ) -> World:
        executor = table(nodes, answers)
        world = World.build(
            f"sqlite:///{tmp_path}/unstick{len(made)}.db",
            executor,
            inventory=local_nodes(*nodes, attributes=attributes),
            runbooks=RUNBOOKS,
        )
        world.scripted = executor
        made.append(world)
        return world

    yield build
    for world in made:
        world.close()
