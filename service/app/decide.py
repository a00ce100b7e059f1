"""Answer a gate: one decision, by somebody who may, on exactly what was shown."""

from dataclasses import dataclass, replace
from typing import assert_never

from service.app.insist import insist
from service.app.ports import Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.errors import Conflict, InvalidInput
from service.domain.person import Permission, Person
from service.domain.rights import About
from service.domain.run import Gate, GateState, Run
from service.domain.runbook import ApprovalKind
from service.domain.shown_text import shown_moment


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
    or shows something else than the digest says, NotFound.
    """

    def record(transaction: Transaction) -> Gate:
        gate = transaction.gate(decision.gate_id)
        run = transaction.run(gate.run_id)
        pools = transaction.planned_pools([gate.node_run_id])[gate.node_run_id]
        check_may_answer(service, gate, run=run, pools=pools, person=person)
        _check_open(gate, service=service)
        if decision.digest != gate.digest:
            raise Conflict(
                "The digest is not that of this gate: what you saw is not what would run.",
                f"Look at the gate again; its digest is {gate.digest}.",
            )
        if not decision.approve and not decision.reason.strip():
            raise InvalidInput("A denial needs a reason.", "Say why, for the next person who looks.")
        return _answer(transaction, gate, decision=decision, person=person, service=service)

    gate = service.store.write(record)
    service.wake_engine()
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


def _check_open(gate: Gate, *, service: Service) -> None:
    if gate.state is GateState.OPEN and service.clock.now() < gate.expires_at:
        return
    if gate.state in (GateState.OPEN, GateState.EXPIRED):
        raise Conflict(f"The gate expired at {shown_moment(gate.expires_at)}; nothing was run.", _again(gate))
    who = f" by {gate.decided_by}" if gate.decided_by else ""
    why = (gate.reason or "it is no longer open").removesuffix(".")
    raise Conflict(f"The gate is {gate.state}{who}: {why}.", f"Look at the run: unstick show {gate.run_id}")


def _again(gate: Gate) -> str:
    return f"Ask again: unstick retry {gate.run_id}"


def _answer(transaction: Transaction, gate: Gate, *, decision: Decision, person: Person, service: Service) -> Gate:
    now = service.clock.now()
    state = GateState.APPROVED if decision.approve else GateState.DENIED
    answered = replace(gate, state=state, decided_by=person.name, decided_at=now, reason=decision.reason)
    transaction.save_gate(answered)
    body = {"gate": gate.id, "digest": gate.digest, "kind": gate.kind, "reason": decision.reason}
    fact = Fact(
        f"gate.{state}", f"gate/{gate.id}", person.name, run_id=gate.run_id, node=gate.node, step=gate.step, body=body
    )
    transaction.append(fact)
    transaction.wake([gate.node_run_id], at=now)
    return answered
