"""Lets go of what takes room, now and then, and yields to everything else."""

from service.app.drop_old import drop_old
from service.app.service import Service
from service.engine.side_loop import FaultOf, SideLoop

#: Between two looks (seconds).
EVERY = 3600.0
#: Between two batches (seconds), so that cures have the writer meanwhile.
REST = 0.2


class OldRecords(SideLoop):
    """Drops what the policy does not keep any longer."""

    def __init__(self, service: Service, *, fault_of: FaultOf) -> None:
        """Look after the record of this service."""
        super().__init__(service, name="old-records", fault_of=fault_of)

    def _turn(self) -> float:
        dropped: list[int] = []
        self._fault_of(lambda: dropped.append(drop_old(self._service)))
        return REST if any(dropped) else EVERY
