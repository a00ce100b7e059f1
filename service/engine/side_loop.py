"""A loop in a thread of its own beside the engine's: what goes wrong in it keeps no node run waiting."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from service.app.service import Service


class FaultOf(Protocol):
    """Does something and returns the fault of our own that it met; an expected failure is only logged."""

    def __call__(self, work: Callable[[], None], **about: str) -> Exception | None:
        """Do it."""


class SideLoop(ABC):
    """Takes turns until it is told to end."""

    def __init__(self, service: Service, *, name: str, fault_of: FaultOf) -> None:
        """Work for this service; `fault_of` stands between the work and the thread of this name."""
        self._service = service
        self._fault_of = fault_of
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._loop = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._loop.start()

    def wake(self) -> None:
        """Take the next turn now."""
        self._wake.set()

    def end(self) -> None:
        """Take no more turns; what is being written is finished, or undone."""
        self._ending.set()
        self._wake.set()

    def stop(self, timeout: float) -> None:
        """End, and wait for the turn under way, up to `timeout` seconds."""
        self.end()
        if self._loop.is_alive():
            self._loop.join(timeout)

    def alive(self) -> bool:
        """Whether it works."""
        return self._loop.is_alive()

    def _attempt(self, work: Callable[[], object], **about: str) -> None:
        """Do something whose result nobody needs; a fault of our own is in the log."""

        def do() -> None:
            work()

        self._fault_of(do, **about)

    @abstractmethod
    def _turn(self) -> float:
        """Do what is due, and return after how many seconds to look again; a wake-up ends the pause."""

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.wait(self._turn())
            self._wake.clear()
