"""What the use cases need of whoever looks at nodes before they are disrupted."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from service.domain.node import Inventory, Node
from service.domain.survey import Part, Survey


class Surveyor(Protocol):
    """Looks at nodes within a bound of time, and never raises for one that is out of reach."""

    def survey(self, node: Node, inventory: Inventory) -> Survey | None:
        """Return what runs on a node and who else has it; None where nobody looks."""

    def owners(self, nodes: Sequence[Node], inventory: Inventory) -> Mapping[str, Part]:
        """Return who else has each of these nodes, by name; a node that nobody looks at is left out."""


class NobodyLooks:
    """Stands for a surveyor that is not there: nothing is known, and nobody waits for it."""

    def survey(self, node: Node, inventory: Inventory) -> Survey | None:
        """Return None."""
        return None

    def owners(self, nodes: Sequence[Node], inventory: Inventory) -> Mapping[str, Part]:
        """Return nothing."""
        return {}
