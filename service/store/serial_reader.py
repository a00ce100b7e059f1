"""Reads inside a write: what was read stays true until the commit, also beside other processes.

On SQLite a write has the database to itself. On PostgreSQL the other services go on meanwhile, so
whoever reads a run or a part of it inside a write has the run's row to himself, and whoever asks
how a node or a runbook stands (limits, holds) has its name. Order: run, names, and at commit the
chain. Two that lock each other out all the same are told apart by the server; the writer plays
the loser again.
"""

import zlib
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, Table, select, text

from service.domain.run import Gate, History, Hold, NodeRun, NodeRunState, Run
from service.store import locks, tables
from service.store.reader import SqlReader

_LOCK_NAME = text("SELECT pg_advisory_xact_lock(:space, :name)")
# Each advisory lock takes a place in a table of the server that has some thousands for all sessions.
_NAMES = 1024


class SerialReader(SqlReader):
    """Reads for one write."""

    def __init__(self, connection: Connection) -> None:
        """Read in the transaction of this connection."""
        super().__init__(connection)
        self._shared = connection.dialect.name == "postgresql"

    def run(self, run_id: str) -> Run:
        """Return a run; NotFound."""
        self._serialize_run(run_id)
        return super().run(run_id)

    def node_run(self, node_run_id: str) -> NodeRun:
        """Return a node run; NotFound."""
        self._serialize_part(tables.node_runs, node_run_id)
        return super().node_run(node_run_id)

    def node_runs(self, run_id: str) -> tuple[NodeRun, ...]:
        """Return the node runs of a run, by position."""
        self._serialize_run(run_id)
        return super().node_runs(run_id)

    def history(self, node_run_id: str) -> History:
        """Return everything recorded of a node run; NotFound."""
        self._serialize_part(tables.node_runs, node_run_id)
        return super().history(node_run_id)

    def gate(self, gate_id: str) -> Gate:
        """Return a gate; NotFound."""
        self._serialize_part(tables.gates, gate_id)
        return super().gate(gate_id)

    def holder(self, node: str) -> NodeRun | None:
        """Return the acting node run that has this node to itself."""
        self._serialize_name(f"node/{node}")
        return super().holder(node)

    def open_acting(self, *, runbook: str | None = None, node: str | None = None) -> tuple[NodeRun, ...]:
        """Return acting node runs in an open state, by creation."""
        if node is not None:
            self._serialize_name(f"node/{node}")
        if runbook is not None:
            self._serialize_name(f"runbook/{runbook}")
        return super().open_acting(runbook=runbook, node=node)

    def acting_on_nodes(self, runbook: str) -> tuple[NodeRun, ...]:
        """Return the node runs of a runbook that have their nodes to themselves."""
        self._serialize_name(f"runbook/{runbook}")
        return super().acting_on_nodes(runbook)

    def rollout(self, run_id: str, *, canary: int) -> tuple[NodeRun, ...]:
        """Return what decides over the rest of a run: its first `canary` node runs, and those that failed."""
        self._serialize_run(run_id)
        return super().rollout(run_id, canary=canary)

    def asleep(self, node_run: NodeRun, *, now: datetime) -> tuple[str, ...]:
        """Return the queued node runs that may wait for this one and are not due by themselves, by id."""
        self._serialize_run(node_run.run_id)
        if node_run.acts:
            self._serialize_name(f"runbook/{node_run.runbook}")
            self._serialize_name(f"node/{node_run.node}")
        return super().asleep(node_run, now=now)

    def states(self, run_id: str) -> frozenset[NodeRunState]:
        """Return the states that node runs of a run have."""
        self._serialize_run(run_id)
        return super().states(run_id)

    def hold(self, node: str) -> Hold | None:
        """Return the hold on a node, past ones left out by the caller's clock."""
        self._serialize_name(f"node/{node}")
        return super().hold(node)

    def _serialize_run(self, run_id: str) -> None:
        if self._shared:
            runs = tables.runs
            self._connection.execute(select(runs.c.id).where(runs.c.id == run_id).with_for_update(key_share=True))

    def _serialize_part(self, table: Table, key: str) -> None:
        self._serialize_parts(table, [key])

    def _serialize_parts(self, table: Table, keys: Sequence[str]) -> None:
        if self._shared:
            runs = tables.runs
            of_parts = select(table.c.run_id).where(table.c.id.in_(keys))
            query = select(runs.c.id).where(runs.c.id.in_(of_parts)).order_by(runs.c.id)
            self._connection.execute(query.with_for_update(key_share=True))

    def _serialize_name(self, name: str) -> None:
        if self._shared:
            place = zlib.crc32(name.encode()) % _NAMES
            self._connection.execute(_LOCK_NAME, {"space": locks.NAMES, "name": place})
