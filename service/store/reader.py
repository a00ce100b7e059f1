"""Reads. Lists page by keyset: they never count, never skip rows, never carry output."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    Table,
    and_,
    bindparam,
    func,
    or_,
    select,
)

from service.app.ports import AuditFilter, Backlog, Page, RunbookSource, RunFilter, RunHead
from service.domain.audit import AuditEvent
from service.domain.limits import FAILED_STATES, FAILED_VERDICTS
from service.domain.person import Token
from service.domain.plan import PlannedScript
from service.domain.run import Attempt, Gate, GateState, History, Hold, NodeRun, NodeRunState, Resolution, Run
from service.domain.script import Stream
from service.store import cursor as cursors
from service.store import output, rows, tables
from service.store.alert_reads import AlertReads
from service.store.faults import missing
from service.store.notice_reads import NoticeReads
from service.store.rights_reads import RightsReads
from service.store.sign_in_reads import SignInReads
from service.store.sweep_reads import SweepReads

Part = TypeVar("Part", Attempt, Gate, Resolution)

_NODE_RUNS = select(tables.node_runs)
_DUE = _NODE_RUNS.where(tables.UNCLAIMED).order_by(tables.node_runs.c.wake_at, tables.node_runs.c.id)
_CLAIMED = _NODE_RUNS.where(tables.CLAIMED).order_by(tables.node_runs.c.owner, tables.node_runs.c.id)
_OPEN_ACTING = _NODE_RUNS.where(tables.OPEN_ACTING).order_by(
    tables.node_runs.c.created_at, tables.node_runs.c.position, tables.node_runs.c.id
)


def _parts(column: Callable[[ColumnElement[str]], ColumnElement[bool]]) -> tuple[Select[Any], ...]:
    """Return the queries for attempts, gates and resolutions, each in its order; `column` says of which node runs."""
    attempts, gates, resolutions = tables.attempts, tables.gates, tables.resolutions
    return (
        select(attempts).where(column(attempts.c.node_run_id)).order_by(attempts.c.number),
        select(gates).where(column(gates.c.node_run_id)).order_by(gates.c.opened_at, gates.c.round, gates.c.id),
        select(resolutions)
        .where(column(resolutions.c.node_run_id))
        .order_by(resolutions.c.at, resolutions.c.after_number, resolutions.c.id),
    )


# Every step asks for these: to put a statement together costs more than SQLite needs to play it.
_OF_NODE_RUN = _parts(lambda column: column == bindparam("of"))
_OF_RUN = _parts(
    lambda column: column.in_(select(tables.node_runs.c.id).where(tables.node_runs.c.run_id == bindparam("of")))
)


@cache
def _by_id(table: Table) -> Select[Any]:
    return select(table).where(table.c.id == bindparam("key"))


class SqlReader(AlertReads, NoticeReads, RightsReads, SignInReads, SweepReads):
    """Looks at one consistent state of the database."""

    def run(self, run_id: str) -> Run:
        """Return a run; NotFound."""
        return rows.run_of(self._one(tables.runs, run_id, what="run"))

    def runs(self, which: RunFilter, *, cursor: str | None, limit: int) -> Page[Run]:
        """Return runs, newest first, by keyset."""
        runs, node_runs = tables.runs, tables.node_runs
        query, at, key = select(runs), runs.c.created_at, runs.c.id
        if which.node is not None:
            # Along the index of the node: a node with few runs is not looked for among all of them.
            query = query.join(node_runs, node_runs.c.run_id == runs.c.id).where(node_runs.c.node == which.node)
            at, key = node_runs.c.run_created_at, node_runs.c.run_id
        for name in ("runbook", "state", "dry_run", "requested_by"):
            wanted = getattr(which, name)
            if wanted is not None:
                query = query.where(runs.c[name] == wanted)
        found, more = self._page(query, at, key, cursor=cursor, limit=limit, kind="runs")
        values = tuple(rows.run_of(row) for row in found)
        return Page(values, cursors.encode("runs", values[-1].created_at, values[-1].id) if more else None)

    def run_by_key(self, person: str, key: str) -> Run | None:
        """Return the run that this person requested with this idempotency key."""
        c = tables.runs.c
        row = self._first(select(tables.runs).where(c.requested_by == person, c.idempotency_key == key))
        return None if row is None else rows.run_of(row)

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, RunHead]:
        """Return state and first nodes of these runs, in one query; unknown ids are left out."""
        c = tables.runs.c
        found = self._all(select(c.id, c.state, c.first_nodes, c.more_nodes).where(c.id.in_(run_ids)))
        return {row["id"]: RunHead(row["state"], row["first_nodes"], row["more_nodes"]) for row in found}

    def runbook_source(self, run_id: str) -> RunbookSource:
        """Return the runbook's text as it was planned; NotFound."""
        source, runs = tables.runbook_sources, tables.runs
        row = self._first(select(source).join(runs, runs.c.source_sha256 == source.c.sha256).where(runs.c.id == run_id))
        if row is None:
            raise missing("run", run_id)
        return RunbookSource(row["name"], row["text"], row["prelude"], row["revision"])

    def scripts(self, run_id: str, node: str) -> tuple[PlannedScript, ...]:
        """Return the scripts that were planned for a node."""
        planned = tables.planned_scripts
        row = self._first(select(planned.c.scripts).where(planned.c.run_id == run_id, planned.c.node == node))
        return () if row is None else rows.unpack_scripts(row["scripts"])

    def node_run(self, node_run_id: str) -> NodeRun:
        """Return a node run; NotFound."""
        return rows.from_row(NodeRun, self._one(tables.node_runs, node_run_id, what="node run"))

    def node_runs(self, run_id: str) -> tuple[NodeRun, ...]:
        """Return the node runs of a run, by position."""
        c = tables.node_runs.c
        return self._node_runs(_NODE_RUNS.where(c.run_id == run_id).order_by(c.position, c.id))

    def history(self, node_run_id: str) -> History:
        """Return everything recorded of a node run; NotFound."""
        return self._histories([self.node_run(node_run_id)], _OF_NODE_RUN, {"of": node_run_id})[0]

    def histories(self, run_id: str) -> tuple[History, ...]:
        """Return everything recorded of each node run of a run, by position, in four queries."""
        return self._histories(self.node_runs(run_id), _OF_RUN, {"of": run_id})

    def backlog(self) -> Backlog:
        """Return how many node runs are open, by state, and how many gates; it looks at nothing that has ended."""
        state, number = tables.node_runs.c.state, func.count().label("number")
        numbers: dict[NodeRunState, int] = {}
        for part in (tables.UNCLAIMED, tables.CLAIMED):
            for row in self._all(select(state, number).where(part).group_by(state)):
                numbers[row["state"]] = numbers.get(row["state"], 0) + row["number"]
        gates = self._first(select(number).where(tables.gates.c.state == GateState.OPEN))
        return Backlog(numbers, 0 if gates is None else gates["number"])

    def due(self, now: datetime, *, limit: int) -> tuple[NodeRun, ...]:
        """Return unclaimed node runs in an open state whose `wake_at` has come, oldest first."""
        return self._node_runs(_DUE.where(tables.node_runs.c.wake_at <= now).limit(limit))

    def next_wake(self) -> datetime | None:
        """Return the earliest `wake_at` of an unclaimed open node run."""
        wake_at = tables.node_runs.c.wake_at
        row = self._first(select(func.min(wake_at).label("wake_at")).where(tables.UNCLAIMED, wake_at.is_not(None)))
        return None if row is None else row["wake_at"]

    def owned_by_others(self, owner: str) -> tuple[NodeRun, ...]:
        """Return open node runs that some other owner has claimed."""
        return self._node_runs(_CLAIMED.where(tables.node_runs.c.owner != owner))

    def holder(self, node: str) -> NodeRun | None:
        """Return the acting node run that has this node to itself."""
        found = self._node_runs(_NODE_RUNS.where(tables.HOLDING, tables.node_runs.c.node == node).limit(1))
        return found[0] if found else None

    def open_acting(self, *, runbook: str | None = None, node: str | None = None) -> tuple[NodeRun, ...]:
        """Return acting node runs in an open state, by creation."""
        query = _OPEN_ACTING
        if runbook is not None:
            query = query.where(tables.node_runs.c.runbook == runbook)
        if node is not None:
            query = query.where(tables.node_runs.c.node == node)
        return self._node_runs(query)

    def acting_on_nodes(self, runbook: str) -> tuple[NodeRun, ...]:
        """Return the node runs of a runbook that have their nodes to themselves."""
        return self._node_runs(_OPEN_ACTING.where(tables.HOLDING, tables.node_runs.c.runbook == runbook))

    def rollout(self, run_id: str, *, canary: int) -> tuple[NodeRun, ...]:
        """Return what decides over the rest of a run: its first `canary` node runs, and those that failed."""
        c = tables.node_runs.c
        failed = or_(c.state.in_(FAILED_STATES), c.verdict.in_(FAILED_VERDICTS))
        query = _NODE_RUNS.where(c.run_id == run_id, or_(c.position < canary, failed))
        return self._node_runs(query.order_by(c.position, c.id))

    def asleep(self, node_run: NodeRun, *, now: datetime) -> tuple[str, ...]:
        """Return the queued node runs that may wait for this one and are not due by themselves, by id."""
        c = tables.node_runs.c
        # One that is claimed reads at this moment what this one has not yet changed.
        not_due = or_(c.owner.is_not(None), c.wake_at.is_(None), c.wake_at > now)
        places = [c.run_id == node_run.run_id]
        if node_run.acts:
            places += [and_(tables.OPEN_ACTING, c.runbook == node_run.runbook)]
            places += [and_(tables.OPEN_ACTING, c.node == node_run.node)]
        found: set[str] = set()
        for place in places:
            query = select(c.id).where(place, c.state == NodeRunState.QUEUED, not_due)
            found.update(self._connection.execute(query).scalars())
        return tuple(sorted(found))

    def states(self, run_id: str) -> frozenset[NodeRunState]:
        """Return the states that node runs of a run have."""
        c = tables.node_runs.c
        return frozenset(self._connection.execute(select(c.state).where(c.run_id == run_id).distinct()).scalars())

    def attempt(self, attempt_id: str) -> Attempt:
        """Return an attempt; NotFound."""
        return rows.from_row(Attempt, self._one(tables.attempts, attempt_id, what="attempt"))

    def output(self, attempt_id: str, stream: Stream, *, offset: int = 0) -> bytes:
        """Return what is kept of a stream, live or ended, from an offset (in kept bytes) on.

        Empty when the attempt wrote nothing, or when retention has dropped what it wrote.
        """
        return output.kept(self._connection, attempt_id, stream)[max(offset, 0) :]

    def gate(self, gate_id: str) -> Gate:
        """Return a gate; NotFound."""
        return rows.from_row(Gate, self._one(tables.gates, gate_id, what="gate"))

    def gates(self, state: GateState | None, *, cursor: str | None, limit: int) -> Page[Gate]:
        """Return gates, newest first."""
        c = tables.gates.c
        query = select(tables.gates) if state is None else select(tables.gates).where(c.state == state)
        found, more = self._page(query, c.opened_at, c.id, cursor=cursor, limit=limit, kind="gates")
        values = tuple(rows.from_row(Gate, row) for row in found)
        return Page(values, cursors.encode("gates", values[-1].opened_at, values[-1].id) if more else None)

    def hold(self, node: str) -> Hold | None:
        """Return the hold on a node, past ones left out by the caller's clock."""
        row = self._first(select(tables.holds).where(tables.holds.c.node == node))
        return None if row is None else rows.from_row(Hold, row)

    def holds(self) -> tuple[Hold, ...]:
        """Return every hold that was not released, by node."""
        return tuple(rows.from_row(Hold, row) for row in self._all(select(tables.holds).order_by(tables.holds.c.node)))

    def token_by_sha256(self, digest: str) -> Token | None:
        """Return the token with this digest."""
        row = self._first(select(tables.tokens).where(tables.tokens.c.sha256 == digest))
        return None if row is None else rows.token_of(row)

    def tokens(self) -> tuple[Token, ...]:
        """Return every token, by name."""
        return tuple(rows.token_of(row) for row in self._all(select(tables.tokens).order_by(tables.tokens.c.name)))

    def audit(self, which: AuditFilter, *, cursor: str | None, limit: int) -> Page[AuditEvent]:
        """Return audit events, newest first: by time, and by seq within one run."""
        events = tables.audit_events
        query = select(events)
        for name in ("run_id", "node", "person", "action"):
            wanted = getattr(which, name)
            if wanted is not None:
                query = query.where(events.c[name] == wanted)
        if which.since is not None:
            query = query.where(events.c.at >= which.since)
        if which.until is not None:
            query = query.where(events.c.at < which.until)
        at = events.c.at if which.run_id is None else None
        found, more = self._page(query, at, events.c.seq, cursor=cursor, limit=limit, kind="audit")
        values = tuple(rows.event_of(row) for row in found)
        return Page(values, cursors.encode("audit", values[-1].at, values[-1].seq) if more else None)

    def audit_after(self, seq: int, *, run_id: str | None, limit: int) -> tuple[AuditEvent, ...]:
        """Return audit events with a greater seq, oldest first."""
        events = tables.audit_events
        query = select(events).where(events.c.seq > seq).order_by(events.c.seq).limit(limit)
        if run_id is not None:
            query = query.where(events.c.run_id == run_id)
        return tuple(rows.event_of(row) for row in self._all(query))

    def _histories(
        self, node_runs: Sequence[NodeRun], parts: Sequence[Select[Any]], of: Mapping[str, str]
    ) -> tuple[History, ...]:
        of_attempts, of_gates, of_resolutions = parts
        by_attempt = _grouped(Attempt, self._all(of_attempts, of))
        by_gate = _grouped(Gate, self._all(of_gates, of))
        by_resolution = _grouped(Resolution, self._all(of_resolutions, of))
        return tuple(
            History(one, by_attempt.get(one.id, ()), by_gate.get(one.id, ()), by_resolution.get(one.id, ()))
            for one in node_runs
        )

    def _node_runs(self, query: Select[Any]) -> tuple[NodeRun, ...]:
        return tuple(rows.from_row(NodeRun, row) for row in self._all(query))

    def _one(self, table: Table, key: str, *, what: str) -> RowMapping:
        row = self._first(_by_id(table), {"key": key})
        if row is None:
            raise missing(what, key)
        return row


def _grouped(kind: type[Part], found: Sequence[RowMapping]) -> dict[str, tuple[Part, ...]]:
    parts: dict[str, list[Part]] = {}
    for row in found:
        parts.setdefault(row["node_run_id"], []).append(rows.from_row(kind, row))
    return {node_run_id: tuple(values) for node_run_id, values in parts.items()}
