"""Cancel a run: nothing new is sent, and what runs is stopped on the node, honestly."""

from dataclasses import dataclass

from service.app.insist import insist_on_nodes
from service.app.ports import Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.errors import Conflict
from service.domain.person import Permission, Person
from service.domain.run import NodeRunState


@dataclass(frozen=True)
class Cancelled:
    """What a cancel has reached."""

    #: Nodes on which nothing more will be sent; a script under way is being stopped.
    requested: tuple[str, ...]
    #: Nodes whose outcome is unknown: they need `resolve`.
    stuck: tuple[str, ...]


def cancel_run(service: Service, run_id: str, *, person: Person, reason: str = "") -> Cancelled:
    """Ask every open node run of a run to end; the remote command may still be running until told.

    Raises NotFound, Forbidden when he may not on one of its nodes, and Conflict when the run has ended already.
    """

    def record(transaction: Transaction) -> Cancelled:
        transaction.run(run_id)
        node_runs = transaction.node_runs(run_id)
        insist_on_nodes(service, person, Permission.CANCEL, node_runs=node_runs)
        still_open = [one for one in node_runs if not one.state.ended]
        if not still_open:
            raise Conflict(f"Run {run_id} has ended; a terminal state does not change.", "`unstick show` tells how.")
        stuck = tuple(one.node for one in still_open if one.state is NodeRunState.STUCK)
        reached = [one for one in still_open if one.state is not NodeRunState.STUCK]
        for node_run in reached:
            transaction.request_cancel(node_run.id, by=person.name, reason=reason or f"cancelled by {person.name}")
        transaction.wake([one.id for one in reached], at=service.clock.now())
        body = {"nodes": [one.node for one in reached], "stuck": list(stuck), "reason": reason}
        transaction.append(Fact("run.cancel_requested", f"run/{run_id}", person.name, run_id=run_id, body=body))
        return Cancelled(tuple(one.node for one in reached), stuck)

    cancelled = service.store.write(record)
    service.wake_engine()
    return cancelled
