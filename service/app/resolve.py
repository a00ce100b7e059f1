"""Resolve a stuck node run: a person says how it goes on, always with a reason."""

from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.person import Person
from service.domain.run import NodeRun, NodeRunState, Resolution, ResolveAs


def resolve(service: Service, run_id: str, *, node: str, resolve_as: ResolveAs, reason: str, person: Person) -> NodeRun:
    """Write down the resolution and let the node run go on; no gate is passed by it.

    Raises Conflict when the node run is not stuck, InvalidInput without a reason, NotFound.
    """
    if not reason.strip():
        raise InvalidInput("A resolution needs a reason.", "Say what you saw on the node.")

    def record(transaction: Transaction) -> NodeRun:
        node_run = find_node_run(transaction, run_id, node=node)
        if node_run.state is not NodeRunState.STUCK:
            raise Conflict(
                f"Node {node} of run {run_id} is {node_run.state}, not stuck.", "There is nothing to resolve."
            )
        history = transaction.history(node_run.id)
        now = service.clock.now()
        last = max((attempt.number for attempt in history.attempts), default=0)
        resolution = Resolution(service.clock.new_id(), node_run.id, resolve_as, person.name, reason, now, last)
        transaction.add_resolution(resolution)
        body = {"as": resolve_as, "reason": reason, "after_attempt": last}
        about = f"node_run/{node_run.id}"
        transaction.append(Fact("node_run.resolved", about, person.name, run_id=run_id, node=node, body=body))
        transaction.wake([node_run.id], at=now)
        return node_run

    node_run = service.store.write(record)
    service.wake_engine()
    return node_run


def find_node_run(reader: Reader, run_id: str, *, node: str) -> NodeRun:
    """Return the node run of a run on a node; NotFound."""
    reader.run(run_id)
    for node_run in reader.node_runs(run_id):
        if node_run.node == node:
            return node_run
    raise NotFound(f"Run {run_id} has no node {node}.", "`unstick show RUN` lists its nodes.")
