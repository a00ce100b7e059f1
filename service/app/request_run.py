"""Request a run: what a person asks for enters here, and is planned as what an alert or an escalation starts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from service.app.insist import about_node_run, insist, insist_on_nodes
from service.app.ports import Reader, RunbookSource, Transaction
from service.app.service import Service
from service.domain.audit import Fact
from service.domain.errors import BrokenRule, Conflict, InvalidInput
from service.domain.node import Inventory, Node
from service.domain.person import Permission, Person
from service.domain.plan import Plan, check_params, make_plan
from service.domain.run import NodeRun, NodeRunState, Run, Trigger, TriggerKind
from service.domain.runbook import Runbook

MOST_NODES = 5000
#: More pools, attributes or values are not listed where a selector finds nothing.
_MOST_SHOWN = 10


@dataclass(frozen=True)
class Selector:
    """Which nodes, by what they are."""

    pool: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRequest:
    """What somebody wants to have done."""

    runbook: str
    requested_by: str
    nodes: tuple[str, ...] = ()
    selector: Selector | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    dry_run: bool = False
    reason: str = ""
    idempotency_key: str | None = None
    #: End a node run that only waits, and take its node.
    take_over: bool = False
    waived: tuple[str, ...] = ()
    trigger: Trigger = field(default_factory=lambda: Trigger(TriggerKind.PERSON))
    #: Others who count as requester at a second-person gate.
    also_requested_by: tuple[str, ...] = ()
    retry_of: str | None = None
    from_step: str | None = None
    escalated_from: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A request that was understood, planned, and not yet recorded."""

    run: Run
    plan: Plan
    source: RunbookSource
    node_runs: tuple[NodeRun, ...]


def request_run(service: Service, request: RunRequest, *, person: Person) -> Run:
    """Record a run that a person asks for, so that the engine plays it; the same idempotency key gives the same run.

    Raises Forbidden, NotFound, InvalidInput or Conflict, each with the way out.
    """
    if request.requested_by != person.name:
        raise BrokenRule(f"{person.name} asks for a run in the name of {request.requested_by}.")
    prepared = prepare(service, request)

    def record(transaction: Transaction) -> Run:
        insist_on_nodes(service, person, Permission.REQUEST, node_runs=prepared.node_runs)
        earlier = _earlier(transaction, prepared)
        if earlier is not None:
            return earlier
        now = prepared.run.created_at
        for node in prepared.plan.nodes:
            _refuse_held(transaction, node, by=request.requested_by, now=now)
            if request.take_over:
                _take_over(service, transaction, node=node, person=person, now=now)
        add(transaction, prepared)
        return prepared.run

    run = service.store.write(record)
    service.wake_engine()
    return run


def prepare(service: Service, request: RunRequest) -> Prepared:
    """Plan a request without recording anything."""
    runbook, source = service.runbooks.get(request.runbook)
    inventory = service.inventory.current()
    nodes = _nodes(request, inventory, now=service.clock.now())
    params = check_params(runbook, request.params)
    _check_steps(runbook, request)
    plan = make_plan(runbook, nodes, inventory=inventory, params=params, envelope_sha256=service.envelope_sha256)
    run = _run(service, request, plan=plan)
    return Prepared(run, plan, source, _node_runs(service, run, runbook=runbook, nodes=nodes, request=request))


def add(transaction: Transaction, prepared: Prepared) -> None:
    """Add a prepared run and its fact."""
    run = prepared.run
    transaction.add_run(run, source=prepared.source, plan=prepared.plan, node_runs=prepared.node_runs)
    body = {
        "runbook": run.runbook,
        "file_sha256": prepared.plan.runbook.file_sha256,
        "revision": prepared.source.revision,
        "digest": run.digest,
        "nodes": list(prepared.plan.nodes),
        "params": dict(run.params),
        "dry_run": run.dry_run,
        "reason": run.reason,
        "trigger": {"kind": run.trigger.kind, "name": run.trigger.name},
        "requesters": list(run.requesters),
        "waived": list(run.waived),
        "retry_of": run.retry_of,
        "escalated_from": run.escalated_from,
        "from_step": run.from_step,
    }
    transaction.append(Fact("run.requested", f"run/{run.id}", run.requested_by, run_id=run.id, body=body))


def _nodes(request: RunRequest, inventory: Inventory, *, now: datetime) -> tuple[Node, ...]:
    if request.selector is not None and request.nodes:
        raise InvalidInput("Both nodes and a selector were given.", "Give one of them.")
    names = _selected(request.selector, inventory) if request.selector is not None else request.nodes
    if not names and request.selector is not None:
        raise _finds_nothing(request.selector, inventory)
    if not names:
        raise InvalidInput("No node was named.", "Name nodes, a pool, or an attribute that nodes have.")
    if len(names) > MOST_NODES:
        raise InvalidInput(f"{len(names)} nodes were asked for.", f"One run takes at most {MOST_NODES}.")
    if len(set(names)) != len(names):
        raise InvalidInput("A node was named twice.", "Name each node once.")
    nodes = tuple(inventory.node(name) for name in names)
    for node in nodes:
        inventory.refuse_stale(node, now)
    return nodes


