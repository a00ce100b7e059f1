"""Judge alerts: which rule answers, on which node, and whether the rails let its run start.

Who else has a node is asked, and plans are made, outside the transaction, since they cost the most. Inside it the rails
are looked at again, with what is true there, and run, verdict and fact are written in one piece.
Nothing is lost in between: an alert without a verdict is due until it has one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from service.app.driven import SELF
from service.app.end_resolved import end_resolved
from service.app.ports import Reader, Transaction
from service.app.rail_facts import rail_facts
from service.app.request_run import Prepared, RunRequest, add, prepare
from service.app.service import Service
from service.domain.alert import AlertStatus
from service.domain.audit import Fact
from service.domain.delivery import AlertVerdict, Breaker, HeldBy, RecordedAlert
from service.domain.errors import BrokenRule, Conflict, Unavailable, UnstickError
from service.domain.match import Facts, answer, facts_of, wanted
from service.domain.node import Inventory
from service.domain.policy import Policy
from service.domain.rails import BLAST_RADIUS, AlertJudgement, Question, judge
from service.domain.rule import Rule, RuleSet
from service.domain.run import Trigger, TriggerKind
from service.domain.shown_text import shown_moment
from service.domain.survey import Part, foreign_owner
from service.domain.sweep import told_at

#: Alerts in one transaction: few enough that nobody else waits long for the writer.
BATCH = 20
#: A source of nodes that is silent is asked again by then.
_ASK_AGAIN = timedelta(seconds=30)
#: An alert that met a fault of our own is tried again after this long.
_AFTER_FAULT = timedelta(seconds=60)
#: So much of a reason is kept: the words of a monitor may stand in it, and the record keeps it for ever.
_MOST_OF_A_REASON = 1000


@dataclass(frozen=True)
class _Asked:
    """A firing alert with what its rule wants."""

    question: Question
    request: RunRequest


@dataclass(frozen=True)
class _Considered:
    """An alert, as far as it could be judged without the record."""

    alert: RecordedAlert
    asked: _Asked | None = None
    #: What is decided already; else the rails decide.
    judgement: AlertJudgement | None = None
    rule: str = ""
    node: str = ""
    #: Whether the rails would let it run, as far as they were asked.
    would_run: bool = False
    prepared: Prepared | None = None
    #: Who else has the node, where that was asked.
    owners: Part | None = None


@dataclass(frozen=True)
class _Now:
    """What is looked up once for a batch."""

    service: Service
    rules: RuleSet
    inventory: Inventory
    policy: Policy
    now: datetime


def judge_due(service: Service, *, limit: int = BATCH) -> int:
    """Judge the alerts that are due, the oldest first, at most `limit`; return how many were looked at."""
    now = service.clock.now()
    due = service.store.read(lambda reader: reader.due_alerts(now, limit=limit))
    if due:
        judge_alerts(service, due)
    return len(due)


def judge_held_again(service: Service) -> int:
    """Make every held alert due and return how many: what was put off by a false clock is not put off."""
    if not service.store.read(lambda reader: reader.alert_backlog()).held:
        return 0
    now = service.clock.now()
    return service.store.write(lambda transaction: transaction.wake_alerts(at=now))


def judge_alerts(service: Service, alerts: Sequence[RecordedAlert]) -> None:
    """Judge these alerts in one transaction; Unavailable when nothing can be recorded."""
    moment = _Now(
        service, service.rules.current(), service.inventory.current(), service.policy.current(), service.clock.now()
    )
    considered = [_consider(moment, alert) for alert in alerts]
    if not service.store.read(_is_stopped):
        considered = _with_owners(moment, [_asked_first(moment, one) for one in considered])
    considered = [_planned(moment, one) for one in considered]

    def record(transaction: Transaction) -> bool:
        transaction.lock_alerts()
        return sum(_decide(moment, transaction, one) for one in considered) > 0

    if service.store.write(record):
        service.wake_engine()


def put_aside(service: Service, alert: RecordedAlert, error: Exception) -> None:
    """Record that an alert met a fault of our own, so that it is tried again later and keeps no other waiting."""
    now = service.clock.now()
    reason = f"A fault of the service itself: {type(error).__name__}. It is tried again in a minute; see the log."
    judgement = AlertJudgement(AlertVerdict.HELD, reason, HeldBy.FAULT, now + _AFTER_FAULT)

    def record(transaction: Transaction) -> None:
        known = transaction.alert(alert.id)
        if known.wake_at is not None:
            _save(
                transaction, known, _Considered(known, rule=known.rule, node=known.node), judgement=judgement, now=now
            )

    service.store.write(record)


def _consider(moment: _Now, alert: RecordedAlert) -> _Considered:
    """Find rule, node and request of an alert."""
    if alert.status is AlertStatus.RESOLVED:
        return _Considered(alert)
    facts = facts_of(alert.alert, source=alert.source)
    rule, why_not = _first_rule(moment.rules, facts, source=alert.source)
    if rule is None:
        return _Considered(alert, judgement=AlertJudgement(AlertVerdict.NO_RULE, why_not))
    found = wanted(rule, facts, moment.inventory)
    decided = _Considered(alert, rule=rule.name, node=found.node or "")
    if found.node is None:
        return replace(decided, judgement=_no_node(moment, found.reason))
    if found.reason:
        return replace(decided, judgement=_refused(found.reason))
    request = RunRequest(
        rule.runbook,
        alert.delivered_by,
        nodes=(found.node,),
        params=found.params,
        dry_run=rule.dry_run,
        reason=f"Alert {alert.short_name} of {alert.source}, firing since {shown_moment(alert.starts_at)}.",
        # A second guard: one alert never makes two runs, whatever is played twice.
        idempotency_key=f"alert/{alert.id}",
        waived=rule.waive,
        trigger=Trigger(TriggerKind.ALERT, rule.name),
    )
    try:
        runbook, _source = moment.service.runbooks.get(rule.runbook)
    except UnstickError as error:
        return replace(decided, judgement=_refused(str(error)))
    question = Question(rule, found.node, told_at(alert), acts=runbook.acts and not rule.dry_run)
    return replace(decided, asked=_Asked(question, request))


def _is_stopped(reader: Reader) -> bool:
    """Whether no alert starts anything, so that no plan is needed: a storm ends in this."""
    return reader.pause() is not None or reader.breaker(BLAST_RADIUS).latched


def _asked_first(moment: _Now, one: _Considered) -> _Considered:
    """Mark an alert that would start its run by what is known now; the others need neither a look nor a plan."""
    if one.asked is None:
        return one
    judgement = moment.service.store.read(lambda reader: _ask_rails(moment, reader, one))
    return replace(one, would_run=judgement.verdict is AlertVerdict.RAN)


def _with_owners(moment: _Now, considered: list[_Considered]) -> list[_Considered]:
    """Ask who else has the nodes that would be disrupted: of as many as may be at the same time.

    An alert on one of the others keeps no mark, and so is looked at again at once if the rails still let it run.
    """
    service, inventory = moment.service, moment.inventory
    wanted_nodes = dict.fromkeys(one.node for one in considered if _would_act(one))
    nodes = [inventory.nodes[name] for name in wanted_nodes][: moment.policy.blast_radius.nodes_at_once]
    if not nodes:
        return considered
    owners = service.surveyor.owners(nodes, inventory)
    known = {node.name for node in nodes}
    return [
        replace(
            one, owners=owners.get(one.node), would_run=one.would_run and (one.node in known or not _would_act(one))
        )
        for one in considered
    ]


def _would_act(one: _Considered) -> bool:
    return one.would_run and one.asked is not None and one.asked.question.acts


def _planned(moment: _Now, one: _Considered) -> _Considered:
    """Plan the run of an alert that would start it."""
    asked, service = one.asked, moment.service
    if asked is None or not one.would_run or foreign_owner(one.owners, one.node):
        return one
    try:
        moment.inventory.refuse_stale(moment.inventory.nodes[one.node], moment.now)
    except Conflict as error:
        return replace(one, judgement=_unknown(moment, error.reason))
    try:
        return replace(one, prepared=prepare(service, asked.request))
    except Unavailable:
        raise
    except UnstickError as error:
        return replace(one, judgement=_refused(str(error)))


def _ask_rails(moment: _Now, reader: Reader, one: _Considered) -> AlertJudgement:
    asked = one.asked
    if asked is None:
        raise BrokenRule(f"The alert {one.alert.id} has neither a judgement nor a rule.")
    facts = rail_facts(
        reader,
        one.alert,
        question=asked.question,
        inventory=moment.inventory,
        policy=moment.policy,
        now=moment.now,
        owners=one.owners,
    )
    return judge(asked.question, facts, policy=moment.policy, now=moment.now)


def _decide(moment: _Now, transaction: Transaction, one: _Considered) -> bool:
    """Write what becomes of one alert; True when the engine has something to do."""
    known = transaction.alert(one.alert.id)
    if known.wake_at is None:
        # Another one of this batch has decided it.
        return False
    if known.status is AlertStatus.RESOLVED:
        return _decide_resolved(moment, transaction, one)
    judgement = one.judgement or _ask_rails(moment, transaction, one)
    if judgement.latches:
        _latch(transaction, judgement.reason, now=moment.now)
    if judgement.verdict is AlertVerdict.RAN:
        if one.prepared is None:
            # It was free to run only just now, and is planned at the next look.
            return True
        add(transaction, one.prepared)
        judgement = replace(judgement, run_id=one.prepared.run.id)
    _save(transaction, known, one, judgement=judgement, now=moment.now)
    return judgement.verdict is AlertVerdict.RAN


def _decide_resolved(moment: _Now, transaction: Transaction, one: _Considered) -> bool:
    ended = end_resolved(transaction, one.alert, now=moment.now)
    judgement = AlertJudgement(AlertVerdict.RESOLVED, ended.reason, run_id=ended.run_id)
    named = replace(one, rule=ended.rule, node=ended.node)
    _save(transaction, one.alert, named, judgement=judgement, now=moment.now)
    return ended.cancelled


def _save(
    transaction: Transaction, known: RecordedAlert, one: _Considered, *, judgement: AlertJudgement, now: datetime
) -> None:
    held = judgement.verdict is AlertVerdict.HELD
    judged = replace(
        known,
        judged_at=now,
        verdict=judgement.verdict,
        rule=one.rule,
        node=one.node,
        run_id=judgement.run_id,
        reason=_bounded(judgement.reason),
        held_by=judgement.held_by if held else None,
        wake_at=judgement.wake_at if held else None,
    )
    transaction.save_alert(judged)
    if held and known.held_by is judged.held_by:
        # It waits on, which is no news.
        return
    body = {
        "verdict": judged.verdict,
        "reason": judged.reason,
        "rule": judged.rule,
        "source": judged.source,
        "name": judged.short_name,
        "fingerprint": judged.fingerprint,
        "starts_at": judged.starts_at.isoformat(),
    }
    transaction.append(
        Fact(
            "alert.judged",
            f"alert/{judged.id}",
            SELF,
            on_behalf_of=judged.delivered_by,
            run_id=judged.run_id,
            node=judged.node,
            body=body,
        )
    )


def _latch(transaction: Transaction, reason: str, *, now: datetime) -> None:
    before = transaction.breaker(BLAST_RADIUS)
    if before.latched:
        return
    transaction.put_breaker(Breaker(BLAST_RADIUS, now, reason, before.reset_at, before.reset_by, before.reset_reason))
    transaction.append(Fact("breaker.latched", f"breaker/{BLAST_RADIUS}", SELF, body={"reason": reason}))


def _first_rule(rules: RuleSet, facts: Facts, *, source: str) -> tuple[Rule | None, str]:
    """Return the first rule that matches, or why there is none."""
    broken = ""
    for rule in rules.rules:
        said = answer(rule, facts, source=source)
        if said.matches:
            return rule, ""
        if "cannot be evaluated" in said.reason:
            broken = broken or f" The rule {rule.name}: {said.reason}"
    return None, f"No rule matches it.{broken}"


def _no_node(moment: _Now, reason: str) -> AlertJudgement:
    silent = moment.inventory.silent()
    if silent is None:
        return AlertJudgement(AlertVerdict.NO_NODE, reason)
    return _unknown(moment, f"Whether there is such a node is not known: {silent}")


def _unknown(moment: _Now, reason: str) -> AlertJudgement:
    """Hold what a source of nodes keeps from being judged: it may answer again, and a monitor says it but rarely."""
    return AlertJudgement(AlertVerdict.HELD, reason, HeldBy.INVENTORY, moment.now + _ASK_AGAIN)


def _bounded(reason: str) -> str:
    return reason if len(reason) <= _MOST_OF_A_REASON else reason[: _MOST_OF_A_REASON - 1] + "…"


def _refused(reason: str) -> AlertJudgement:
    return AlertJudgement(AlertVerdict.REFUSED, reason)
