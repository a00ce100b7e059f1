"""The engine plays sweeps by itself, in their places, and cures beside them."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lab.process import wait_until
from service.app.sweep_fleet import fleet
from service.app.sweep_places import MOST_AT_ONCE
from service.app.sweep_request import run_sweep
from service.domain.rule import RuleSet
from service.domain.run import Run
from service.domain.script import OutputChunk, Report, ScriptOrder
from service.domain.sweep import Finding, Sweep
from service.engine.local import LocalEngine
from service.executors.scripted import ScriptedExecutor, exits
from tests.app.alerting import Fixed
from tests.app.conftest import RUNBOOKS, Make, table
from tests.app.sweeping import schedule, state, sweep
from tests.proof.counts import count
from tests.support.world import OPERATOR, RealClock, World, local_nodes

#: Only so that a test that fails does not hang (seconds).
LONG = 60.0
VERY_LONG = 1800.0
FINE = {"cure.check": [exits(77)], "cure.verify": [exits(0)]}


class Counted:
    """Nodes that take a moment to answer, and how many were asked at once; `cured` asks nothing of that."""

    def __init__(self, executor: ScriptedExecutor, *, without: str, seconds: float) -> None:
        self._start = executor.start
        self._without = without
        self._seconds = seconds
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        if order.endpoint.name == self._without:
            return self._start(order, on_output)
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        threading.Event().wait(self._seconds)
        with self._lock:
            self._now -= 1
        return self._start(order, on_output)


@pytest.fixture
def engines() -> Iterator[list[LocalEngine]]:
    started: list[LocalEngine] = []
    yield started
    for engine in started:
        engine.stop(LONG)


def findings(world: World) -> set[Finding | None]:
    rows, _ = fleet(world.service, limit=1000)
    return {row.look.finding if row.look is not None else None for row in rows}


def open_sweeps(world: World) -> tuple[Run, ...]:
    return world.service.store.read(lambda reader: reader.open_sweep_runs())


def test_a_sweep_whose_time_went_by_is_played_at_the_start(make: Make, engines: list[LocalEngine]) -> None:
    world = schedule(make(FINE, nodes=("gpu-01", "gpu-02")), sweep())
    world.move_to(state(world).next_at + timedelta(minutes=1))
    engine = LocalEngine(world.service, owner="tests")
    engines.append(engine)

    engine.start()
    wait_until(lambda: findings(world) == {Finding.FINE}, "both nodes are looked at", seconds=LONG)

    assert engine.fault() is None
    assert world.chain_holds()


@pytest.mark.proof
def test_a_thousand_nodes_are_swept_in_their_places_and_a_cure_goes_first(
    tmp_path: Path, engines: list[LocalEngine], record_property: Callable[[str, object], None]
) -> None:
    nodes = count("swept_nodes", 1000)
    record_property(
        "proof", "nodes under three sweeps at once: places hold, each is looked at, a cure ends before them"
    )
    record_property("count", nodes)
    names = [f"gpu-{number:04}" for number in range(nodes)]
    executor = table(
        names, {**FINE, "gpu-0000:cure.check": [exits(0, targets=["it"])], "gpu-0000:cure.run": [exits(0)]}
    )
    counted = Counted(executor, without="gpu-0000", seconds=0.05)
    executor.start = counted.start  # type: ignore[method-assign]
    url = f"sqlite:///{tmp_path / 'unstick.db'}"
    world = World.build(url, executor, inventory=local_nodes(*names), runbooks=RUNBOOKS, clock=RealClock())
    sweeps = [replace(sweep(name, cron="0 0 1 1 *"), nodes_at_once=20) for name in ("one", "two", "three")]
    engine = _start(world, sweeps)
    engines.append(engine)

    for one in sweeps:
        run_sweep(world.service, one.name, person=OPERATOR)
    cure = world.request("cure", "gpu-0000", waived=("cure",))
    wait_until(lambda: world.node_runs(cure)[0].state.ended, "the cure", seconds=LONG)
    looked_at_then = sum(row.look is not None for row in fleet(world.service, limit=1000)[0])
    wait_until(lambda: not open_sweeps(world), "every node is looked at", seconds=VERY_LONG)

    assert looked_at_then < nodes
    assert counted.most <= MOST_AT_ONCE
    assert findings(world) == {Finding.FINE, Finding.NEEDS}
    assert world.chain_holds()


def _start(world: World, sweeps: list[Sweep]) -> LocalEngine:
    world.service = replace(world.service, rules=Fixed(RuleSet({}, (), tuple(sweeps))))
    engine = LocalEngine(world.service, owner="tests")
    world.service = replace(world.service, wake_engine=engine.wake)
    engine.start()
    return engine
