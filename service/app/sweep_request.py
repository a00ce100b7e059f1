"""Make the run of a sweep: on its time, or at a person's word."""

from dataclasses import replace
from datetime import datetime

from service.app.insist import insist_on_nodes
from service.app.ports import Reader, Transaction
from service.app.request_run import Prepared, RunRequest, add, prepare
from service.app.service import Service
from service.app.sweep_places import free_places
from service.domain.audit import Fact
from service.domain.errors import Conflict, NotFound
from service.domain.person import Permission, Person
from service.domain.run import UNSETTLED_AFTER, NodeRunState, Run, Trigger, TriggerKind
from service.domain.sweep import Sweep, applies, first_state


def run_sweep(service: Service, name: str, *, person: Person, reason: str = "") -> Run:
    """Play a sweep now, beside its schedule; its alerts count as delivered by this person.

    Raises Forbidden, NotFound, and Conflict while its last run is open, or when no node is to be looked at.
    """
    sweep = next((one for one in service.rules.current().sweeps if one.name == name), None)
    if sweep is None:
        raise NotFound(f"There is no sweep {name}.", "`unstick sweeps` (GET /api/v1/sweeps) lists them.")
    prepared = plan_sweep(service, sweep, requested_by=person.name, reason=reason or f"Sweep {name}, now.")

    def record(transaction: Transaction) -> Run:
        transaction.lock_sweeps()
        insist_on_nodes(service, person, Permission.REQUEST, node_runs=prepared.node_runs)
        now = service.clock.now()
        earlier = still_looking(transaction, sweep, now=now)
        if earlier is not None:
            raise Conflict(f"Run {earlier.id} of this sweep has not ended.", f"Look at it: unstick show {earlier.id}")
        state = transaction.sweep_state(name) or first_state(sweep, now)
        begin(transaction, prepared, sweep=sweep)
        transaction.put_sweep(replace(state, last_run_id=prepared.run.id, last_at=now))
        body = {"nodes": len(prepared.node_runs), "planned_at": None, "missed": 0}
        about = f"sweep/{name}"
        transaction.append(Fact("sweep.started", about, person.name, run_id=prepared.run.id, body=body))
        return prepared.run

    run = service.store.write(record)
    service.wake_engine()
    return run


def plan_sweep(service: Service, sweep: Sweep, *, requested_by: str, reason: str) -> Prepared:
    """Plan a dry run on every node that is meant, that the runbook fits, and that is known at this moment.

    Raises Conflict when that is none, and whatever refuses a run.
    """
    runbook, _source = service.runbooks.get(sweep.runbook)
    inventory, now = service.inventory.current(), service.clock.now()
    names = sorted(
        node.name
        for node in inventory.nodes.values()
        if sweep.covers(node) and applies(runbook, node, inventory=inventory) and not inventory.is_stale(node, now)
    )
    if not names:
        raise Conflict(
            f"The sweep {sweep.name} finds no node that {sweep.runbook} fits.",
            "`unstick nodes` lists the nodes with their pools and attributes.",
        )
    request = RunRequest(
        sweep.runbook,
        requested_by,
        nodes=tuple(names),
        params=sweep.params,
        dry_run=True,
        reason=reason,
        trigger=Trigger(TriggerKind.SWEEP, sweep.name),
    )
    return prepare(service, request)


def begin(transaction: Transaction, prepared: Prepared, *, sweep: Sweep) -> None:
    """Add the run of a sweep; those of its node runs that have no place yet sleep."""
    places = min(sweep.nodes_at_once, free_places(transaction))
    node_runs = tuple(one if one.position < places else replace(one, wake_at=None) for one in prepared.node_runs)
    add(transaction, replace(prepared, node_runs=node_runs))


def still_looking(reader: Reader, sweep: Sweep, *, now: datetime) -> Run | None:
    """Return the open run of a sweep that another one would only stand beside.

    One that waits for a person, or that has not ended long after it had to, keeps no other from looking.
    """
    for run in reader.open_sweep_runs():
        if run.trigger.name != sweep.name or now >= run.created_at + sweep.ends_within + UNSETTLED_AFTER:
            continue
        if reader.states(run.id) & {NodeRunState.QUEUED, NodeRunState.RUNNING, NodeRunState.WAITING}:
            return run
    return None
