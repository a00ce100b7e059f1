"""The inventory of a command: it is read at the first look, and not again."""

from collections.abc import Callable

from service.domain.node import Inventory


class AskedOnce:
    """Fulfils the port InventorySource."""

    def __init__(self, read: Callable[[], Inventory]) -> None:
        """Take how it is read; nothing is read yet."""
        self._read = read
        self._inventory: Inventory | None = None

    def current(self) -> Inventory:
        """Return the inventory as it was at the first look; ConfigInvalid."""
        if self._inventory is None:
            self._inventory = self._read()
        return self._inventory
