"""Whatever comes, in whatever order and however often: one open acting run on a node, and the limits hold."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.app.judge_alerts import judge_due
from service.domain.alert import Alert
from service.domain.delivery import AlertVerdict
from service.domain.policy import BlastRadius, Policy, WindowCap
from tests.app.alerting import alert, deliver, every, follow, resolved, rule
from tests.app.conftest import RUNBOOKS, table, works
from tests.support.world import World, local_nodes

NODES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04", "gpu-05")
AT_ONCE, IN_WINDOW = 2, 4
POLICY = Policy(BlastRadius(AT_ONCE, WindowCap(IN_WINDOW, timedelta(hours=1)), 100))

#: A fault is a node, a part of it, and which occasion it is.
FAULTS = st.tuples(st.sampled_from(NODES), st.integers(0, 1), st.integers(0, 1))
EVENTS = st.one_of(
    st.tuples(st.just("fire"), st.lists(FAULTS, min_size=1, max_size=6)),
    st.tuples(st.just("resolve"), st.lists(FAULTS, min_size=1, max_size=3)),
    st.tuples(st.just("judge"), st.integers(1, 5)),
    st.tuples(st.just("step"), st.just(1)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


def occasion(world: World, fault: tuple[str, int, int]) -> Alert:
    node, part, number = fault
    at = world.clock.now().replace(hour=2, minute=58 + number, second=0, microsecond=0)
    return alert(world, node, fingerprint=f"{node}/{part}", starts_at=at)


def check_limits(world: World) -> None:
    store = world.service.store
    open_runs = store.read(lambda reader: reader.open_acting())
    per_node = Counter(one.node for one in open_runs)
    hour_ago = world.clock.now() - timedelta(hours=1)

    assert all(number == 1 for number in per_node.values()), per_node
    assert len(per_node) <= AT_ONCE
    assert len(store.read(lambda reader: reader.disrupted_since(hour_ago))) <= IN_WINDOW


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, max_size=14))
def test_no_order_and_no_repetition_breaks_the_limits(events: list[tuple[str, object]]) -> None:
    with TemporaryDirectory() as folder:
        executor = table(NODES, works("cure"))
        url = f"sqlite:///{Path(folder) / 'unstick.db'}"
        world = World.build(url, executor, inventory=local_nodes(*NODES), runbooks=RUNBOOKS)
        loose = replace(rule(), dedup=timedelta(0), max_age=timedelta(days=1))
        follow(world, loose, replace(loose, name="gated", waive=()), policy=POLICY)
        said = 0
        for what, value in events:
            match what, value:
                case "fire" | "resolve", list() as faults:
                    alerts = [occasion(world, one) for one in faults]
                    deliver(world, *(alerts if what == "fire" else map(resolved, alerts)))
                    said += len(alerts)
                case "judge", int() as limit:
                    judge_due(world.service, limit=limit)
                case "wait", int() as minutes:
                    world.move_to(world.clock.at + timedelta(minutes=minutes))  # type: ignore[union-attr]
                case _:
                    world.step()
            check_limits(world)
        while judge_due(world.service):
            check_limits(world)

        found = every(world)
        assert len(found) == said
        assert None not in {one.verdict for one in found}
        ran = [(one.fingerprint, one.starts_at) for one in found if one.verdict is AlertVerdict.RAN]
        assert len(ran) == len(set(ran))
        assert world.chain_holds()
        world.close()
