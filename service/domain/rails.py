"""The rails: whether an alert that a rule answers may start its run now. One pure function, for the service and for a
replay of what came in long ago.

The order is that in which a person would ask: is this news, is it still true, may anything happen at all, was enough
tried on this node, is the node free, is too much going on elsewhere, and is the node somebody else's. What is answered
by no is said; what may be answered otherwise later is held.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.domain.delivery import AlertVerdict, Breaker, HeldBy, Pause
from service.domain.policy import Policy
from service.domain.rule import Rule
from service.domain.run import OPEN_STATES, Hold, NodeRunState, Verdict
from service.domain.shown_text import shown_moment
from service.domain.survey import Part, foreign_owner

#: The breaker that the cap of a window latches.
BLAST_RADIUS = "blast-radius"
#: What is held for something without a known end is looked at again so often, beside being woken.
LOOK_AGAIN = timedelta(minutes=5)
#: The same where a person ends what it waits for, which wakes it.
LOOK_AGAIN_LATE = timedelta(hours=1)
#: An alert that is held so long without being said again is not acted on any more.
STILL_TRUE = timedelta(hours=24)


@dataclass(frozen=True)
class Earlier:
    """An alert of the same source, fingerprint and start that was acted on, or that is held."""

    alert_id: str
    verdict: AlertVerdict
    run_id: str = ""


@dataclass(frozen=True)
class PastRun:
    """One node run on the node in question."""

    run_id: str
    runbook: str
    #: The rule that has started it; empty for a person's.
    rule: str
    dry_run: bool
    acts: bool
    state: NodeRunState
    created_at: datetime
    verdict: Verdict | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    first_boot_id: str | None = None
    escalated: bool = False

    @property
    def played(self) -> bool:
        """Whether it did anything, or still may."""
        return self.started_at is not None or self.state in OPEN_STATES


@dataclass(frozen=True)
class PoolLoad:
    """A pool that the node is in."""

    pool: str
    size: int
    #: Nodes of it that are disrupted now, the node in question left out.
    disrupted: int


@dataclass(frozen=True)
class RailFacts:
    """What the record and the inventory know at the moment of judging."""

    #: When it was last said that this fault is there.
    heard_at: datetime
    #: When this alert came.
    received_at: datetime
    earlier: Earlier | None = None
    #: When a word came by which this occasion is over.
    resolved_at: datetime | None = None
    pause: Pause | None = None
    breaker: Breaker | None = None
    hold: Hold | None = None
    #: The open acting run that has the node, or is next to have it.
    busy: PastRun | None = None
    #: The newest node runs of this node.
    past: tuple[PastRun, ...] = ()
    #: When scripts were sent to the node that saw it reboot.
    rebooted_at: datetime | None = None
    #: Nodes that are disrupted now, the node in question left out.
    disrupted: int = 0
    #: Nodes that alerts have disrupted within the window, since the breaker was last reset.
    in_window: frozenset[str] = frozenset()
    pools: tuple[PoolLoad, ...] = ()
    #: Who else has the node; None: nobody was asked, as in a replay.
    owners: Part | None = None


@dataclass(frozen=True)
class Question:
    """What is asked: may this rule act on this node for an alert that began then."""

    rule: Rule
    node: str
    starts_at: datetime
    #: Whether the run takes the node for itself and disrupts it.
    acts: bool


@dataclass(frozen=True)
class AlertJudgement:
    """The answer and its reason."""

    verdict: AlertVerdict
    reason: str
    held_by: HeldBy | None = None
    #: When a held alert is looked at again at the latest.
    wake_at: datetime | None = None
    #: The run that deals with it already.
    run_id: str = ""
    #: Whether the breaker latches now.
    latches: bool = False


@dataclass(frozen=True)
class _Case:
    question: Question
    facts: RailFacts
    policy: Policy
    now: datetime


def judge(question: Question, facts: RailFacts, *, policy: Policy, now: datetime) -> AlertJudgement:
    """Return what becomes of a firing alert whose rule and node are known."""
    case = _Case(question, facts, policy, now)
    for rail in _RAILS:
        judgement = rail(case)
        if judgement is not None:
            return judgement
    return AlertJudgement(AlertVerdict.RAN, f"The rule {question.rule.name} starts {question.rule.runbook}.")


def _is_known(case: _Case) -> AlertJudgement | None:
    earlier = case.facts.earlier
    if earlier is None:
        return None
    if earlier.verdict is AlertVerdict.HELD:
        reason = f"The same alert is held already, as {earlier.alert_id}."
    else:
        reason = f"The same alert has started run {earlier.run_id} already."
    return AlertJudgement(AlertVerdict.DEDUPLICATED, reason, run_id=earlier.run_id)


def _is_stale(case: _Case) -> AlertJudgement | None:
    facts, question = case.facts, case.question
    if facts.resolved_at is not None:
        return _stale(f"It is resolved: the monitor said so at {shown_moment(facts.resolved_at)}.")
    age = facts.received_at - question.starts_at
    if age > question.rule.max_age:
        return _stale(f"It was {_span(age)} old when it came; the rule takes {_span(question.rule.max_age)}.")
    if case.now - facts.heard_at > STILL_TRUE:
        return _stale(f"Nobody has said since {shown_moment(facts.heard_at)} that it still fires.")
    booted = _older_boot(facts)
    if booted is not None and question.starts_at <= booted:
        return _stale(f"It began before the last boot of {question.node}, which was after {shown_moment(booted)}.")
    cured = _latest(one.ended_at for one in facts.past if _cured_by(one, question.rule.runbook))
    if cured is not None and question.starts_at < cured:
        return _stale(f"It began before {question.rule.runbook} cured {question.node} at {shown_moment(cured)}.")
    return None


def _is_paused(case: _Case) -> AlertJudgement | None:
    if case.facts.pause is not None:
        return _held(case, HeldBy.PAUSE, f"Alerts are {case.facts.pause.words}")
    frozen = case.policy.frozen(case.now, [load.pool for load in case.facts.pools])
    if frozen is not None:
        freeze, end = frozen
        return _held(case, HeldBy.FREEZE, f"The freeze {freeze.name} lasts until {shown_moment(end)}.", until=end)
    breaker = case.facts.breaker
    if breaker is not None and breaker.latched:
        return _held(case, HeldBy.BREAKER, f"The breaker {breaker.name} is latched: {breaker.reason}")
    return None


def _is_tried(case: _Case) -> AlertJudgement | None:
    rule, node = case.question.rule, case.question.node
    of_rule = [one for one in case.facts.past if one.rule == rule.name and one.played and not one.escalated]
    last = max(of_rule, key=lambda one: one.created_at, default=None)
    if last is not None and case.now - last.created_at < rule.dedup:
        reason = f"The rule {rule.name} has started run {last.run_id} on {node} within {_span(rule.dedup)}."
        return AlertJudgement(AlertVerdict.DEDUPLICATED, reason, run_id=last.run_id)
    ended = _latest(one.ended_at for one in case.facts.past if one.played and _counts(one, rule))
    if ended is not None and case.now < ended + rule.cooldown:
        reason = f"{node} is left in peace until {shown_moment(ended + rule.cooldown)}, after a run that has ended."
        return AlertJudgement(AlertVerdict.COOLING_DOWN, reason)
    budget = rule.attempts
    if budget is None:
        return None
    tries = sum(case.now - one.created_at < budget.within for one in of_rule)
    if tries < budget.most:
        return None
    reason = f"The rule {rule.name} has tried {node} {_times(tries)} within {_span(budget.within)}; a person must look."
    return AlertJudgement(AlertVerdict.REFUSED, reason)


def _is_taken(case: _Case) -> AlertJudgement | None:
    hold, busy, node = case.facts.hold, case.facts.busy, case.question.node
    if hold is not None and hold.active(case.now):
        return _held(case, HeldBy.HOLD, f"Node {node} is {hold.words}", until=hold.until)
    if busy is not None and case.question.acts:
        return _held(case, HeldBy.BUSY, f"Run {busy.run_id} ({busy.runbook}, {busy.state}) has the node {node}.")
    return None


def _is_too_much(case: _Case) -> AlertJudgement | None:
    facts, limits = case.facts, case.policy.blast_radius
    if not case.question.acts:
        return None
    if case.question.node not in facts.in_window and len(facts.in_window) >= limits.per_window.most:
        reason = (
            f"Alerts have disrupted {_nodes(len(facts.in_window))} within {_span(limits.per_window.within)}, and "
            f"{limits.per_window.most} may be: the breaker is latched until an admin resets it."
        )
        held = _held(case, HeldBy.BREAKER, reason)
        return AlertJudgement(held.verdict, reason, held.held_by, held.wake_at, latches=True)
    if facts.disrupted >= limits.nodes_at_once:
        reason = f"Blast radius: {_nodes(facts.disrupted)} disrupted at this moment, and {limits.nodes_at_once} may be."
        return _held(case, HeldBy.BLAST_RADIUS, reason)
    for load in facts.pools:
        most = limits.of_pool(load.size)
        if load.disrupted >= most:
            reason = (
                f"Blast radius: {load.disrupted} of {_nodes(load.size)} of pool {load.pool} disrupted, {most} may be."
            )
            return _held(case, HeldBy.BLAST_RADIUS, reason)
    return None


def _is_owned(case: _Case) -> AlertJudgement | None:
    owners = case.facts.owners
    if owners is None or not case.question.acts:
        return None
    reason = foreign_owner(owners, case.question.node)
    return _held(case, HeldBy.OWNER, reason) if reason else None


# Who else has the node is asked last: it costs a look at a cluster.
_RAILS = (_is_known, _is_stale, _is_paused, _is_tried, _is_taken, _is_too_much, _is_owned)


def _stale(reason: str) -> AlertJudgement:
    return AlertJudgement(AlertVerdict.STALE, reason)


def _held(case: _Case, held_by: HeldBy, reason: str, *, until: datetime | None = None) -> AlertJudgement:
    again = LOOK_AGAIN_LATE if held_by in (HeldBy.PAUSE, HeldBy.BREAKER) else LOOK_AGAIN
    return AlertJudgement(AlertVerdict.HELD, reason, held_by, until if until is not None else case.now + again)


def _cured_by(one: PastRun, runbook: str) -> bool:
    return one.runbook == runbook and one.verdict is Verdict.CURED


def _counts(one: PastRun, rule: Rule) -> bool:
    """Whether a run keeps a rule from the node for a while: its own, or a real one of the same runbook."""
    return one.rule == rule.name or (one.runbook == rule.runbook and not one.dry_run)


def _older_boot(facts: RailFacts) -> datetime | None:
    """Return the latest time at which the node is known to have run an earlier boot than its last one."""
    seen = sorted((one for one in facts.past if one.first_boot_id and one.started_at), key=lambda one: one.created_at)
    earlier = (one.started_at for one in seen if one.first_boot_id != seen[-1].first_boot_id)
    return _latest((*earlier, facts.rebooted_at))


def _latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((one for one in times if one is not None), default=None)


def _span(time: timedelta) -> str:
    """Return a length of time as people say it, such as `1 h 30 min`."""
    seconds = int(time.total_seconds())
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"
