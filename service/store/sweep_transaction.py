"""The part of a transaction that writes sweeps."""

from service.domain.sweep import NodeLook, OpenFinding, SweepState
from service.store import sweep_writes
from service.store.serial_reader import SerialReader


class SweepTransaction(SerialReader):
    """Writes of sweeps beside the reads of one change."""

    def lock_sweeps(self) -> None:
        """Have the schedules to itself until the commit, beside other processes."""
        self._serialize_name("sweeps")

    def put_sweep(self, state: SweepState) -> None:
        """Write how a schedule stands, in place of what stood there."""
        sweep_writes.put_sweep(self._connection, state)

    def put_look(self, look: NodeLook) -> None:
        """Write the newest look of a sweep at a node."""
        sweep_writes.put_look(self._connection, look)

    def put_finding(self, finding: OpenFinding) -> None:
        """Write that something was found, in place of an earlier occasion."""
        sweep_writes.put_finding(self._connection, finding)

    def remove_finding(self, finding: OpenFinding) -> None:
        """Write that it was seen fine."""
        sweep_writes.remove_finding(self._connection, finding)
