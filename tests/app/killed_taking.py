"""A service that is killed when it has recorded deliveries and before it has told anybody: given a URL and bodies."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from service.app.know_sender import Sender
from service.app.service import Service
from service.app.take_delivery import Sent, take_deliveries
from service.domain.alert import Alert, AlertSourceKind, AlertStatus, Parsed
from service.domain.rule import AlertSource
from tests.app.conftest import RUNBOOKS, table, works
from tests.support.world import RealClock, World, local_nodes

NODES = ("gpu-01", "gpu-02", "gpu-03")
SOURCE = AlertSource("prom", AlertSourceKind.ALERTMANAGER, token="prom")


class Named:
    """Reads a body as the name of a node, with a fault on it; behind a space stands what its delivery is called."""

    def __init__(self, began: datetime) -> None:
        self._began = began

    def parse(self, source: AlertSource, body: bytes, *, headers: Mapping[str, str], now: datetime) -> Parsed:
        node, _, key = body.decode().partition(" ")
        labels = {"alertname": "Ghost", "instance": node}
        omitted = 2**80 if key == "huge" else 0
        one = Alert(f"f-{node}", AlertStatus.FIRING, self._began, labels=labels)
        return Parsed((one,), delivery_key=key or None, omitted=omitted)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked here")


class Killed:
    """A store whose process ends between a commit and the next line."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def write(self, change: Callable[..., Any]) -> Any:
        self._store.write(change)
        os.kill(os.getpid(), signal.SIGKILL)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def build(url: str, began: datetime) -> World:
    """Return a service on this database whose alerts all began at a time."""
    executor = table(NODES, works("cure"))
    world = World.build(url, executor, inventory=local_nodes(*NODES), runbooks=RUNBOOKS, clock=RealClock())
    world.service = replace(world.service, receivers=Named(began))
    return world


def sent(*bodies: str) -> list[Sent]:
    """Return deliveries of one source."""
    return [Sent(Sender(SOURCE, "prom"), body.encode(), {}) for body in bodies]


def main(url: str, began: str, *bodies: str) -> None:
    """Take these deliveries together, and be killed."""
    service: Service = build(url, datetime.fromisoformat(began)).service
    take_deliveries(replace(service, store=Killed(service.store)), sent(*bodies))


if __name__ == "__main__":
    main(*sys.argv[1:])
