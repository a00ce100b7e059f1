"""Resolve a stuck node run: a person says how it goes on, always with a reason."""

from dataclasses import replace
from datetime import datetime

from service.app.driven import Driven, load
from service.app.insist import about_node_run, insist
from service.app.ports import Reader, Transaction
from service.app.service import Service
from service.domain.action import WaitForDecision
from service.domain.audit import Fact
from service.domain.errors import Conflict, InvalidInput, NotFound
from service.domain.next_action import next_action
from service.domain.person import Permission, Person
from service.domain.run import History, NodeRun, NodeRunState, Resolution, ResolveAs
from service.domain.shown_text import is_blank


def resolve(service: Service, run_id: str, *, node: str, resolve_as: ResolveAs, reason: str, person: Person) -> NodeRun:
    """Write down the resolution and let the node run go on; no gate is passed by it.

    Raises Forbidden, Conflict when the node run is not stuck, or would stand where it stands (that one is recorded as
    refused), InvalidInput without a reason, NotFound.
    """
    if is_blank(reason):
        raise InvalidInput("A resolution needs a reason.", "Say what you saw on the node.")
    driven = load(service, service.store.read(lambda reader: find_node_run(reader, run_id, node=node)))

    def record(transaction: Transaction) -> tuple[NodeRun, str]:
        node_run = find_node_run(transaction, run_id, node=node)
        insist(service, person, Permission.RESOLVE, about=about_node_run(node_run))
        if node_run.state is not NodeRunState.STUCK:
            raise Conflict(f"Node {node} of run {run_id} is {node_run.state}, not stuck.", f"unstick show {run_id}")
        history = transaction.history(node_run.id)
        now = service.clock.now()
        last = max((attempt.number for attempt in history.attempts), default=0)
        resolution = Resolution(service.clock.new_id(), node_run.id, resolve_as, person.name, reason, now, last)
        in_vain = _in_vain(driven, replace(history, resolutions=(*history.resolutions, resolution)), now=now)
        transaction.append(_fact(node_run, resolution, in_vain=in_vain))
        if not in_vain:
            transaction.add_resolution(resolution)
            transaction.wake([node_run.id], at=now)
        return node_run, in_vain

    node_run, in_vain = service.store.write(record)
    if in_vain:
        raise Conflict(
            f"There is nothing left to ask node {node}. {in_vain}",
            f"Look at it, then say {', '.join(_ways_on(resolve_as))}.",
        )
    service.wake_engine()
    return node_run


def _in_vain(driven: Driven, history: History, *, now: datetime) -> str:
    """Return why a resolution would leave the node run where it stands, or nothing when something comes of it."""
    action = next_action(driven.runbook, driven.run, history=history, now=now)
    if isinstance(action, WaitForDecision) and action.state is NodeRunState.STUCK:
        return action.reason
    return ""


def _fact(node_run: NodeRun, resolution: Resolution, *, in_vain: str) -> Fact:
    body = {"as": resolution.resolve_as, "reason": resolution.reason, "after_attempt": resolution.after_number}
    if in_vain:
        body["refused_because"] = in_vain
    return Fact(
        "node_run.resolve_refused" if in_vain else "node_run.resolved",
        f"node_run/{node_run.id}",
        resolution.by,
        run_id=node_run.run_id,
        node=node_run.node,
        body=body,
    )


def _ways_on(refused: ResolveAs) -> tuple[str, ...]:
    means = {
        ResolveAs.CHANGED: "--as changed (verify decides)",
        ResolveAs.RETRY: "--as retry (the step begins anew)",
        ResolveAs.FAILED: "--as failed (it ends)",
    }
    return tuple(words for way, words in means.items() if way is not refused)


def find_node_run(reader: Reader, run_id: str, *, node: str) -> NodeRun:
    """Return the node run of a run on a node; NotFound."""
    reader.run(run_id)
    for node_run in reader.node_runs(run_id):
        if node_run.node == node:
            return node_run
    raise NotFound(f"Run {run_id} has no node {node}.", f"Its nodes: unstick show {run_id}")
