"""Deliveries and rules for tests of what alerts start."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from service.app.alert_ports import AlertFilter
from service.app.judge_alerts import judge_due
from service.app.receive_alerts import Incoming, Receipt, ToKeep, keep, read, refuse
from service.app.service import Service
from service.domain.alert import Alert, AlertStatus, Parsed
from service.domain.condition import compile_condition
from service.domain.delivery import AlertVerdict, RecordedAlert
from service.domain.errors import Unavailable
from service.domain.policy import BlastRadius, Policy, WindowCap
from service.domain.rule import RULE_NAMES, Rule, RuleSet
from service.domain.run import Run
from tests.support.world import World

#: Limits that are in no test's way.
WIDE = Policy(BlastRadius(1000, WindowCap(1000, timedelta(hours=1)), 100))


@dataclass
class Fixed:
    """Rules or a policy that a test writes down."""

    value: Any

    def current(self) -> Any:
        """Return it."""
        return self.value


def rule(name: str = "ghost", when: str = "alert.labels.alertname == 'Ghost'", **changed: Any) -> Rule:
    """Return a rule that finds the node in a label and asks nobody."""
    node = compile_condition("alert.labels.instance", RULE_NAMES)
    made = Rule(name, compile_condition(when, RULE_NAMES), "cure", node, waive=("cure",))
    return replace(made, **changed)


def follow(world: World, *rules: Rule, policy: Policy = WIDE) -> World:
    """Give the service of a world these rules."""
    world.service = replace(world.service, rules=Fixed(RuleSet({}, rules)), policy=Fixed(policy))
    return world


def alert(world: World, node: str = "gpu-01", *, fingerprint: str = "", **changed: Any) -> Alert:
    """Return a firing alert that began a minute ago."""
    started = changed.pop("starts_at", None) or world.clock.now() - timedelta(minutes=1)
    made = Alert(
        fingerprint or f"f-{node}",
        AlertStatus.FIRING,
        started,
        labels={"alertname": "Ghost", "instance": f"{node}:9400"},
    )
    return replace(made, **changed)


def resolved(one: Alert, at: datetime | None = None) -> Alert:
    """Return the word that this fault is over."""
    return replace(one, status=AlertStatus.RESOLVED, ends_at=at)


def deliver(world: World, *alerts: Alert, key: str | None = None, source: str = "prom", **more: Any) -> Receipt:
    """Store a delivery, as the web does; nothing is judged yet."""
    parsed = Parsed(alerts, delivery_key=key, **more)
    return receive(world.service, Incoming(source, b"{}"), parsed)


def receive(service: Service, incoming: Incoming, parsed: Parsed) -> Receipt:
    """Record one delivery alone."""
    return _keep(service, read(service, incoming, parsed))


def reject(service: Service, incoming: Incoming, reason: str) -> Receipt:
    """Record one alone that is none of its kind."""
    return _keep(service, refuse(service, incoming, reason))


def _keep(service: Service, one: ToKeep) -> Receipt:
    [told] = keep(service, [one])
    if isinstance(told, Unavailable):
        raise told
    return told


def judge(world: World) -> list[RecordedAlert]:
    """Judge what is due, and return every alert, in the order in which they came."""
    for _ in range(1000):
        if not judge_due(world.service):
            return every(world)
    raise AssertionError("it does not come to rest")


def every(world: World) -> list[RecordedAlert]:
    """Return every alert, in the order in which they came."""
    page = world.service.store.read(lambda reader: reader.alerts(AlertFilter(), cursor=None, limit=10_000))
    return list(reversed(page.items))


def verdicts(alerts: Sequence[RecordedAlert]) -> list[AlertVerdict | None]:
    """Return what was decided of each."""
    return [one.verdict for one in alerts]


def say(world: World, *alerts: Alert, **more: Any) -> list[AlertVerdict | None]:
    """Deliver, judge, and return what was decided of each alert, earlier ones too."""
    deliver(world, *alerts, **more)
    return verdicts(judge(world))


def run_of(world: World, one: RecordedAlert) -> Run:
    """Return the run that an alert has started or was folded into."""
    return world.service.store.read(lambda reader: reader.run(one.run_id))
