"""Play a recorded alert again as a dry run, by the rules of now."""

from service.app.request_run import RunRequest, request_run
from service.app.service import Service
from service.domain.errors import Conflict
from service.domain.match import answer, facts_of, first_match, wanted
from service.domain.person import Person
from service.domain.run import Run

_TRY = "`unstick rules test` shows what each rule says of a payload."


def replay_alert(service: Service, alert_id: str, *, person: Person, reason: str = "") -> Run:
    """Request the run that an alert would start, as a dry run that this person asks for; no rail is asked.

    Raises NotFound, or Conflict when no rule answers it or its node is not known; and what `request_run` raises.
    """
    recorded = service.store.read(lambda reader: reader.alert(alert_id))
    rules = service.rules.current().rules
    facts = facts_of(recorded.alert, source=recorded.source)
    rule = first_match(rules, facts, source=recorded.source)
    if rule is None:
        said = [one for one in (answer(rule, facts, source=recorded.source) for rule in rules) if one.reason]
        reasons = " ".join(f"{one.rule}: {one.reason}" for one in said[:3])
        raise Conflict(f"No rule answers this alert. {reasons}".strip(), _TRY)
    found = wanted(rule, facts, service.inventory.current())
    if found.node is None or found.reason:
        raise Conflict(found.reason, _TRY)
    request = RunRequest(
        rule.runbook,
        person.name,
        nodes=(found.node,),
        params=found.params,
        dry_run=True,
        reason=reason or f"Alert {recorded.id} is played again, by the rule {rule.name}.",
    )
    return request_run(service, request, person=person)
