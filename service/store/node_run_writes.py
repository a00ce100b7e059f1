"""How node runs change: every statement compares the epoch, or needs no claim and says why."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Update, bindparam, case, literal, or_, select, update
from sqlalchemy.exc import IntegrityError

from service.domain.errors import Conflict, EpochLost, NotFound
from service.domain.run import HOLDING_STATES, NodeRun, run_state
from service.store import rows
from service.store.columns import UtcTime
from service.store.faults import missing
from service.store.tables import CLAIMED, HOLDING, OPEN, UNCLAIMED, node_runs, runs

_C = node_runs.c
#: What a node run is from its beginning to its end.
_FIXED = ("id", "run_id", "node", "position", "dry_run", "acts", "runbook", "created_at", "epoch")

# Ready, since every script needs them: to put one together costs more than SQLite needs to play it.
_STATE = select(_C.state).where(_C.id == bindparam("saved"))
# A state that is final stays so: late facts are appended elsewhere.
_SAVE = update(node_runs).where(
    _C.id == bindparam("saved"),
    _C.epoch == bindparam("saved_epoch"),
    or_(OPEN, _C.state == bindparam("saved_state", type_=_C.state.type)),
)


def claim(connection: Connection, node_run_id: str, *, owner: str, now: datetime) -> NodeRun | None:
    """Take a due and unclaimed node run; None when there is no such one any more."""
    statement = update(node_runs).where(_C.id == node_run_id, UNCLAIMED, _C.wake_at <= now)
    return _take(connection, statement, owner=owner)


def take_from(connection: Connection, node_run: NodeRun, *, owner: str) -> NodeRun | None:
    """Take a node run from the owner it had; None when that is no longer so."""
    statement = update(node_runs).where(
        _C.id == node_run.id, CLAIMED, _C.owner == node_run.owner, _C.epoch == node_run.epoch
    )
    return _take(connection, statement, owner=owner)


def save(connection: Connection, node_run: NodeRun, *, releases: bool) -> None:
    """Write a node run whose epoch is still the given one, and what follows for its run.

    A cancel that a person asked for since the caller read, and a wake that came since it claimed,
    are not undone. Raises EpochLost, NotFound, and Conflict when the node is taken or it had ended.
    """
    before = connection.execute(_STATE, {"saved": node_run.id}).scalar()
    statement, values = _save_statement(node_run, releases=releases)
    takes = node_run.acts and node_run.state in HOLDING_STATES and before not in HOLDING_STATES
    try:
        written = _undoable(connection, statement, values) if takes else connection.execute(statement, values).rowcount
    except IntegrityError as error:
        raise node_taken(connection, node_run) from error
    if not written:
        raise _lost(connection, node_run)
    if before is not node_run.state:
        refresh_run(connection, node_run.run_id)


def request_cancel(connection: Connection, node_run_id: str, *, by: str, reason: str) -> None:
    """Note who wants it to end. It needs no claim, since `save` never takes it back; the first one counts."""
    statement = update(node_runs).where(_C.id == node_run_id, OPEN, _C.cancel_requested_by.is_(None))
    connection.execute(statement.values(cancel_requested_by=by, cancel_reason=reason))


def wake(connection: Connection, node_run_ids: Sequence[str], *, at: datetime) -> None:
    """Make open node runs due. It needs no claim: one that is claimed is due again when it is released."""
    claimed = _C.owner.is_not(None)
    moment = literal(at, UtcTime())
    woken = case((_C.woken_at <= at, _C.woken_at), else_=moment)
    connection.execute(
        update(node_runs)
        .where(_C.id.in_(node_run_ids), OPEN)
        .values(wake_at=case((claimed, _C.wake_at), else_=moment), woken_at=case((claimed, woken), else_=None))
    )


def refresh_run(connection: Connection, run_id: str) -> None:
    """Write the state of a run anew from those of its node runs."""
    states = connection.execute(select(_C.state).where(_C.run_id == run_id).distinct()).scalars()
    connection.execute(update(runs).where(runs.c.id == run_id).values(state=run_state(states)))


def node_taken(connection: Connection, node_run: NodeRun) -> Conflict:
    """Return the refusal that names the node and who has it."""
    row = connection.execute(select(node_runs).where(HOLDING, _C.node == node_run.node)).first()
    if row is None:
        return Conflict(f"Node {node_run.node} was taken by another run.", "`unstick nodes` tells which run has it.")
    return Conflict(
        f"Node {node_run.node} is taken by node run {row.id} of run {row.run_id} ({row.runbook}, {row.state}).",
        f"Wait for it, or look at it: unstick show {row.run_id}",
    )


def _take(connection: Connection, statement: Update, *, owner: str) -> NodeRun | None:
    # A wake that came before is seen by whoever claims now: he reads the history afterwards.
    statement = statement.values(owner=owner, epoch=_C.epoch + 1, woken_at=None)
    row = connection.execute(statement.returning(*_C)).mappings().first()
    return None if row is None else rows.from_row(NodeRun, row)


def _save_statement(node_run: NodeRun, *, releases: bool) -> tuple[Update, dict[str, Any]]:
    values: dict[str, Any] = {name: value for name, value in rows.to_row(node_run).items() if name not in _FIXED}
    if node_run.cancel_requested_by is None:
        del values["cancel_requested_by"], values["cancel_reason"]
    values |= {"saved": node_run.id, "saved_epoch": node_run.epoch, "saved_state": node_run.state}
    if not releases:
        return _SAVE, values
    values |= {"owner": None, "woken_at": None}
    if node_run.state.ended:
        return _SAVE, values
    del values["wake_at"]
    return _SAVE.values(wake_at=_earlier(node_run.wake_at)), values


def _earlier(wake_at: datetime | None) -> Any:
    if wake_at is None:
        return _C.woken_at
    return case((_C.woken_at <= wake_at, _C.woken_at), else_=literal(wake_at, UtcTime()))


def _undoable(connection: Connection, statement: Update, values: Mapping[str, Any]) -> int:
    with connection.begin_nested():
        return connection.execute(statement, values).rowcount


def _lost(connection: Connection, node_run: NodeRun) -> Conflict | NotFound:
    row = connection.execute(select(_C.state, _C.epoch, _C.owner).where(_C.id == node_run.id)).first()
    if row is None:
        return missing("node run", node_run.id)
    if row.epoch != node_run.epoch:
        who = row.owner or "somebody"
        return EpochLost(
            f"Node run {node_run.id} was taken by {who} (epoch {row.epoch}, not {node_run.epoch}).",
            "Nothing was written; read it again.",
        )
    return Conflict(f"Node run {node_run.id} has ended as {row.state}.", "An end is final; make a new run.")
