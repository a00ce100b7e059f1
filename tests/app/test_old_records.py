"""What takes room is dropped by the service itself, as long as the policy says."""

import threading
from dataclasses import replace
from datetime import timedelta

from service.app.drop_old import drop_old
from service.domain.policy import Keep, Policy
from service.engine.local import LocalEngine
from tests.app.alerting import alert, deliver, every, follow, judge
from tests.app.conftest import Make, works


def test_a_delivery_goes_when_its_days_are_over_and_not_before(make: Make) -> None:
    world = make(works("cure"))
    follow(world, policy=replace(Policy(), keep=Keep(delivery_days=7)))
    deliver(world, alert(world))
    judge(world)

    world.move_to(world.clock.now() + timedelta(days=6, hours=23))
    assert drop_old(world.service) == 0
    world.move_to(world.clock.now() + timedelta(hours=2))
    assert drop_old(world.service) == 1

    assert every(world) == []


def test_the_engine_drops_by_itself(make: Make) -> None:
    world = make(works("cure"))
    follow(world, policy=replace(Policy(), keep=Keep(delivery_days=7)))
    deliver(world, alert(world))
    judge(world)
    world.move_to(world.clock.now() + timedelta(days=8))
    engine = LocalEngine(world.service, owner="old")

    engine.start()
    looked = threading.Event()
    for _ in range(100):
        if not every(world):
            break
        looked.wait(0.1)
    engine.stop(5)

    assert every(world) == []
    assert list(world.service.store.audit_events())[-1].fact.action == "delivery.dropped"
