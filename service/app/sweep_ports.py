"""What sweeps need of the record; the store's ports take these in."""

from collections.abc import Sequence
from typing import Protocol

from service.domain.run import Run
from service.domain.sweep import NodeLook, OpenFinding, SweepState


class SweepReader(Protocol):
    """Reads of sweeps."""

    def sweep_state(self, name: str) -> SweepState | None:
        """Return how the schedule of a sweep stands; None: it was never reckoned."""

    def sweep_states(self) -> tuple[SweepState, ...]:
        """Return how every schedule stands, those of sweeps that are gone too, by name."""

    def open_sweep_runs(self) -> tuple[Run, ...]:
        """Return the runs of sweeps that have not ended, oldest first."""

    def awake_node_runs(self, run_id: str) -> int:
        """Return how many open node runs of a run are looked at, or will be next."""

    def asleep_node_runs(self, run_id: str, *, limit: int) -> tuple[str, ...]:
        """Return the first node runs of a run that wait for their turn, by position."""

    def open_node_runs(self, run_id: str, *, limit: int) -> tuple[str, ...]:
        """Return node runs of a run that have not ended and that nobody has cancelled, by position."""

    def looks(self, nodes: Sequence[str], sweep_names: Sequence[str]) -> tuple[NodeLook, ...]:
        """Return the newest look of each of these sweeps at each of these nodes, by node and sweep."""

    def open_findings(self, nodes: Sequence[str], sweep_names: Sequence[str]) -> tuple[OpenFinding, ...]:
        """Return what these sweeps have found on these nodes and not seen fine since."""


class SweepWriter(Protocol):
    """Writes of sweeps."""

    def lock_sweeps(self) -> None:
        """Have the schedules to itself until the commit, beside other processes."""

    def put_sweep(self, state: SweepState) -> None:
        """Write how a schedule stands, in place of what stood there."""

    def put_look(self, look: NodeLook) -> None:
        """Write the newest look of a sweep at a node."""

    def put_finding(self, finding: OpenFinding) -> None:
        """Write that something was found, in place of an earlier occasion."""

    def remove_finding(self, finding: OpenFinding) -> None:
        """Write that it was seen fine."""