def _finds_nothing(selector: Selector, inventory: Inventory) -> InvalidInput:
    """Return the refusal that names what matched no node, and what there is instead."""
    nodes = [*inventory.nodes.values()]
    pools = sorted({pool for node in nodes for pool in node.pools})
    if selector.pool is not None and selector.pool not in pools:
        return InvalidInput(f"No node is in the pool {selector.pool}.", f"The pools are: {_some(pools)}.")
    for name, value in selector.attributes.items():
        values = sorted({node.attributes[name] for node in nodes if name in node.attributes})
        if not values:
            known = sorted({known for node in nodes for known in node.attributes})
            return InvalidInput(f"No node has an attribute {name}.", f"The attributes are: {_some(known)}.")
        if value not in values:
            return InvalidInput(f"No node has {name}={value}.", f"Its values are: {_some(values)}.")
    wanted = [f"pool {selector.pool}"] if selector.pool is not None else []
    wanted += [f"{name}={value}" for name, value in selector.attributes.items()]
    reason = f"Each of {', '.join(wanted)} finds nodes, but no node has all of them."
    return InvalidInput(reason, "Leave one of them out; `unstick nodes` (GET /api/v1/nodes) lists the nodes.")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return f"{', '.join(names[:_MOST_SHOWN])}{more}" or "none"


def _selected(selector: Selector, inventory: Inventory) -> tuple[str, ...]:
    silent = inventory.silent()
    if silent is not None:
        raise Conflict(f"Which nodes the selector finds is not known: {silent}", "Name the nodes, or mend the source.")
    return tuple(
        sorted(
            node.name
            for node in inventory.nodes.values()
            if (selector.pool is None or selector.pool in node.pools)
            and all(node.attributes.get(name) == value for name, value in selector.attributes.items())
        )
    )


def _check_steps(runbook: Runbook, request: RunRequest) -> None:
    ids = {step.id: step for step in runbook.steps}
    for name in request.waived:
        if name not in ids:
            raise InvalidInput(f"{runbook.name} has no step {name} to waive.")
        if not ids[name].waivable:
            raise Conflict(f"The gate of step {name} can never be waived.", "A person must answer it.")
    if request.from_step is not None and request.from_step not in ids:
        raise InvalidInput(f"{runbook.name} has no step {request.from_step}.", f"Its steps: {', '.join(ids)}.")


def _run(service: Service, request: RunRequest, *, plan: Plan) -> Run:
    requesters = tuple(sorted({request.requested_by, *request.also_requested_by}))
    return Run(
        id=service.clock.new_id(),
        runbook=plan.runbook.name,
        digest=plan.digest,
        dry_run=request.dry_run,
        requested_by=request.requested_by,
        requesters=requesters,
        trigger=request.trigger,
        params=plan.params,
        created_at=service.clock.now(),
        reason=request.reason,
        waived=request.waived,
        retry_of=request.retry_of,
        escalated_from=request.escalated_from,
        from_step=request.from_step,
        idempotency_key=request.idempotency_key,
    )


def _node_runs(
    service: Service, run: Run, *, runbook: Runbook, nodes: Sequence[Node], request: RunRequest
) -> tuple[NodeRun, ...]:
    pool = request.selector.pool if request.selector is not None else None
    sizes = Counter(name for node in service.inventory.current().nodes.values() for name in node.pools)
    return tuple(
        NodeRun(
            id=service.clock.new_id(),
            run_id=run.id,
            node=node.name,
            state=NodeRunState.QUEUED,
            position=position,
            dry_run=run.dry_run,
            acts=runbook.acts and not run.dry_run,
            runbook=runbook.name,
            created_at=run.created_at,
            attributes={**node.attributes, "name": node.name, "pools": list(node.pools)},
            pool=pool or _smallest_pool(node, sizes),
            wake_at=run.created_at,
        )
        for position, node in enumerate(nodes)
    )


def _smallest_pool(node: Node, sizes: Mapping[str, int]) -> str | None:
    """Return the node's pool with the fewest nodes, by which percentages are counted."""
    return min(node.pools, key=lambda pool: (sizes[pool], pool), default=None)


def _earlier(reader: Reader, prepared: Prepared) -> Run | None:
    run = prepared.run
    if run.idempotency_key is None:
        return None
    earlier = reader.run_by_key(run.requested_by, run.idempotency_key)
    if earlier is None:
        return None
    # The digest may differ: a runbook or the service may have changed between the two deliveries.
    same = replace(earlier, id=run.id, created_at=run.created_at, digest=run.digest) == run
    nodes = tuple(one.node for one in reader.node_runs(earlier.id))
    if not same or nodes != prepared.plan.nodes:
        raise Conflict(f"The idempotency key was used for another request, run {earlier.id}.", "Use a new key.")
    return earlier


def _refuse_held(reader: Reader, node: str, *, by: str, now: datetime) -> None:
    hold = reader.hold(node)
    if hold is not None and hold.active(now):
        ask = "" if hold.by == by else f"Ask {hold.by} first: "
        raise Conflict(f"Node {node} is {hold.words}", f"{ask}`unstick release {node}` ends the hold.")


def _take_over(service: Service, transaction: Transaction, *, node: str, person: Person, now: datetime) -> None:
    holder = transaction.holder(node)
    if holder is None:
        return
    if holder.state is not NodeRunState.WAITING:
        raise Conflict(
            f"Run {holder.run_id} has node {node} and is {holder.state}.",
            "Only a run that waits can be taken over; cancel or resolve it first.",
        )
    insist(service, person, Permission.CANCEL, about=about_node_run(holder))
    by = person.name
    transaction.request_cancel(holder.id, by=by, reason=f"taken over by {by}")
    transaction.wake([holder.id], at=now)
    fact = Fact("node_run.taken_over", f"node_run/{holder.id}", by, run_id=holder.run_id, node=node)
    transaction.append(fact)
