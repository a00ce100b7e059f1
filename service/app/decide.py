"""Answer a gate: one decision, by somebody who may, on exactly what was shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from service.app.driven import SELF
from service.app.insist import insist
from service.app.load_runbooks import parse_runbook
from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.errors import Conflict, Forbidden, InvalidInput, RunbookInvalid
from service.domain.person import Permission, Person
from service.domain.person_name import is_among
from service.domain.rights import About
from service.domain.run import Gate, GateState, Resolution, Run, retried_by
from service.domain.runbook import ApprovalKind
from service.domain.shown_text import is_blank, shown_moment


@dataclass(frozen=True)
class Decision:
    """A person's answer to one gate."""

    gate_id: str
    #: The gate digest that the person saw.
    digest: str
    approve: bool
    reason: str = ""


def decide(service: Service, decision: Decision, *, person: Person) -> Gate:
    """Write down an answer and let the node run go on.

    Raises Forbidden for who may not answer, Conflict when the gate is no longer open, has expired
    or shows something else than the digest says, InvalidInput where a reason is missing, NotFound.
    """

    def record(transaction: Transaction) -> Gate:
        gate = transaction.gate(decision.gate_id)
        run = transaction.run(gate.run_id)
        pools = transaction.planned_pools([gate.node_run_id])[gate.node_run_id]
        check_may_answer(service, gate, run=run, pools=pools, person=person)
        insist_not_retried(gate, transaction.history(gate.node_run_id).resolutions, person=person)
        state = GateState.APPROVED if decision.approve else GateState.DENIED
        answered = replace(gate, state=state, decided_by=person.name, reason=decision.reason)
        return record_answer(service, transaction, gate=gate, answered=answered, digest=decision.digest)

    gate = service.store.write(record)
    service.wake_engine()
    refuse_late(gate)
    return gate


def check_may_answer(service: Service, gate: Gate, *, run: Run, pools: frozenset[str], person: Person) -> None:
    """Raise Forbidden when this person may not answer this gate; `pools` are those that were planned for its node."""
    about = About(run.runbook, pools, gate.node, run.id, frozenset(run.requesters))
    match gate.kind:
        case ApprovalKind.CONFIRM:
            insist(service, person, Permission.DECIDE, about=about)
        case ApprovalKind.SECOND_PERSON | ApprovalKind.NONE:
            insist(service, person, Permission.APPROVE, about=about)
        case _:
            assert_never(gate.kind)


def insist_not_retried(gate: Gate, resolutions: Iterable[Resolution], *, person: Person) -> None:
    """Raise Forbidden for who had a step begun anew: he asks for what it does as whoever requested the run.

    `resolutions` are those of the gate's node run.
    """
    if gate.kind is not ApprovalKind.CONFIRM and is_among(person.name, retried_by(resolutions)):
        raise Forbidden(
            f"{person.name} resolved this run as retry and may not answer the gate that it led to.",
            "It needs an approver who neither requested the run nor had it go on.",
        )


def record_answer(service: Service, transaction: Transaction, *, gate: Gate, answered: Gate, digest: str) -> Gate:
    """Write down an answer to an open gate, on what the person saw, and return the gate.

    One whose time has come is closed as expired, and returned so: for good, also where a clock is set back.
    Raises Conflict, or InvalidInput where a reason is missing.
    """
    now = service.clock.now()
    if gate.state is GateState.OPEN and now >= gate.expires_at:
        why = "Nobody answered in time; nothing was run."
        answered = replace(gate, state=GateState.EXPIRED, reason=why)
        _write(transaction, answered, body={"gate": gate.id, "digest": gate.digest, "reason": why})
    else:
        _check_open(gate)
        _check_digest(gate, digest)
        _check_reason(transaction, answered)
        body = {"gate": gate.id, "digest": gate.digest, "kind": gate.kind, "reason": answered.reason}
        answered = replace(answered, decided_at=now)
        _write(transaction, answered, body=body)
    transaction.wake([gate.node_run_id], at=now)
    return answered


def refuse_late(gate: Gate) -> None:
    """Raise Conflict for an answer that came too late."""
    if gate.state is GateState.EXPIRED:
        raise _expired(gate)


def needs_reason(reader: Reader, gate: Gate) -> bool:
    """Whether who approves a gate must say why, by the runbook as it was planned; also where that cannot be read."""
    source = reader.runbook_source(gate.run_id)
    try:
        return parse_runbook(source, f"{source.name}.yaml").step(gate.step).needs_reason
    except (RunbookInvalid, KeyError):
        return True


def _check_open(gate: Gate) -> None:
    if gate.state is GateState.OPEN:
        return
    refuse_late(gate)
    who = f" by {gate.decided_by}" if gate.decided_by else ""
    why = (gate.reason or "it is no longer open").removesuffix(".")
    raise Conflict(f"The gate is {gate.state}{who}: {why}.", f"Look at the run: unstick show {gate.run_id}")


def _expired(gate: Gate) -> Conflict:
    moment = shown_moment(gate.expires_at)
    return Conflict(f"The gate expired at {moment}; nothing was run.", f"Ask again: unstick retry {gate.run_id}")


def _check_digest(gate: Gate, digest: str) -> None:
    if digest != gate.digest:
        raise Conflict(
            "The digest is not that of this gate: what you saw is not what would run.",
            f"Look at the gate again; its digest is {gate.digest}.",
        )


def _check_reason(reader: Reader, answered: Gate) -> None:
    if not is_blank(answered.reason):
        return
    if answered.state is GateState.DENIED:
        raise InvalidInput("A denial needs a reason.", "Say why, for the next person who looks.")
    if answered.state is GateState.OVERRIDDEN:
        raise InvalidInput("An override needs a reason.", "Say why nobody could be asked.")
    if needs_reason(reader, answered):
        raise InvalidInput(f"Step {answered.step} asks for a reason.", "Say why it may act, for the next who looks.")


def _write(transaction: Transaction, gate: Gate, *, body: Mapping[str, object]) -> None:
    transaction.save_gate(gate)
    person = gate.decided_by or SELF
    about = f"gate/{gate.id}"
    fact = Fact(f"gate.{gate.state}", about, person, run_id=gate.run_id, node=gate.node, step=gate.step, body=body)
    transaction.append(fact)
