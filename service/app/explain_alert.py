"""Say of an alert what the rules would do with it: which one answers, on which node, with which plan; and why not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from service.app.request_run import RunRequest, prepare
from service.app.service import Service
from service.domain.alert import Alert, AlertStatus
from service.domain.errors import UnstickError
from service.domain.match import RuleAnswer, answer, facts_of, wanted
from service.domain.redaction import redact_members
from service.domain.rule import Rule
from service.domain.run import Trigger, TriggerKind
from service.domain.runbook import ParamValue


@dataclass(frozen=True)
class Explained:
    """What would become of one alert, as far as the record is not needed for it."""

    alert: Alert
    #: Of every rule, in the order of the file.
    answers: tuple[RuleAnswer, ...]
    #: The first that matches.
    rule: Rule | None = None
    node: str | None = None
    #: Of the plan: every parameter, defaults included.
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    digest: str = ""
    #: Why it would start nothing, in one sentence; empty when it would ask the rails for a run.
    reason: str = ""


def explain_alert(service: Service, alert: Alert, *, source: str) -> Explained:
    """Return what the rules of now say. Nothing is sent or recorded."""
    # The rules see it as it is kept.
    kept = replace(alert, labels=redact_members(alert.labels), annotations=redact_members(alert.annotations))
    facts = facts_of(kept, source=source)
    rules = service.rules.current().rules
    answers = tuple(answer(rule, facts, source=source) for rule in rules)
    said = Explained(alert, answers)
    if alert.status is AlertStatus.RESOLVED:
        return replace(said, reason="It is resolved: it starts nothing, and ends what has not begun to act.")
    rule = next((rule for rule, one in zip(rules, answers, strict=True) if one.matches), None)
    if rule is None:
        return replace(said, reason="No rule matches it.")
    found = wanted(rule, facts, service.inventory.current())
    said = replace(said, rule=rule, node=found.node)
    if found.node is None or found.reason:
        return replace(said, reason=found.reason)
    request = RunRequest(
        rule.runbook,
        f"source:{source}",
        nodes=(found.node,),
        params=found.params,
        dry_run=rule.dry_run,
        waived=rule.waive,
        trigger=Trigger(TriggerKind.ALERT, rule.name),
    )
    try:
        plan = prepare(service, request).plan
    except UnstickError as refusal:
        return replace(said, reason=str(refusal))
    return replace(said, params=plan.params, digest=plan.digest)
