"""What rules would have done with alerts that came in: matching and rails of the service, over a made-up record.

What is not known of runs that never were is assumed: each lasts as long as is said and cures its node, and nobody
pauses, holds a node or resets the breaker meanwhile. Whose a node was then is not known, and is not asked.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

from service.domain.alert import AlertStatus
from service.domain.delivery import AlertVerdict, Breaker, HeldBy, RecordedAlert
from service.domain.match import facts_of, first_match, wanted
from service.domain.node import Inventory
from service.domain.policy import Policy
from service.domain.rails import BLAST_RADIUS, AlertJudgement, Earlier, PastRun, PoolLoad, Question, RailFacts, judge
from service.domain.rule import RuleSet
from service.domain.run import NodeRunState, Verdict
from service.domain.sweep import told_at


@dataclass(frozen=True)
class Setting:
    """By what is judged."""

    rules: RuleSet
    policy: Policy
    inventory: Inventory
    #: For each runbook whether it acts; one that is not there starts nothing.
    acting: Mapping[str, bool]
    #: How long a run is taken to have its node.
    lasts: timedelta = timedelta(minutes=10)


@dataclass(frozen=True)
class Replayed:
    """What would have become of one alert."""

    alert: RecordedAlert
    judged_at: datetime
    verdict: AlertVerdict
    reason: str
    rule: str = ""
    node: str = ""


def replay(alerts: Iterable[RecordedAlert], setting: Setting) -> tuple[Replayed, ...]:
    """Return the last verdict of each alert, in the order in which they came; `alerts` come oldest first."""
    state = _Replay(setting)
    order = []
    for alert in alerts:
        state.wake_until(alert.received_at)
        state.take(alert)
        order.append(alert.id)
    state.wake_until(None)
    return tuple(state.verdicts[alert_id] for alert_id in order)


_Fault = tuple[str, str]


@dataclass
class _Replay:
    setting: Setting
    verdicts: dict[str, Replayed] = field(default_factory=dict)
    #: What was said of each fault, by source and fingerprint.
    said: defaultdict[_Fault, list[RecordedAlert]] = field(default_factory=lambda: defaultdict(list))
    #: Of each node, the newest last.
    runs: defaultdict[str, list[PastRun]] = field(default_factory=lambda: defaultdict(list))
    breaker: Breaker = field(default_factory=lambda: Breaker(BLAST_RADIUS))
    _held: list[tuple[datetime, int, RecordedAlert]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def wake_until(self, until: datetime | None) -> None:
        """Judge again what is held, as far as its time has come; None: all of it."""
        while self._held and (until is None or self._held[0][0] <= until):
            at, _, alert = heapq.heappop(self._held)
            if self.verdicts[alert.id].verdict is AlertVerdict.HELD:
                self._judge(alert, at)

    def take(self, alert: RecordedAlert) -> None:
        """Judge an alert that comes in."""
        if alert.verdict is AlertVerdict.SET_ASIDE:
            self._decide(alert, alert.received_at, AlertJudgement(AlertVerdict.SET_ASIDE, alert.reason))
            return
        self.said[_fault(alert)].append(alert)
        if alert.status is AlertStatus.RESOLVED:
            self._end_held(alert)
            self._decide(alert, alert.received_at, AlertJudgement(AlertVerdict.RESOLVED, "It is resolved."))
        else:
            self._judge(alert, alert.received_at)

    def _end_held(self, resolved: RecordedAlert) -> None:
        for other in self.said[_fault(resolved)]:
            known = self.verdicts.get(other.id)
            if known is None or known.verdict is not AlertVerdict.HELD or other.starts_at > resolved.starts_at:
                continue
            reason = "It was resolved while it was held."
            self.verdicts[other.id] = replace(
                known, judged_at=resolved.received_at, verdict=AlertVerdict.RESOLVED, reason=reason
            )

    def _judge(self, alert: RecordedAlert, now: datetime) -> None:
        facts = facts_of(alert.alert, source=alert.source)
        rule = first_match(self.setting.rules.rules, facts, source=alert.source)
        if rule is None:
            self._decide(alert, now, AlertJudgement(AlertVerdict.NO_RULE, "No rule matches it."))
            return
        found = wanted(rule, facts, self.setting.inventory)
        acts = self.setting.acting.get(rule.runbook)
        if found.node is None:
            judgement = AlertJudgement(AlertVerdict.NO_NODE, found.reason)
        elif found.reason or acts is None:
            reason = found.reason or f"There is no runbook {rule.runbook}."
            judgement = AlertJudgement(AlertVerdict.REFUSED, reason)
        else:
            question = Question(rule, found.node, told_at(alert), acts=acts and not rule.dry_run)
            judgement = self._ask_rails(alert, question, now=now)
        self._decide(alert, now, judgement, rule=rule.name, node=found.node or "")

    def _ask_rails(self, alert: RecordedAlert, question: Question, *, now: datetime) -> AlertJudgement:
        judgement = judge(question, self._facts(alert, question, now=now), policy=self.setting.policy, now=now)
        if judgement.latches:
            self.breaker = Breaker(BLAST_RADIUS, now, judgement.reason)
        if judgement.verdict is AlertVerdict.RAN:
            run = PastRun(
                alert.id,
                question.rule.runbook,
                question.rule.name,
                dry_run=question.rule.dry_run,
                acts=question.acts,
                state=NodeRunState.RUNNING,
                created_at=now,
                started_at=now,
            )
            self.runs[question.node].append(run)
            judgement = replace(judgement, run_id=alert.id)
        elif judgement.verdict is AlertVerdict.HELD and judgement.held_by is not HeldBy.BREAKER:
            heapq.heappush(self._held, (self._look_again(judgement, now=now), next(self._numbers), alert))
        return judgement

    def _facts(self, alert: RecordedAlert, question: Question, *, now: datetime) -> RailFacts:
        occasion = [one for one in self.said[_fault(alert)] if one.starts_at == alert.starts_at]
        earlier = self._earlier(alert, occasion)
        if earlier is not None:
            # The rest is not asked then, and costs more the more there was.
            return RailFacts(heard_at=alert.received_at, received_at=alert.received_at, earlier=earlier)
        node, limits = question.node, self.setting.policy.blast_radius
        past = tuple(self._as_of(run, now) for run in reversed(self.runs[node]))
        open_here = [run for run in past if run.acts and run.ended_at is None]
        disrupted = {name for name, run in self._acting() if name != node and run.created_at + self.setting.lasts > now}
        since = now - limits.per_window.within
        heard = [one.received_at for one in occasion if one.status is AlertStatus.FIRING]
        return RailFacts(
            heard_at=max(heard, default=alert.received_at),
            received_at=alert.received_at,
            resolved_at=self._resolved_at(alert),
            breaker=self.breaker,
            busy=open_here[0] if open_here else None,
            past=past,
            disrupted=len(disrupted),
            in_window=frozenset(name for name, run in self._acting() if run.created_at > since),
            pools=tuple(self._load(pool, disrupted) for pool in self.setting.inventory.nodes[node].pools),
        )

    def _earlier(self, alert: RecordedAlert, occasion: list[RecordedAlert]) -> Earlier | None:
        known = [self.verdicts[one.id] for one in occasion if one.id != alert.id and one.id in self.verdicts]
        for verdict in (AlertVerdict.RAN, AlertVerdict.HELD):
            for one in known:
                if one.verdict is verdict:
                    return Earlier(one.alert.id, verdict, one.alert.id if verdict is AlertVerdict.RAN else "")
        return None

    def _resolved_at(self, alert: RecordedAlert) -> datetime | None:
        over = (
            one.received_at
            for one in self.said[_fault(alert)]
            if one.status is AlertStatus.RESOLVED and one.starts_at >= alert.starts_at
        )
        return min(over, default=None)

    def _acting(self) -> Iterator[tuple[str, PastRun]]:
        for node, runs in self.runs.items():
            yield from ((node, run) for run in runs if run.acts)

    def _as_of(self, run: PastRun, now: datetime) -> PastRun:
        end = run.created_at + self.setting.lasts
        if end > now:
            return run
        verdict = Verdict.CURED if run.acts else None
        return replace(run, state=NodeRunState.SUCCEEDED, ended_at=end, verdict=verdict)

    def _look_again(self, judgement: AlertJudgement, *, now: datetime) -> datetime:
        """Return when a held alert is judged again: when a run has ended, or as it says."""
        ends = [run.created_at + self.setting.lasts for _, run in self._acting()]
        to_come = [end for end in ends if end > now]
        if judgement.held_by in (HeldBy.BUSY, HeldBy.BLAST_RADIUS) and to_come:
            return min(to_come)
        return judgement.wake_at or now + self.setting.lasts

    def _load(self, pool: str, disrupted: set[str]) -> PoolLoad:
        inventory = self.setting.inventory
        touched = sum(pool in inventory.nodes[name].pools for name in disrupted)
        return PoolLoad(pool, inventory.pool_size(pool), touched)

    def _decide(
        self, alert: RecordedAlert, now: datetime, judgement: AlertJudgement, *, rule: str = "", node: str = ""
    ) -> None:
        self.verdicts[alert.id] = Replayed(alert, now, judgement.verdict, judgement.reason, rule, node)


def _fault(alert: RecordedAlert) -> _Fault:
    return alert.source, alert.fingerprint
