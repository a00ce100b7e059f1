"""The inventory as a file: inventory.yaml, read strictly, read again when it changes."""

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from service.app.finding import Finding
from service.app.runbook_yaml import decode
from service.domain.errors import ConfigInvalid
from service.domain.node import Inventory
from service.inventory.build import OF_AN_INVENTORY, FileContents, build_file
from service.inventory.source import SourceConfig

_Stamp = tuple[int, int, int]

log = structlog.get_logger()


@dataclass(frozen=True)
class _Answer:
    stamp: _Stamp | None
    contents: FileContents | None
    problem: ConfigInvalid | None


class FileInventory:
    """Nodes and controllers from one file. Safe for many threads.

    A file that became wrong does not take the nodes away: the last good answer stays, and `problem` says why.
    """

    def __init__(self, path: Path) -> None:
        """Take the path of inventory.yaml; nothing is read yet."""
        self._path = path
        self._lock = threading.Lock()
        self._answer = _Answer(stamp=None, contents=None, problem=None)

    def current(self) -> Inventory:
        """Return the inventory as it is now; ConfigInvalid when the file is wrong and none was good before."""
        return self._contents().inventory

    def sources(self) -> tuple[SourceConfig, ...]:
        """Return the sources of further nodes that the file names; ConfigInvalid as `current`."""
        return self._contents().sources

    @property
    def problem(self) -> ConfigInvalid | None:
        """Return why the file as it is now is not used; None when it is."""
        return self._refresh().problem

    def _contents(self) -> FileContents:
        answer = self._refresh()
        if answer.contents is None:
            raise answer.problem or ConfigInvalid(f"{self._path} was not read.")
        return answer.contents

    def _refresh(self) -> _Answer:
        with self._lock:
            kept = self._answer
            self._answer = self._read(kept)
            _tell(self._path, kept, self._answer)
            return self._answer

    def _read(self, kept: _Answer) -> _Answer:
        """Return what the file says now, beside what was kept of it."""
        stamp: _Stamp | None = None
        try:
            stamp = _stamp(self._path)
            return kept if kept.stamp == stamp else _Answer(stamp, load_file(self._path), problem=None)
        except ConfigInvalid as problem:
            return _last_good(kept, stamp, problem)
        except OSError as error:
            return _last_good(kept, None, _unreadable(self._path, error))


def _last_good(kept: _Answer, stamp: _Stamp | None, problem: ConfigInvalid) -> _Answer:
    """Return the nodes that were good before, with why they are not those of the file as it is now."""
    contents, told = kept.contents, str(problem)
    if contents is not None and contents.inventory.problem != told:
        contents = replace(contents, inventory=replace(contents.inventory, problem=told))
    return _Answer(stamp, contents, problem)


def _tell(path: Path, before: _Answer, after: _Answer) -> None:
    """Log once that a file which was good is not used any more, and once that it is again."""
    if after.contents is None or before.contents is None or (before.problem is None) == (after.problem is None):
        return
    if after.problem is not None:
        log.warning("inventory.broken", file=str(path), reason=str(after.problem), used="the last good one")
    else:
        log.info("inventory.mended", file=str(path))


def load_inventory(path: Path) -> Inventory:
    """Read the nodes and controllers that a file names itself; errors as `load_file`."""
    return load_file(path).inventory


def load_file(path: Path) -> FileContents:
    """Read a file; ConfigInvalid names every fault with its line, OSError when it cannot be read."""
    text = decode(path.read_bytes(), str(path), bounds=OF_AN_INVENTORY)
    if isinstance(text, Finding):
        raise ConfigInvalid(text.what, text.way_out)
    return build_file(text, str(path), folder=path.parent)


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _unreadable(path: Path, error: OSError) -> ConfigInvalid:
    if isinstance(error, FileNotFoundError):
        return ConfigInvalid(f"There is no inventory at {path}.", "Write it; `unstick nodes add --help` helps.")
    return ConfigInvalid(f"{path} cannot be read ({error.strerror}).", f"Look with `ls -l {path}`.")
