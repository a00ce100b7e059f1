"""Compares the rows of runs, node runs and gates with the events, one run after the other, in bounded memory."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Engine, RowMapping, Text, exists, select, type_coerce

from service.domain.agreement import TELLING, Compared, Row, RowFault, Tale
from service.store import rows
from service.store.audit import storable_json
from service.store.columns import RecordedTime
from service.store.tables import audit_events, gates, node_runs, runs

_PIECE: Final = 500
# As they stand there: a word that somebody wrote by hand may be none of ours, and must be told and not stumbled over.
_RUN_FROM = ("retry_of", "escalated_from", "from_step")
_RUN_WORDS = ("id", "runbook", "digest", "requested_by", "reason", "trigger_kind", "trigger_name", "state", *_RUN_FROM)
_RUN_JSON = ("requesters", "params", "waived")
_NODE_RUN_WORDS = ("id", "node", "state", "verdict", "reason")
_GATE_WORDS = ("id", "kind", "state", "digest", "boot_id", "node", "step", "decided_by", "reason", "check_attempt_id")


def faults(engine: Engine, compared: Compared) -> Iterator[RowFault]:
    """Yield each row that does not say what the events say, and count what was compared.

    Each run is read in a transaction of its own, so that a service beside it is in nobody's way.
    """
    yield from _lost(engine)
    after = ""
    while True:
        with engine.connect() as connection:
            query = select(runs.c.id).where(runs.c.id > after).order_by(runs.c.id).limit(_PIECE)
            ids = connection.execute(query).scalars().all()
        for run_id in ids:
            with engine.connect() as connection, connection.begin():
                yield from _of_run(connection, run_id, compared)
        if len(ids) < _PIECE:
            return
        after = ids[-1]


def _lost(engine: Engine) -> Iterator[RowFault]:
    """Yield the runs of which an event tells and no row is left."""
    c = audit_events.c
    query = select(c.run_id, c.seq).where(c.action == "run.requested", ~exists().where(runs.c.id == c.run_id))
    with engine.connect() as connection:
        for row in connection.execution_options(yield_per=_PIECE).execute(query):
            yield RowFault(row.run_id, f"run/{row.run_id}", f"the row is gone, and seq {row.seq} tells of it")


def _of_run(connection: Connection, run_id: str, compared: Compared) -> Iterator[RowFault]:
    tale = Tale(run_id)
    for row in _events(connection, run_id):
        event = rows.event_of(row)
        tale.hear(replace(event, fact=replace(event.fact, body=storable_json(event.fact.body))))
    c = node_runs.c
    query = select(*_texts(node_runs, _NODE_RUN_WORDS), _text(c.results)).where(c.run_id == run_id)
    parts = [_node_run(row) for row in connection.execute(query.order_by(c.position, c.id)).mappings()]
    query = select(*_texts(gates, _GATE_WORDS), _text(gates.c.targets), _expires).where(gates.c.run_id == run_id)
    stops = [_gate(row) for row in connection.execute(query).mappings()]
    query = select(*_texts(runs, (*_RUN_WORDS, *_RUN_JSON)), runs.c.dry_run).where(runs.c.id == run_id)
    yield from tale.faults(_run(connection.execute(query).mappings().one()), parts, stops)
    compared.runs += 1
    compared.node_runs += len(parts)
    compared.gates += len(stops)
    compared.not_comparable += tale.not_comparable


def _events(connection: Connection, run_id: str) -> Iterator[RowMapping]:
    c, seq = audit_events.c, 0
    query = select(audit_events).where(c.run_id == run_id, c.action.in_(TELLING)).order_by(c.seq).limit(_PIECE)
    while piece := connection.execute(query.where(c.seq > seq)).mappings().all():
        yield from piece
        seq = piece[-1]["seq"]


def _run(row: RowMapping) -> Row:
    words = {name: row[name] for name in _RUN_WORDS if name != "id"} | {"dry_run": row["dry_run"]}
    return _row("run", row["id"], words | {name: _parsed(row[name]) for name in _RUN_JSON})


def _node_run(row: RowMapping) -> Row:
    words = {name: row[name] for name in _NODE_RUN_WORDS if name != "id"}
    return _row("node_run", row["id"], words | {"steps": _steps(_parsed(row["results"]))})


def _gate(row: RowMapping) -> Row:
    words = {name: row[name] for name in _GATE_WORDS if name not in ("id", "decided_by")}
    words |= {"answered_by": row["decided_by"], "targets": _parsed(row["targets"])}
    expires: datetime = row["expires_at"]
    return _row("gate", row["id"], words | {"expires_at": expires.astimezone(UTC).isoformat()})


def _row(noun: str, key: str, words: Mapping[str, Any]) -> Row:
    return Row(f"{noun}/{key}", storable_json(words))


def _parsed(text: str) -> Any:
    """Return JSON as it was before it was a column, or the text itself, which is then no event's."""
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text


def _steps(results: Any) -> Any:
    """Return the outcomes of steps as the end of a node run is told: `{step: {outcome, verdict}}`."""
    try:
        return {step: {"outcome": outcome, "verdict": verdict} for step, outcome, _, verdict, _ in results}
    except (ValueError, TypeError):
        return results


def _texts(table: Any, names: tuple[str, ...]) -> list[Any]:
    return [_text(table.c[name]) for name in names]


def _text(column: Any) -> Any:
    return type_coerce(column, Text).label(column.name)


_expires = type_coerce(gates.c.expires_at, RecordedTime()).label("expires_at")
