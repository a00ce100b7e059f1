"""The ports, as one value that use cases are given; `main.py` builds it."""

from collections.abc import Callable
from dataclasses import dataclass

from service.app.ports import Clock, Executors, InventorySource, Runbooks, Store


def _nobody_listens() -> None:
    """Stand for an engine that is not there: due rows are found by whoever runs one."""


@dataclass(frozen=True)
class Service:
    """All that a use case may reach."""

    store: Store
    runbooks: Runbooks
    inventory: InventorySource
    executors: Executors
    clock: Clock
    #: SHA-256 of the envelope's bytes, part of every plan.
    envelope_sha256: str
    #: Names this installation in the acting lock of a node.
    service_id: str
    #: Tells the engine that something may be due.
    wake_engine: Callable[[], None] = _nobody_listens
