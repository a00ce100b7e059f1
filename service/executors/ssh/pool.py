"""Connections kept for the next script: one handshake costs as much as ten scripts."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from service.domain.node import Endpoint, View
from service.domain.script import NotStarted
from service.executors.not_sent import NotSent
from service.executors.retry import Retry
from service.executors.ssh.first_look import judge, judge_unseen, look
from service.executors.ssh.link import Link


class Connector(Protocol):
    """What makes a link that is logged in."""

    def connect(self, endpoint: Endpoint, carrier: Link | None, *, on_close: Callable[[], None]) -> Link:
        """Return a link; NotSent."""


@dataclass(frozen=True)
class Limits:
    """How many connections are kept, and for how long."""

    #: Above this, idle ones are closed, the longest unused first. Two hundred idle ones cost 5 % of a core:
    #: each thread of paramiko wakes ten times a second.
    connections: int = 200
    #: A connection that nobody used for so long is closed, a quarter of it late at most.
    idle_seconds: float = 60.0
    #: sshd refuses an eleventh session on one connection (sshd_config(5), MaxSessions 10).
    sessions: int = 8
    #: Handshakes at the same time through one jump host.
    handshakes_per_jump: int = 8


@dataclass(frozen=True)
class _Key:
    """One for scripts and one that carries others are never the same: the login of the latter was not judged."""

    endpoint: Endpoint
    carries: bool


@dataclass(eq=False)
class _Slot:
    key: _Key
    link: Link
    idle_since: float
    users: int = 0


class LinkPool:
    """Links by endpoint, shared by many threads."""

    def __init__(self, connector: Connector, *, limits: Limits, retry: Retry) -> None:
        """Take what makes links, how many to keep, and how to try again."""
        self._connector = connector
        self._limits = limits
        self._retry = retry
        self._changed = threading.Condition()
        self._slots: dict[_Key, list[_Slot]] = {}
        self._by_link: dict[Link, _Slot] = {}
        self._coming: dict[_Key, Future[None]] = {}
        self._turnstiles: dict[Endpoint, threading.Semaphore] = {}
        self._sweeper: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def lease(self, endpoint: Endpoint) -> Iterator[Link]:
        """Lend a link that was alive a moment ago; NotSent when there can be none."""
        link = self.take(endpoint)
        try:
            yield link
        finally:
            self.give(link)

    def take(self, endpoint: Endpoint, *, carries: bool = False) -> Link:
        """Return a link to use; `carries` when it shall carry another connection, which needs no session."""
        key = _key(endpoint, carries=carries)
        while True:
            with self._changed:
                slot = self._free_slot(key)
                if slot is not None:
                    slot.users += 1
                    return slot.link
                coming = self._coming.get(key)
                mine = coming is None
                if coming is None:
                    coming = self._coming[key] = Future()
            if mine:
                self._make(key, coming)
            coming.result()

    def give(self, link: Link) -> None:
        """Give a link back; a broken one is closed."""
        with self._changed:
            slot = self._by_link.get(link)
            if slot is not None:
                slot.users -= 1
                slot.idle_since = time.monotonic()
            dead = [] if slot is None or link.alive() else self._drop([slot])
            dead += self._drop_surplus()
        _close(dead)

    def close(self) -> None:
        """Cut every connection and lend no more."""
        with self._changed:
            self._closed = True
            links = list(self._by_link)
            self._slots.clear()
            self._by_link.clear()
            self._changed.notify_all()
        # Those that ride on others first, so that they can say goodbye.
        _close(sorted(links, key=lambda link: link.endpoint.jump is None))

    def size(self) -> int:
        """Return how many connections stand."""
        with self._changed:
            return len(self._by_link)

    def _free_slot(self, key: _Key) -> _Slot | None:
        slots = self._slots.get(key, [])
        fit = (slot for slot in slots if slot.link.alive() and (key.carries or slot.users < self._limits.sessions))
        return next(fit, None)

    def _make(self, key: _Key, coming: "Future[None]") -> None:
        """Make one link; all who wait for the same endpoint share its fate."""
        failure: NotSent | None = NotSent(NotStarted.UNREACHABLE, f"The way to {key.endpoint.name} was given up.")
        try:
            link = self._retry(lambda: self._connect(key))
            failure = None if self._keep(key, link) else failure
        except NotSent as error:
            failure = error
        finally:
            with self._changed:
                del self._coming[key]
            if failure is None:
                coming.set_result(None)
            else:
                coming.set_exception(failure)

    def _keep(self, key: _Key, link: Link) -> bool:
        with self._changed:
            if not self._closed:
                slot = self._by_link[link] = _Slot(key, link, idle_since=time.monotonic())
                self._slots.setdefault(key, []).append(slot)
                if self._sweeper is None:
                    self._sweeper = threading.Thread(target=self._sweep, name="ssh-pool-sweeper", daemon=True)
                    self._sweeper.start()
                return True
        link.close()
        return False

    def _connect(self, key: _Key) -> Link:
        if not key.carries:
            judge_unseen(key.endpoint)
        jump = key.endpoint.jump
        if jump is None:
            link = self._connector.connect(key.endpoint, None, on_close=lambda: None)
        else:
            carrier = self.take(jump, carries=True)
            with ExitStack() as given_up:
                given_up.callback(self.give, carrier)
                with self._turnstile(jump):
                    link = self._connector.connect(key.endpoint, carrier, on_close=lambda: self.give(carrier))
                given_up.pop_all()
        # Nothing is executed on a jump host, and its user often has no shell.
        return link if key.carries else self._look_around(link)

    def _look_around(self, link: Link) -> Link:
        with ExitStack() as given_up:
            given_up.callback(link.close)
            seen = look(link)
            judge(seen, link.endpoint)
            link.boot_id = seen.boot_id
            given_up.pop_all()
        return link

    def _turnstile(self, jump: Endpoint) -> threading.Semaphore:
        with self._changed:
            new = threading.Semaphore(self._limits.handshakes_per_jump)
            return self._turnstiles.setdefault(jump, new)

    def _drop_surplus(self) -> list[Link]:
        surplus = len(self._by_link) - self._limits.connections
        if surplus <= 0:
            return []
        return self._drop(sorted(self._idle(), key=lambda slot: slot.idle_since)[:surplus])

    def _idle(self) -> list[_Slot]:
        return [slot for slot in self._by_link.values() if not slot.users]

    def _drop(self, doomed: list[_Slot]) -> list[Link]:
        for slot in doomed:
            del self._by_link[slot.link]
            self._slots[slot.key].remove(slot)
            if not self._slots[slot.key]:
                del self._slots[slot.key]
        return [slot.link for slot in doomed]

    def _sweep(self) -> None:
        """Close what nobody used for long; ends with the pool, or when nothing is left to watch."""
        while True:
            with self._changed:
                if self._closed or not self._by_link:
                    self._sweeper = None
                    return
                old = self._drop_unused(before=time.monotonic() - self._limits.idle_seconds)
                if not old:
                    self._changed.wait(self._limits.idle_seconds / 4)
            _close(old)

    def _drop_unused(self, before: float) -> list[Link]:
        return self._drop([slot for slot in self._idle() if slot.idle_since <= before])


def _key(endpoint: Endpoint, *, carries: bool) -> _Key:
    """Return what a connection is kept under: the endpoint without what it has nothing to do with."""
    return _Key(replace(endpoint, view=View.MACHINE, path=""), carries)


def _close(links: Iterable[Link]) -> None:
    # Never under the lock of the pool: closing joins a thread, and gives back what carried the link.
    for link in links:
        link.close()
