"""The tables of sweeps: when each is due, and what it has found on each node."""

import json
from typing import Any

from sqlalchemy import Column, Dialect, Index, Integer, Table, Text, text
from sqlalchemy.types import TypeDecorator

from service.domain.run import NodeRunState
from service.domain.sweep import Finding, StepFinding
from service.store.columns import Plain, UtcTime, Word
from service.store.metadata import metadata
from service.store.tables import node_runs

#: Node runs of a sweep that wait for their turn; a query says the same words (see `tables`).
ASLEEP = text(f"owner IS NULL AND wake_at IS NULL AND state = '{NodeRunState.QUEUED.value}'")


class Findings(TypeDecorator[tuple[StepFinding, ...]]):
    """What a look says of each step, as JSON."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[StepFinding, ...] | None, dialect: Dialect) -> str | None:
        """Return a list of rows."""
        return None if value is None else json.dumps([[one.step, one.finding, one.reason] for one in value])

    def process_result_value(self, value: Any, dialect: Dialect) -> tuple[StepFinding, ...] | None:
        """Return the findings."""
        if value is None:
            return None
        return tuple(StepFinding(step, Finding(finding), reason) for step, finding, reason in json.loads(value))


sweeps = Table(
    "sweeps",
    metadata,
    Column("name", Plain, primary_key=True),
    Column("schedule", Plain, nullable=False),
    Column("planned_at", UtcTime, nullable=False),
    Column("next_at", UtcTime, nullable=False),
    # No foreign key: the state outlives the run.
    Column("last_run_id", Text),
    Column("last_at", UtcTime),
    Column("missed", Integer, nullable=False),
    Column("skipped_at", UtcTime),
    Column("skipped", Plain, nullable=False),
)

# One row for each sweep and node, however many runs there were.
sweep_looks = Table(
    "sweep_looks",
    metadata,
    Column("node", Plain, primary_key=True),
    Column("sweep", Plain, primary_key=True),
    Column("runbook", Plain, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("looked_at", UtcTime, nullable=False),
    Column("finding", Word(Finding), nullable=False),
    Column("steps", Findings, nullable=False),
    Column("answered_at", UtcTime),
)

sweep_findings = Table(
    "sweep_findings",
    metadata,
    Column("node", Plain, primary_key=True),
    Column("sweep", Plain, primary_key=True),
    Column("step", Plain, primary_key=True),
    Column("since", UtcTime, nullable=False),
    Column("boot_id", Plain, nullable=False),
)

Index("ix_node_runs_asleep", node_runs.c.run_id, node_runs.c.position, sqlite_where=ASLEEP, postgresql_where=ASLEEP)
