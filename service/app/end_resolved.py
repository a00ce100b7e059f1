"""A fault is over, says its monitor: what waits for it ends, and a run that has not acted yet is cancelled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from service.app.driven import SELF
from service.app.ports import Transaction
from service.domain.audit import Fact
from service.domain.delivery import AlertVerdict, RecordedAlert
from service.domain.run import NodeRunState


@dataclass(frozen=True)
class Ended:
    """What a resolved alert has ended."""

    reason: str
    rule: str = ""
    node: str = ""
    run_id: str = ""
    #: Whether the engine has something to do.
    cancelled: bool = False


def end_resolved(transaction: Transaction, resolved: RecordedAlert, *, now: datetime) -> Ended:
    """End what the alerts of this fault have begun, as far as nothing was touched."""
    of_fault = transaction.of_fault(resolved)
    for alert in of_fault:
        if alert.verdict is AlertVerdict.HELD:
            _end_held(transaction, alert, now=now)
    runs = {alert.run_id: alert for alert in of_fault if alert.run_id}
    ended = _before(transaction, of_fault, resolved)
    for alert in runs.values():
        found = _end_run(transaction, alert, resolved, now=now)
        if found is not None:
            ended = replace(found, rule=alert.rule, node=alert.node)
    return ended


def _before(transaction: Transaction, of_fault: Sequence[RecordedAlert], resolved: RecordedAlert) -> Ended:
    """Return what there is to say when nothing is left to be ended, with the run that this occasion has started."""
    ended = Ended("It is resolved.")
    if not of_fault:
        return ended
    ended = replace(ended, rule=of_fault[0].rule, node=of_fault[0].node)
    # A run of an earlier occasion has nothing to do with this end; a monitor that does not say which occasion is over
    # (its end begins when it came) means the newest one.
    unsaid = resolved.starts_at == resolved.ends_at
    alert = next((one for one in of_fault if one.run_id and (unsaid or one.starts_at == resolved.starts_at)), None)
    if alert is None:
        return ended
    node_runs = [one.node_run for one in transaction.histories(alert.run_id)]
    if not all(one.state.ended for one in node_runs):
        return ended
    ends = ", ".join(str(one.verdict or one.state) for one in node_runs)
    reason = f"It is resolved; run {alert.run_id} had ended before: {ends}."
    return Ended(reason, rule=alert.rule, node=alert.node, run_id=alert.run_id)


def _end_held(transaction: Transaction, alert: RecordedAlert, *, now: datetime) -> None:
    reason = "It was resolved while it was held."
    transaction.save_alert(
        replace(alert, judged_at=now, verdict=AlertVerdict.RESOLVED, reason=reason, held_by=None, wake_at=None)
    )
    body = {
        "verdict": AlertVerdict.RESOLVED,
        "reason": reason,
        "rule": alert.rule,
        "source": alert.source,
        "name": alert.short_name,
    }
    about = f"alert/{alert.id}"
    transaction.append(Fact("alert.judged", about, SELF, on_behalf_of=alert.delivered_by, node=alert.node, body=body))


def _end_run(transaction: Transaction, alert: RecordedAlert, resolved: RecordedAlert, *, now: datetime) -> Ended | None:
    """Cancel the run of an alert that has not acted; None when there is nothing to say of it."""
    run_id = _goes_on_as(transaction, alert)
    histories = transaction.histories(run_id)
    still_open = [one.node_run for one in histories if not one.node_run.state.ended]
    if not still_open:
        return None
    if any(attempt.acting for one in histories for attempt in one.attempts):
        return Ended(f"It is resolved; run {run_id} has begun to act, and goes on.", run_id=run_id)
    others = [one for one in transaction.alerts_of_run(alert.run_id) if transaction.resolved_at(one) is None]
    if others:
        reason = f"It is resolved; run {run_id} goes on for {others[0].short_name}, which still fires."
        return Ended(reason, run_id=run_id)
    reached = [one for one in still_open if one.state is not NodeRunState.STUCK and one.cancel_requested_by is None]
    why = f"the alert {resolved.short_name} is resolved"
    for node_run in reached:
        transaction.request_cancel(node_run.id, by=SELF, reason=why)
    transaction.wake([one.id for one in reached], at=now)
    body = {"nodes": [one.node for one in reached], "stuck": [], "reason": why}
    about = f"run/{run_id}"
    transaction.append(
        Fact("run.cancel_requested", about, SELF, on_behalf_of=resolved.delivered_by, run_id=run_id, body=body)
    )
    return Ended(f"It is resolved; run {run_id} had not acted yet, and is cancelled.", run_id=run_id, cancelled=True)


def _goes_on_as(transaction: Transaction, alert: RecordedAlert) -> str:
    """Return the run by which an alert is dealt with: its own, or the escalation that has the node in its place."""
    holder = transaction.holder(alert.node)
    came_from = None if holder is None else transaction.run(holder.run_id).escalated_from
    while came_from is not None and came_from != alert.run_id:
        came_from = transaction.run(came_from).escalated_from
    return alert.run_id if holder is None or came_from is None else holder.run_id
