"""Break glass: let a gate through that nobody has approved, where the policy allows it, and have everybody told.

It is no approval, and is never recorded as one. Who requested the run may do it too: that is what it is for.
"""

from dataclasses import dataclass, replace

from service.app.decide import record_answer, refuse_late
from service.app.insist import about_node_run, insist
from service.app.ports import Transaction
from service.app.service import Service
from service.domain.errors import ConfigInvalid, Forbidden
from service.domain.person import Permission, Person
from service.domain.run import Gate, GateState, NodeRun


@dataclass(frozen=True)
class Override:
    """A person's word that a gate is to be passed without its approval."""

    gate_id: str
    #: The gate digest that the person saw.
    digest: str
    reason: str


def override(service: Service, wanted: Override, *, person: Person) -> Gate:
    """Let an open gate through without its approval, and let the node run go on.

    Raises Forbidden where the policy does not allow it or who lacks the role, Conflict when the gate is no longer
    open, has expired or shows something else than the digest says, InvalidInput without a reason, NotFound.
    """

    def record(transaction: Transaction) -> Gate:
        gate = transaction.gate(wanted.gate_id)
        check_may_override(service, transaction.node_run(gate.node_run_id), person=person)
        answered = replace(gate, state=GateState.OVERRIDDEN, decided_by=person.name, reason=wanted.reason)
        return record_answer(service, transaction, gate=gate, answered=answered, digest=wanted.digest)

    gate = service.store.write(record)
    service.wake_engine()
    refuse_late(gate)
    return gate


def check_may_override(service: Service, node_run: NodeRun, *, person: Person) -> None:
    """Raise Forbidden when this person may not override a gate of this node run."""
    try:
        insist(service, person, Permission.OVERRIDE, about=about_node_run(node_run))
    except ConfigInvalid as wrong:
        reason = f"Whether a gate may be overridden here is not known: {wrong.reason}"
        raise Forbidden(reason, wrong.way_out) from wrong
