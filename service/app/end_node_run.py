"""End a node run: one transaction that also wakes the next ones and requests the escalation."""

from dataclasses import replace

from service.app.driven import SELF
from service.app.ports import Transaction
from service.app.request_run import Prepared, RunRequest, add, prepare
from service.app.service import Service
from service.app.sweep_look import prepare_look
from service.app.sweep_places import pass_on
from service.domain.action import Ended
from service.domain.audit import Fact
from service.domain.delivery import HeldBy
from service.domain.errors import InvalidInput, UnstickError
from service.domain.run import NodeRun, NodeRunState, Run, Trigger, TriggerKind, Verdict, retried_by, run_state
from service.domain.runbook import Runbook

#: So many alerts that are held by the blast radius are judged again when a node run has ended.
_ASKED_AGAIN = 10


def end_node_run(service: Service, node_run: NodeRun, *, run: Run, runbook: Runbook, ended: Ended) -> None:
    """Write the end of a node run, with everything that follows from it.

    An escalation takes over the place on the node in the same transaction; EpochLost.
    """
    now = service.clock.now()
    final = replace(node_run, state=ended.state, verdict=ended.verdict, reason=ended.reason, wake_at=None, ended_at=now)
    escalation, refusal = _prepare_escalation(service, final, run=run, runbook=runbook)
    look = prepare_look(service, final, run=run, runbook=runbook)

    def record(transaction: Transaction) -> None:
        transaction.release(final)
        transaction.append(_fact(final, ended=ended))
        hold = transaction.hold(final.node)
        held = hold is not None and hold.active(now)
        if escalation is not None and not held:
            add(transaction, escalation)
        elif escalation is not None or refusal:
            body = {"reason": refusal or "The node is on hold."}
            about = f"node_run/{final.id}"
            transaction.append(Fact("escalation.refused", about, SELF, run_id=run.id, node=final.node, body=body))
        if look is None:
            wake_waiting(transaction, final, service=service)
        else:
            look.record(transaction)
            pass_on(transaction, final, now=now)
        _end_run(transaction, run)

    service.store.write(record)
    service.wake_engine()


def wake_waiting(transaction: Transaction, node_run: NodeRun, *, service: Service) -> None:
    """Make due every queued node run that may have waited for this one, and alerts that are held for its node."""
    now = service.clock.now()
    transaction.wake(transaction.asleep(node_run, now=now), at=now)
    if node_run.acts:
        transaction.wake_alerts(at=now, node=node_run.node, held_by=HeldBy.BUSY)
        # One node is free again. Some more are asked, since the oldest may be held by the limit of its pool.
        transaction.wake_alerts(at=now, held_by=HeldBy.BLAST_RADIUS, most=_ASKED_AGAIN)


def _fact(node_run: NodeRun, *, ended: Ended) -> Fact:
    body = {
        "state": ended.state,
        "verdict": ended.verdict,
        "reason": ended.reason,
        "steps": {one.step: {"outcome": one.outcome, "verdict": one.verdict} for one in node_run.results},
    }
    about = f"node_run/{node_run.id}"
    person = node_run.cancel_requested_by if ended.state is NodeRunState.CANCELLED else None
    return Fact(
        "node_run.ended", about, SELF, on_behalf_of=person or "", run_id=node_run.run_id, node=node_run.node, body=body
    )


def _end_run(transaction: Transaction, run: Run) -> None:
    states = transaction.states(run.id)
    if all(state.ended for state in states):
        body = {"state": run_state(states)}
        transaction.append(Fact("run.ended", f"run/{run.id}", SELF, run_id=run.id, body=body))


def _prepare_escalation(
    service: Service, node_run: NodeRun, *, run: Run, runbook: Runbook
) -> tuple[Prepared | None, str]:
    """Return the escalation to request, or why there is none though one was written down."""
    if node_run.verdict is not Verdict.NOT_CURED or run.dry_run or not runbook.escalate_to:
        return None, ""
    try:
        goal = _goal(node_run, run=run, runbook=runbook)
        if goal is None:
            return None, "No escalation fits this node; a person is needed."
        request = _request(service, goal, node_run=node_run, run=run)
        prepared = prepare(service, request)
    except UnstickError as error:
        return None, f"The escalation could not be planned: {error}"
    taking_over = tuple(
        replace(one, state=NodeRunState.RUNNING, started_at=one.created_at) if one.acts else one
        for one in prepared.node_runs
    )
    return replace(prepared, node_runs=taking_over), ""


def _goal(node_run: NodeRun, *, run: Run, runbook: Runbook) -> str | None:
    outcomes = {one.step: {"outcome": one.outcome or ""} for one in node_run.results}
    trigger = {"kind": run.trigger.kind, "name": run.trigger.name}
    facts = {"params": run.params, "node": node_run.attributes, "trigger": trigger, "steps": outcomes}
    for escalation in runbook.escalate_to:
        try:
            if escalation.when is None or escalation.when.holds(facts):
                return escalation.runbook
        except InvalidInput:
            # A node without the attribute that a condition asks for is simply not meant by it.
            continue
    return None


def _request(service: Service, goal: str, *, node_run: NodeRun, run: Run) -> RunRequest:
    known, _source = service.runbooks.get(goal)
    history = service.store.read(lambda reader: reader.history(node_run.id))
    names = {param.name for param in known.params}
    return RunRequest(
        runbook=goal,
        requested_by=run.requested_by,
        nodes=(node_run.node,),
        params={name: value for name, value in run.params.items() if name in names},
        reason=f"escalation of run {run.id}: {node_run.reason}",
        trigger=Trigger(TriggerKind.ESCALATION, run.id) if run.trigger.kind is TriggerKind.PERSON else run.trigger,
        also_requested_by=(*run.requesters, *retried_by(history.resolutions)),
        escalated_from=run.id,
    )
