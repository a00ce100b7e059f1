"""What a sweep has seen on a node goes on the record with the end of the node run: the fleet's row, and its alerts.

A finding is an alert of the source `sweep`, and takes the whole way of an alert: rules, rails, verdict. It fires when
it is found, is resolved when it is seen fine, and is neither while nobody could look. While it stays it is said again
only where a rule answers it and has not yet started a run: what nobody answers stands in the fleet alone.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from service.app.ports import Reader, Transaction
from service.app.receive_alerts import add_delivery, alerts_of
from service.app.service import Service
from service.domain.alert import Alert, AlertStatus, Parsed
from service.domain.delivery import AlertVerdict, Delivery, DeliveryState, RecordedAlert
from service.domain.errors import ConfigInvalid
from service.domain.match import facts_of, first_match
from service.domain.rule import Rule
from service.domain.run import NodeRun, Run, TriggerKind, Verdict
from service.domain.runbook import Runbook
from service.domain.sweep import (
    ALERT_NAME,
    LOOKED_AT,
    SOURCE,
    Finding,
    NodeLook,
    OpenFinding,
    StepFinding,
    look_of,
)

#: So many of the newest node runs of a node tell whether it was cured since something was found.
_PAST_RUNS = 20


@dataclass(frozen=True)
class Looked:
    """One look, ready to be recorded."""

    look: NodeLook
    #: Empty still of alerts: which are news is seen in the transaction.
    delivery: Delivery
    boot_id: str
    titles: Mapping[str, str]
    #: Steps whose finding a rule answers.
    answered: frozenset[str]

    def record(self, transaction: Transaction) -> None:
        """Write the row of the fleet, and as alerts what is news."""
        look = self.look
        before = next(iter(transaction.looks([look.node], [look.sweep])), None)
        if before is not None and look.looked_at < before.looked_at <= self.delivery.received_at:
            # A later run has looked meanwhile. One that looked in the future says that the clock was set back.
            return
        if look.answered_at is None and before is not None and before.runbook == look.runbook:
            look = replace(look, answered_at=before.answered_at)
        transaction.put_look(look)
        alerts = tuple(self._news(transaction))
        if alerts:
            add_delivery(transaction, self.delivery, alerts_of(self.delivery, Parsed(alerts)))

    def _news(self, transaction: Transaction) -> Iterator[Alert]:
        look = self.look
        found = {one.step: one for one in transaction.open_findings([look.node], [look.sweep])}
        for step in look.steps:
            known = found.get(step.step)
            if step.finding.fires:
                yield from self._found(transaction, step, known)
            elif step.finding is Finding.FINE and known is not None:
                transaction.remove_finding(known)
                yield _alert(look, step, since=known.since, title=self.titles[step.step])
        for gone in found.keys() - self.titles.keys():
            # The runbook has this step no longer.
            transaction.remove_finding(found[gone])

    def _found(self, transaction: Transaction, step: StepFinding, known: OpenFinding | None) -> Iterator[Alert]:
        look, title = self.look, self.titles[step.step]
        if known is None or self._is_another(transaction, known):
            occasion = OpenFinding(look.node, look.sweep, step.step, look.looked_at, self.boot_id)
            transaction.put_finding(occasion)
            yield _alert(look, step, since=occasion.since, title=title)
            return
        again = _alert(look, step, since=known.since, title=title)
        if step.step in self.answered and not _has_run(transaction, self.delivery, again):
            yield again

    def _is_another(self, reader: Reader, known: OpenFinding) -> bool:
        """Whether it went away unseen since it was found: the node has booted, or was cured."""
        if self.boot_id and known.boot_id and self.boot_id != known.boot_id:
            return True
        return any(
            one.verdict is Verdict.CURED and one.ended_at is not None and one.ended_at > known.since
            for one in reader.past_runs(known.node, limit=_PAST_RUNS)
        )


def prepare_look(service: Service, final: NodeRun, *, run: Run, runbook: Runbook) -> Looked | None:
    """Return what the end of a node run tells; None when it is no sweep's."""
    if run.trigger.kind is not TriggerKind.SWEEP:
        return None
    now = service.clock.now()
    # A look is as old as its beginning: what happened since it has not seen.
    look = look_of(run.trigger.name, runbook, node_run=final, now=final.started_at or now)
    titles = {step.step: runbook.step(step.step).title for step in look.steps}
    body = {"sweep": look.sweep, "node": look.node, "steps": {one.step: one.finding for one in look.steps}}
    text = json.dumps(body).encode()
    delivery = Delivery(
        id=service.clock.new_id(),
        source=SOURCE,
        received_at=now,
        state=DeliveryState.ACCEPTED,
        delivered_by=run.requested_by,
        delivery_key=final.id,
        body=text,
        body_bytes=len(text),
    )
    return Looked(look, delivery, final.first_boot_id or "", titles, _answered(_rules(service), look, titles))


def _rules(service: Service) -> tuple[Rule, ...]:
    try:
        return service.rules.current().rules
    except ConfigInvalid:
        # Nothing answers then; what was found is said again at the next look.
        return ()


def _answered(rules: tuple[Rule, ...], look: NodeLook, titles: Mapping[str, str]) -> frozenset[str]:
    firing = {
        one.step: _alert(look, one, since=look.looked_at, title=titles[one.step])
        for one in look.steps
        if one.finding.fires
    }
    return frozenset(
        step
        for step, alert in firing.items()
        if first_match(rules, facts_of(alert, source=SOURCE), source=SOURCE) is not None
    )


def _has_run(reader: Reader, delivery: Delivery, alert: Alert) -> bool:
    recorded: RecordedAlert = alerts_of(delivery, Parsed((alert,)))[0]
    earlier = reader.earlier(recorded)
    return earlier is not None and earlier.verdict is AlertVerdict.RAN


def _alert(look: NodeLook, step: StepFinding, *, since: datetime, title: str) -> Alert:
    fires = step.finding.fires
    return Alert(
        f"{look.sweep}/{look.node}/{step.step}",
        AlertStatus.FIRING if fires else AlertStatus.RESOLVED,
        since,
        None if fires else look.looked_at,
        labels={
            "alertname": ALERT_NAME,
            "sweep": look.sweep,
            "runbook": look.runbook,
            "node": look.node,
            "step": step.step,
            "finding": step.finding.value,
        },
        annotations={"title": title, "run": look.run_id, LOOKED_AT: look.looked_at.isoformat()},
    )
