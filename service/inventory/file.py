"""The inventory as a file: inventory.yaml, read strictly, read again when it changes."""

from dataclasses import replace
from pathlib import Path

from service.app.finding import Finding
from service.app.kept_file import KeptFile
from service.app.runbook_yaml import decode
from service.domain.errors import ConfigInvalid
from service.domain.node import Inventory
from service.inventory.build import OF_AN_INVENTORY, FileContents, build_file
from service.inventory.source import SourceConfig


class FileInventory:
    """Nodes and controllers from one file. Safe for many threads.

    A file that became wrong does not take the nodes away: the last good answer stays, and `problem` says why.
    """

    def __init__(self, path: Path) -> None:
        """Take the path of inventory.yaml; nothing is read yet."""
        gone = ConfigInvalid(f"There is no inventory at {path}.", "Write it; `unstick nodes add --help` helps.")
        self._file = KeptFile(path, load_file, word="inventory", gone=gone)
        #: The last good inventory, and the same with what is wrong with the file now.
        self._told: tuple[Inventory, Inventory] | None = None

    def current(self) -> Inventory:
        """Return the inventory as it is now; ConfigInvalid when the file is wrong and none was good before."""
        contents, problem = self._file.look()
        if problem is None:
            return contents.inventory
        told = self._told
        if told is None or told[0] is not contents.inventory or told[1].problem != str(problem):
            told = contents.inventory, replace(contents.inventory, problem=str(problem))
            # Whoever asks again gets the same one, by which he knows that nothing has changed.
            self._told = told
        return told[1]

    def sources(self) -> tuple[SourceConfig, ...]:
        """Return the sources of further nodes that the file names; ConfigInvalid as `current`."""
        return self._file.current().sources

    @property
    def problem(self) -> ConfigInvalid | None:
        """Return why the file as it is now is not used; None when it is."""
        return self._file.problem


def load_inventory(path: Path) -> Inventory:
    """Read the nodes and controllers that a file names itself; errors as `load_file`."""
    return load_file(path).inventory


def load_file(path: Path) -> FileContents:
    """Read a file; ConfigInvalid names every fault with its line, OSError when it cannot be read."""
    text = decode(path.read_bytes(), str(path), bounds=OF_AN_INVENTORY)
    if isinstance(text, Finding):
        raise ConfigInvalid(text.what, text.way_out)
    return build_file(text, str(path), folder=path.parent)
