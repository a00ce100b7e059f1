"""Writes, in one piece: what a use case asks of the record."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import IntegrityError

from service.app.ports import Clock, RunbookSource
from service.domain.audit import Fact
from service.domain.errors import BrokenRule, Conflict, UnstickError
from service.domain.person import Token
from service.domain.plan import Plan, PlannedScript
from service.domain.run import HOLDING_STATES, Attempt, Gate, GateState, Hold, NodeRun, Resolution, Run
from service.domain.script import OutputChunk
from service.store import audit, node_run_writes, output, retention, rows, tables
from service.store.alert_transaction import AlertTransaction
from service.store.faults import missing, refusal
from service.store.notice_writes import NoticeWrites
from service.store.sign_in_writes import SignInTransaction
from service.store.sweep_transaction import SweepTransaction

# Ready, since every script needs them: to put one together costs more than SQLite needs to play it.
_ADD_ATTEMPT = insert(tables.attempts)
_SAVE_ATTEMPT = update(tables.attempts).where(tables.attempts.c.id == bindparam("saved"))

#: What an answered gate that lets run may still become; every other answer is final.
_WITHDRAWN = (GateState.VOID, GateState.EXPIRED)
_LETS_RUN = tuple(state for state in GateState if state.lets_run)


class SqlTransaction(AlertTransaction, NoticeWrites, SignInTransaction, SweepTransaction):
    """Reads and writes of one change. When a method raises Conflict, that method has changed nothing."""

    def __init__(self, connection: Connection, *, clock: Clock) -> None:
        """Write through this connection, in the savepoint that it has."""
        super().__init__(connection)
        self._clock = clock
        #: What will be appended to the chain when the write is committed.
        self.facts: list[Fact] = []

    def append(self, fact: Fact) -> None:
        """Append a fact to the audit; it gets its place in the chain at commit."""
        self.facts.append(audit.checked(fact))

    def add_run(self, run: Run, *, source: RunbookSource, plan: Plan, node_runs: Sequence[NodeRun]) -> None:
        """Add a run with its plan; Conflict when the idempotency key was used, or a node is taken."""
        if not node_runs:
            raise BrokenRule(f"Run {run.id} has no node.")
        try:
            with self._connection.begin_nested():
                self._insert_run(run, source=source, plan=plan, node_runs=node_runs)
        except IntegrityError as error:
            raise self._run_refused(run, node_runs, error=error) from error

    def claim(self, node_run_id: str, *, owner: str, now: datetime) -> NodeRun | None:
        """Take a due and unclaimed open node run, with epoch + 1; None when somebody was faster."""
        self._serialize_part(tables.node_runs, node_run_id)
        return node_run_writes.claim(self._connection, node_run_id, owner=owner, now=now)

    def take_from(self, node_run: NodeRun, *, owner: str) -> NodeRun | None:
        """Take the claim of an owner that is gone, with epoch + 1; None when it has changed hands."""
        self._serialize_run(node_run.run_id)
        return node_run_writes.take_from(self._connection, node_run, owner=owner)

    def save_node_run(self, node_run: NodeRun) -> None:
        """Write a node run whose epoch is still the given one; EpochLost.

        A cancel that was requested meanwhile stays. Raises Conflict when another acting node run
        has the node, or when this one had ended otherwise.
        """
        self._serialize_run(node_run.run_id)
        node_run_writes.save(self._connection, node_run, releases=False)

    def release(self, node_run: NodeRun) -> None:
        """Write a node run and give up its claim; EpochLost. A wake that came since the claim is minded."""
        self._serialize_run(node_run.run_id)
        node_run_writes.save(self._connection, node_run, releases=True)

    def add_attempt(self, attempt: Attempt) -> None:
        """Add an attempt."""
        self._connection.execute(_ADD_ATTEMPT, rows.to_row(attempt))

    def save_attempt(self, attempt: Attempt) -> None:
        """Write an attempt; NotFound."""
        if not self._connection.execute(_SAVE_ATTEMPT, rows.to_row(attempt) | {"saved": attempt.id}).rowcount:
            raise missing("attempt", attempt.id)

    def add_output(self, chunk: OutputChunk) -> None:
        """Keep some output; bytes that are there already are left as they are."""
        output.add(self._connection, chunk)

    def seal_output(self, attempt_id: str) -> str:
        """Turn the output of an ended attempt into one blob, stdout before stderr; return its SHA-256."""
        return output.seal(self._connection, attempt_id, at=self._clock.now())

    def drop_outputs(self, before: datetime, *, limit: int) -> int:
        """Drop the oldest outputs that were sealed before a time, say so in the audit, and return how many."""
        dropped = retention.drop_outputs(self._connection, before, limit=limit)
        if dropped:
            body = {"outputs": [list(one) for one in dropped], "sealed_before": before.isoformat()}
            self.append(Fact("output.dropped", "output", "unstick", body=body))
        return len(dropped)

    def drop_deliveries(self, before: datetime, *, limit: int) -> int:
        """Drop what came before a time, a held alert and one that has run excepted; return how many were touched."""
        dropped = retention.drop_deliveries(self._connection, before, limit=limit)
        if dropped.touched:
            body = {"deliveries": dropped.deliveries, "alerts": dropped.alerts, "received_before": before.isoformat()}
            self.append(Fact("delivery.dropped", "delivery", "unstick", body=body))
        return dropped.touched

    def add_gate(self, gate: Gate) -> None:
        """Add a gate."""
        self._connection.execute(insert(tables.gates), rows.to_row(gate))

    def save_gate(self, gate: Gate) -> None:
        """Write the answer of a gate that is open; Conflict when it was decided meanwhile.

        One that lets run may still become void or expired. What was asked never changes.
        """
        c = tables.gates.c
        may = c.state == GateState.OPEN
        if gate.state in _WITHDRAWN:
            may = or_(may, c.state.in_(_LETS_RUN))
        answer = {name: getattr(gate, name) for name in ("state", "decided_by", "decided_at", "reason")}
        statement = update(tables.gates).where(and_(c.id == gate.id, c.digest == gate.digest, may))
        if not self._connection.execute(statement.values(answer)).rowcount:
            found = self.gate(gate.id)
            who = f" by {found.decided_by}" if found.decided_by else ""
            raise Conflict(f"The gate {gate.id} is {found.state} already{who}.", "An answer counts once.")

    def add_resolution(self, resolution: Resolution) -> None:
        """Add what a person said of a stuck node run."""
        self._connection.execute(insert(tables.resolutions), rows.to_row(resolution))

    def put_hold(self, hold: Hold) -> None:
        """Hold a node, in place of an earlier hold."""
        self.remove_hold(hold.node)
        self._connection.execute(insert(tables.holds), rows.to_row(hold))

    def remove_hold(self, node: str) -> None:
        """Release a node."""
        self._serialize_name(f"node/{node}")
        self._connection.execute(delete(tables.holds).where(tables.holds.c.node == node))

    def request_cancel(self, node_run_id: str, *, by: str, reason: str) -> None:
        """Note that a person wants an open node run to end; needs no claim. The first one counts."""
        self._serialize_part(tables.node_runs, node_run_id)
        node_run_writes.request_cancel(self._connection, node_run_id, by=by, reason=reason)

    def wake(self, node_run_ids: Sequence[str], *, at: datetime) -> None:
        """Make open node runs due at a time, needs no claim; one that is claimed: when it is released."""
        if node_run_ids:
            self._serialize_parts(tables.node_runs, node_run_ids)
            node_run_writes.wake(self._connection, node_run_ids, at=at)

    def add_token(self, token: Token) -> None:
        """Add a token; Conflict when the name is taken."""
        try:
            with self._connection.begin_nested():
                self._connection.execute(insert(tables.tokens), rows.token_row(token))
        except IntegrityError as error:
            raise Conflict(f"There is a token {token.name} already.", "Choose another name.") from error

    def save_token(self, token: Token) -> None:
        """Write a token; NotFound."""
        statement = update(tables.tokens).where(tables.tokens.c.id == token.id)
        if not self._connection.execute(statement.values(rows.token_row(token))).rowcount:
            raise missing("token", token.name)

    def _insert_run(self, run: Run, *, source: RunbookSource, plan: Plan, node_runs: Sequence[NodeRun]) -> None:
        text = rows.source_row(source)
        insert_once = postgres_insert if self._shared else sqlite_insert
        self._connection.execute(insert_once(tables.runbook_sources).values(text).on_conflict_do_nothing())
        row = rows.run_row(run, node_runs, source_sha256=text["sha256"], plan=plan)
        self._connection.execute(insert(tables.runs), row)
        packed = _pack(run.id, plan)
        if packed:
            self._connection.execute(insert(tables.planned_scripts), packed)
        added = [rows.to_row(node_run) | {"run_created_at": run.created_at} for node_run in node_runs]
        self._connection.execute(insert(tables.node_runs), added)

    def _run_refused(self, run: Run, node_runs: Sequence[NodeRun], *, error: IntegrityError) -> UnstickError:
        """Say why a run was refused; the statement that failed is undone by now."""
        if run.idempotency_key is not None:
            earlier = self.run_by_key(run.requested_by, run.idempotency_key)
            if earlier is not None:
                return Conflict(
                    f"{run.requested_by} used this idempotency key for run {earlier.id}.",
                    f"Look at it: unstick show {earlier.id}",
                )
        for node_run in node_runs:
            takes = node_run.acts and node_run.state in HOLDING_STATES
            if takes and super().holder(node_run.node) is not None:
                return node_run_writes.node_taken(self._connection, node_run)
        return refusal(error)


def _pack(run_id: str, plan: Plan) -> list[dict[str, object]]:
    by_node: dict[str, list[PlannedScript]] = {}
    for script in plan.scripts:
        by_node.setdefault(script.node, []).append(script)
    packer = rows.ScriptPacker(plan.runbook.prelude)
    return [{"run_id": run_id, "node": node, "scripts": packer.pack(of)} for node, of in by_node.items()]
