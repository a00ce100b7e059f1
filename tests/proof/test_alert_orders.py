"""Each alert a hundred times, in any order, and the word that it is over before the word that it began."""

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lab.postgres import Postgres
from service.domain.alert import Alert, AlertStatus
from service.domain.delivery import AlertVerdict
from service.store import migrate
from tests.app.alerting import alert, deliver, follow, judge, resolved, rule
from tests.app.conftest import RUNBOOKS, table, works
from tests.proof.counts import count
from tests.support.world import World, local_nodes

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.proof

TIMES = count("alert_repeats", 100)
NODES = tuple(f"gpu-{number:02}" for number in range(1, 21))


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/unstick.db"
    else:
        server: Postgres = request.getfixturevalue("postgres_server")
        url = server.create()
        migrate.upgrade(url)
    made = World.build(url, table(NODES, works("cure")), inventory=local_nodes(*NODES), runbooks=RUNBOOKS)
    return follow(made, rule(dedup=timedelta(0), max_age=timedelta(days=1)))


def deliveries(world: World, chance: random.Random) -> tuple[list[tuple[Alert, ...]], set[str]]:
    """Return what comes: the faults of half the nodes end before they are first told of; and which those are."""
    began = world.clock.now()
    faults = [alert(world, node, starts_at=began) for node in NODES]
    over_first = faults[::2]
    said = [one for one in faults for _ in range(TIMES)] + [resolved(one) for one in faults for _ in range(3)]
    chance.shuffle(said)
    said = [resolved(one) for one in over_first] + said
    parts = []
    while said:
        size = chance.randrange(1, 12)
        parts.append(tuple(said[:size]))
        said = said[size:]
    return parts, {one.fingerprint for one in over_first}


def test_whatever_the_order_and_the_number_each_fault_is_acted_on_once_or_never(
    world: World, record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> None:
    chance = random.Random(4)
    parts, over_first = deliveries(world, chance)
    for part in parts:
        deliver(world, *part)
        if chance.random() < 0.3:
            judge(world)
            world.settle(past_waits=False)
    found = judge(world)
    world.settle(past_waits=False)
    world.close()

    database = request.node.callspec.params["world"]
    record_property("proof", f"each alert {TIMES} times, reordered, half of them resolved before they fire, {database}")
    record_property("count", f"{len(found)} alerts in {len(parts)} deliveries")
    assert len(found) == sum(map(len, parts))
    assert None not in {one.verdict for one in found}
    ran = sorted(one.fingerprint for one in found if one.verdict is AlertVerdict.RAN)
    assert len(ran) == len(set(ran))
    assert not set(ran) & over_first
    told_first: dict[str, AlertStatus] = {}
    for one in found:
        told_first.setdefault(one.fingerprint, one.status)
    assert set(ran) <= {name for name, status in told_first.items() if status is AlertStatus.FIRING}
    assert len(ran) >= 1
