"""Reads of sweeps: what is due, what is open, and what was found."""

from collections.abc import Sequence

from sqlalchemy import and_, func, or_, select

from service.domain.run import OPEN_STATES, Run, TriggerKind
from service.domain.sweep import NodeLook, OpenFinding, SweepState
from service.store import rows
from service.store.looks import Looks
from service.store.sweep_tables import ASLEEP, sweep_findings, sweep_looks, sweeps
from service.store.tables import OPEN, node_runs, runs


class SweepReads(Looks):
    """The part of a reader that knows of sweeps."""

    def sweep_state(self, name: str) -> SweepState | None:
        """Return how the schedule of a sweep stands; None: it was never reckoned."""
        row = self._first(select(sweeps).where(sweeps.c.name == name))
        return None if row is None else SweepState(**row)

    def sweep_states(self) -> tuple[SweepState, ...]:
        """Return how every schedule stands, those of sweeps that are gone too, by name."""
        return tuple(SweepState(**row) for row in self._all(select(sweeps).order_by(sweeps.c.name)))

    def open_sweep_runs(self) -> tuple[Run, ...]:
        """Return the runs of sweeps that have not ended, oldest first."""
        query = select(runs).where(runs.c.state.in_(OPEN_STATES), runs.c.trigger_kind == TriggerKind.SWEEP)
        # They are few, and sorted here: an index on the time would lead through all that have ended.
        return tuple(sorted(map(rows.run_of, self._all(query)), key=lambda run: (run.created_at, run.id)))

    def awake_node_runs(self, run_id: str) -> int:
        """Return how many open node runs of a run are looked at, or will be next."""
        c = node_runs.c
        awake = or_(c.owner.is_not(None), c.wake_at.is_not(None))
        query = select(func.count().label("number")).where(c.run_id == run_id, OPEN, awake)
        row = self._first(query)
        return 0 if row is None else row["number"]

    def asleep_node_runs(self, run_id: str, *, limit: int) -> tuple[str, ...]:
        """Return the first node runs of a run that wait for their turn, by position."""
        c = node_runs.c
        query = select(c.id).where(ASLEEP, c.run_id == run_id).order_by(c.position).limit(limit)
        return tuple(self._connection.execute(query).scalars())

    def open_node_runs(self, run_id: str, *, limit: int) -> tuple[str, ...]:
        """Return node runs of a run that have not ended and that nobody has cancelled, by position."""
        c = node_runs.c
        query = select(c.id).where(c.run_id == run_id, OPEN, c.cancel_requested_by.is_(None))
        return tuple(self._connection.execute(query.order_by(c.position).limit(limit)).scalars())

    def looks(self, nodes: Sequence[str], sweep_names: Sequence[str]) -> tuple[NodeLook, ...]:
        """Return the newest look of each of these sweeps at each of these nodes, by node and sweep."""
        c = sweep_looks.c
        query = select(sweep_looks).where(and_(c.node.in_(nodes), c.sweep.in_(sweep_names)))
        return tuple(NodeLook(**row) for row in self._all(query.order_by(c.node, c.sweep)))

    def open_findings(self, nodes: Sequence[str], sweep_names: Sequence[str]) -> tuple[OpenFinding, ...]:
        """Return what these sweeps have found on these nodes and not seen fine since."""
        c = sweep_findings.c
        query = select(sweep_findings).where(and_(c.node.in_(nodes), c.sweep.in_(sweep_names)))
        return tuple(OpenFinding(**row) for row in self._all(query.order_by(c.node, c.sweep, c.step)))
