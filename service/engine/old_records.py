"""Lets go of what takes room, now and then, in a thread of its own that yields to everything else."""

import threading

from service.app.drop_old import drop_old
from service.app.service import Service
from service.engine.due_alerts import FaultOf

#: Between two looks (seconds).
EVERY = 3600.0
#: Between two batches (seconds), so that cures have the writer meanwhile.
REST = 0.2


class OldRecords:
    """Drops what the policy does not keep any longer."""

    def __init__(self, service: Service, *, fault_of: FaultOf) -> None:
        """Look after the record of this service; `fault_of` stands between it and the thread."""
        self._service = service
        self._fault_of = fault_of
        self._ending = threading.Event()
        self._loop = threading.Thread(target=self._run, name="old-records", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._loop.start()

    def stop(self, timeout: float) -> None:
        """Drop no more; a batch under way is finished within `timeout` seconds, or undone."""
        self._ending.set()
        if self._loop.is_alive():
            self._loop.join(timeout)

    def _run(self) -> None:
        rest = REST
        while not self._ending.wait(rest):
            dropped: list[int] = []
            self._fault_of(lambda dropped=dropped: dropped.append(drop_old(self._service)))  # type: ignore[misc]
            rest = REST if any(dropped) else EVERY
