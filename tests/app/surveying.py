"""A surveyor that says what a test wants, and counts what it is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.domain.node import Inventory, Node
from service.domain.survey import Kind, Part, Survey, seen
from tests.support.world import World

NOTHING = seen(())


@dataclass
class Told:
    """Fulfils the port Surveyor; a kind that is not named has nothing in it."""

    world: World
    #: By node, else for all.
    owned: dict[str, Part] = field(default_factory=dict)
    parts: dict[Kind, Part] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    surveyed: list[str] = field(default_factory=list)

    def survey(self, node: Node, inventory: Inventory) -> Survey | None:
        """Return what the test says."""
        self.surveyed.append(node.name)
        return Survey(self.world.clock.now(), {kind: self.parts.get(kind, NOTHING) for kind in Kind})

    def owners(self, nodes: Sequence[Node], inventory: Inventory) -> Mapping[str, Part]:
        """Return what the test says."""
        self.asked.append(tuple(node.name for node in nodes))
        return {node.name: self.owned.get(node.name, NOTHING) for node in nodes}


def looked_at(world: World) -> Told:
    """Let a surveyor look at the nodes of a world."""
    told = Told(world)
    world.service = replace(world.service, surveyor=told)
    return told
