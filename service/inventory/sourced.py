"""The whole inventory: the file, and the sources that it names, asked in the background."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from service.domain.errors import ConfigInvalid
from service.domain.node import Inventory
from service.inventory.file import FileInventory
from service.inventory.merged import SourceReport, merge
from service.inventory.source import Look, SourceConfig
from service.inventory.watch import SourceWatch


class SourcedInventory:
    """Nodes of a file and of its sources. Safe for many threads.

    Sources come, go and change with the file, without a restart. Asking begins with `start`, or once with `refresh`.
    """

    def __init__(
        self,
        file: FileInventory,
        look_of: Callable[[SourceConfig], Look],
        *,
        now: Callable[[], datetime],
        chance: Callable[[], float],
    ) -> None:
        """Take the file, what makes the way to ask a source, the clock, and numbers from 0 to 1."""
        self._file = file
        self._look_of = look_of
        self._now = now
        self._chance = chance
        self._lock = threading.Lock()
        self._watches: list[SourceWatch] = []
        self._started = self._closed = False
        self._merged: tuple[Inventory, tuple[SourceReport, ...], Inventory] | None = None

    def current(self) -> Inventory:
        """Return the inventory as it is known now, without asking; ConfigInvalid as of the file."""
        with self._lock:
            watches = self._follow_file()
            file = self._file.current()
            reports = tuple(watch.report() for watch in watches)
            if not reports:
                return file
            if self._merged is None or self._merged[0] is not file or self._merged[1] != reports:
                self._merged = (file, reports, merge(file, reports))
            return self._merged[2]

    @property
    def problem(self) -> ConfigInvalid | None:
        """Return why the file as it is now is not used; None when it is."""
        return self._file.problem

    def start(self, *, wait_seconds: float) -> None:
        """Ask from now on, and wait so long at most until each source was asked once."""
        until = time.monotonic() + wait_seconds
        with self._lock:
            self._started = True
            watches = self._follow_file()
        for watch in watches:
            watch.wait_asked(max(0.0, until - time.monotonic()))

    def refresh(self) -> None:
        """Ask every source once, all at the same time; each has its own bound."""
        with self._lock:
            watches = self._follow_file()
        if watches:
            with ThreadPoolExecutor(len(watches), thread_name_prefix="source") as threads:
                list(threads.map(SourceWatch.ask, watches))

    def close(self) -> None:
        """Ask no more; what was said stays."""
        with self._lock:
            self._closed = True
            watches = self._watches
        for watch in watches:
            watch.end()
        for watch in watches:
            watch.join()

    def _follow_file(self) -> list[SourceWatch]:
        """Return one watch for each source of the file; one whose question is the same keeps its answer."""
        if self._closed:
            return self._watches
        left = list(self._watches)
        watches = []
        for config in self._file.sources():
            kept = next((one for one in left if _same_question(one.config, config)), None)
            if kept is not None:
                left.remove(kept)
                kept.follow(config)
            watch = kept or SourceWatch(config, self._look_of(config), now=self._now, chance=self._chance)
            if self._started:
                watch.start()
            watches.append(watch)
        self._watches = watches
        for gone in left:
            gone.end()
        return watches


def _same_question(one: SourceConfig, other: SourceConfig) -> bool:
    return (one.name, one.kind, one.question) == (other.name, other.kind, other.question)
