"""A backtest gives the verdicts that the service gave when the alerts came."""

import random
from dataclasses import replace
from datetime import timedelta

from service.domain.alert import Alert, AlertStatus
from service.domain.policy import BlastRadius, Policy, WindowCap
from service.domain.replay import Setting, replay
from service.domain.rule import AttemptBudget
from tests.app.alerting import alert, deliver, every, follow, judge, rule
from tests.app.conftest import Make, works
from tests.support.world import World

NODES = ("gpu-01", "gpu-02", "gpu-03")
#: A scripted run is over within milliseconds of the stepped clock.
LASTS = timedelta(seconds=1)


def one_of(chance: random.Random, world: World, open_faults: list[Alert]) -> Alert:
    """Return a new fault, an open one that is said again, or the word that it is over."""
    if open_faults and chance.random() < 0.5:
        known = chance.choice(open_faults)
        return known if chance.random() < 0.6 else replace(known, status=AlertStatus.RESOLVED)
    node = chance.choice((*NODES, "gpu-99"))
    name = chance.choice(("Ghost", "Ghost", "Ghost", "Other"))
    began = world.clock.now() - timedelta(minutes=chance.choice((0, 1, 5, 90)))
    made = alert(world, node, fingerprint=f"{node}-{chance.randrange(2)}", starts_at=began)
    return replace(made, labels={**made.labels, "alertname": name})


def test_a_backtest_says_what_the_service_said(make: Make) -> None:
    rules = (rule(dedup=timedelta(minutes=5), cooldown=timedelta(minutes=10), attempts=AttemptBudget(2, LASTS * 7200)),)
    policy = Policy(BlastRadius(1000, WindowCap(2, timedelta(minutes=40)), 100))
    world = follow(make(works("cure"), nodes=NODES), *rules, policy=policy)
    chance = random.Random(4)
    open_faults: list[Alert] = []
    for _ in range(60):
        said = one_of(chance, world, open_faults)
        open_faults = [said, *open_faults][:6] if said.status is AlertStatus.FIRING else open_faults
        deliver(world, said)
        judge(world)
        world.settle(past_waits=False)
        world.move_to(world.clock.now() + timedelta(minutes=chance.randrange(1, 9)))

    live = every(world)
    service = world.service
    setting = Setting(service.rules.current(), policy, service.inventory.current(), {"cure": True}, LASTS)
    tested = replay([replace(one, verdict=None, rule="", node="", reason="") for one in live], setting)

    assert [(one.verdict, one.rule, one.node) for one in tested if one.verdict != "resolved"] == [
        (one.verdict, one.rule, one.node) for one in live if one.verdict != "resolved"
    ]
    assert [one.verdict for one in tested] == [one.verdict for one in live]
    assert len({one.verdict for one in live}) >= 7
