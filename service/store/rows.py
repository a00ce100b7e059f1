"""Values of the domain to rows and back. Columns are named as the fields are, so most of it is one loop."""

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import RowMapping

from service.app.ports import RUN_HEAD_NODES, RunbookSource
from service.domain.audit import AuditEvent, Fact
from service.domain.delivery import Breaker, Delivery, RecordedAlert
from service.domain.person import Role, Token
from service.domain.plan import Plan, PlannedScript
from service.domain.reach import Reach
from service.domain.run import Attempt, Gate, Hold, NodeRun, Resolution, Run, Trigger, run_state
from service.domain.script import ScriptKind

Value = TypeVar("Value", Attempt, Breaker, Delivery, Gate, Hold, NodeRun, RecordedAlert, Resolution)

_KINDS: tuple[type, ...] = (Attempt, Breaker, Delivery, Gate, Hold, NodeRun, RecordedAlert, Resolution)
_FIELDS = {kind: tuple(f.name for f in fields(kind)) for kind in _KINDS}
_RUN_FIELDS = tuple(f.name for f in fields(Run) if f.name != "trigger")
#: The fields of a fact that are text.
FACT_WORDS = tuple(f.name for f in fields(Fact) if f.name != "body")
#: So many characters of a prelude tell it from other shell, nearly always.
_BEGINNING = 64


def to_row(value: Value) -> dict[str, Any]:
    """Return the columns of a value whose fields are all columns."""
    return {name: getattr(value, name) for name in _FIELDS[type(value)]}


def from_row(kind: type[Value], row: RowMapping) -> Value:
    """Return the value of a row; columns that are no fields are left out."""
    return kind(**{name: row[name] for name in _FIELDS[kind]})


def run_row(run: Run, node_runs: Sequence[NodeRun], *, source_sha256: str, plan: Plan) -> dict[str, Any]:
    """Return the columns of a run, with what a list shows of its node runs."""
    nodes = [node_run.node for node_run in sorted(node_runs, key=lambda node_run: (node_run.position, node_run.id))]
    row = {name: getattr(run, name) for name in _RUN_FIELDS}
    return row | {
        "trigger_kind": run.trigger.kind,
        "trigger_name": run.trigger.name,
        "state": run_state(node_run.state for node_run in node_runs),
        "first_nodes": tuple(nodes[:RUN_HEAD_NODES]),
        "more_nodes": len(nodes) > RUN_HEAD_NODES,
        "source_sha256": source_sha256,
        "envelope_sha256": plan.envelope_sha256,
        "controllers": {name: dict(environment) for name, environment in plan.controllers.items()},
    }


def run_of(row: RowMapping) -> Run:
    """Return the run of a row."""
    trigger = Trigger(row["trigger_kind"], row["trigger_name"])
    return Run(trigger=trigger, **{name: row[name] for name in _RUN_FIELDS})


def source_row(source: RunbookSource) -> dict[str, str]:
    """Return the columns of a runbook's text; its key is the SHA-256 over all of them."""
    parts = json.dumps([source.name, source.text, source.prelude, source.revision])
    return {
        "sha256": hashlib.sha256(parts.encode()).hexdigest(),
        "name": source.name,
        "text": source.text,
        "prelude": source.prelude,
        "revision": source.revision,
    }


class ScriptPacker:
    """Packs scripts, those of one node at a time, with the prelude that they share in them once.

    The prelude is most of it and the same for all nodes of a run, so it is compressed once.
    """

    def __init__(self, prelude: str) -> None:
        """Begin with the prelude of a runbook."""
        self._shared = prelude.rstrip("\n")
        self._begun = zlib.compressobj()
        self._beginning = self._begun.compress(f"[{json.dumps(self._shared)},".encode())

    def pack(self, scripts: Iterable[PlannedScript]) -> bytes:
        """Return the scripts of one node, compressed."""
        rows = [[s.node, s.step, s.kind.value, s.machine, _parts(s.text, self._shared), s.sha256] for s in scripts]
        rest = self._begun.copy()
        return self._beginning + rest.compress(f"{json.dumps(rows, separators=(',', ':'))}]".encode()) + rest.flush()


def unpack_scripts(packed: bytes) -> tuple[PlannedScript, ...]:
    """Return what a `ScriptPacker` was given."""
    shared, rows = json.loads(zlib.decompress(packed))
    return tuple(
        PlannedScript(node, step, ScriptKind(kind), machine, shared.join(parts), digest)
        for node, step, kind, machine, parts, digest in rows
    )


def _parts(text: str, shared: str) -> list[str]:
    """Return what stands before and behind the first `shared`, or the whole text."""
    # To search for its beginning is much cheaper than to search for all of it, which is long.
    beginning = shared[:_BEGINNING]
    at = text.find(beginning) if shared else -1
    while at >= 0 and not text.startswith(shared, at):
        at = text.find(beginning, at + 1)
    return [text[:at], text[at + len(shared) :]] if at >= 0 else [text]


def token_row(token: Token) -> dict[str, Any]:
    """Return the columns of a token."""
    row = {f.name: getattr(token, f.name) for f in fields(Token) if f.name != "reach"}
    return row | {
        "roles": tuple(sorted(role.value for role in token.roles)),
        "runbooks": token.reach.runbooks,
        "pools": token.reach.pools,
    }


def token_of(row: RowMapping) -> Token:
    """Return the token of a row."""
    values = {f.name: row[f.name] for f in fields(Token) if f.name != "reach"}
    reach = Reach(tuple(row["runbooks"]), tuple(row["pools"]))
    return Token(**values | {"roles": frozenset(Role(role) for role in row["roles"]), "reach": reach})


def event_row(event: AuditEvent) -> dict[str, Any]:
    """Return the columns of an audit event."""
    row = {name: getattr(event.fact, name) for name in FACT_WORDS}
    return row | {
        "seq": event.seq,
        "at": event.at,
        "body": event.body,
        "body_sha256": event.body_sha256,
        "previous_hash": event.previous_hash,
        "hash": event.hash,
    }


def event_of(row: RowMapping) -> AuditEvent:
    """Return the event of a row, whatever was done to the row: the chain is judged later, by its hashes."""
    body = _text(row["body"])
    fact = Fact(body=_parsed(body), **{name: _text(row[name]) for name in FACT_WORDS})
    hashes = (_text(row[name]) for name in ("body_sha256", "previous_hash", "hash"))
    return AuditEvent(row["seq"], row["at"], fact, body, *hashes)


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _parsed(body: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
