"""Thirty days of a thousand nodes in a real Prometheus: a backtest says what the service would have said live."""

import heapq
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from service.app.drive import drive
from service.app.judge_alerts import judge_due
from service.domain.delivery import RecordedAlert
from service.domain.run import NodeRun
from service.triggers.policy_file import FilePolicy
from service.triggers.prometheus_history import Access, PrometheusHistory, Wanted
from service.triggers.prometheus_series import GROUP_WAIT, Delivered
from service.triggers.rules_file import FileRules
from tests.app.alerting import deliver
from tests.app.conftest import RUNBOOKS, table, works
from tests.cli.installation import Installation
from tests.monitoring.fired import EVERY, Fired, back_fill
from tests.monitoring.running import prometheus
from tests.proof.counts import count
from tests.support.world import SteppedClock, World, local_nodes

pytestmark = pytest.mark.proof

NODES, DAYS, ALERTS = count("backtest_nodes", 1000), 30, count("backtest_alerts", 600)
DAY = 86_400
SEED = 4
#: How long a run has its node.
LASTS = timedelta(minutes=1)
RULES = """\
sources:
  prom: {kind: alertmanager, token: prom}
rules:
  - name: ghost
    when: alert.labels.alertname == "Ghost"
    runbook: cure
    node: alert.labels.instance
    waive: [cure]
    dedup: 30m
    cooldown: 1h
    attempts: {most: 2, within: 72h}
  - name: stuck
    when: alert.labels.alertname == "Stuck"
    runbook: cure
    node: alert.labels.node
    waive: [cure]
    max_age: 20m
"""
#: A storm in the last days goes beyond it and latches the breaker.
POLICY = "blast_radius: {nodes_at_once: 1000, per_window: {most: 25, within: 1h}, percent_of_pool: 100}\n"


def name_of(number: int) -> str:
    return f"gpu-{number:04}"


def happened(begin: int, chance: random.Random) -> list[Fired]:
    """Return what has fired since BEGIN: short, long and repeated faults, some of nodes that nobody knows."""
    free_at: dict[tuple[str, str], int] = {}
    fired = []
    ats = [chance.randrange(EVERY, (DAYS - 1) * DAY) for _ in range(ALERTS)]
    storm = [(DAYS - 2) * DAY + chance.randrange(1200) for _ in range(60)]
    bad = chance.sample(range(NODES), NODES // 10)
    for at in sorted(ats + storm):
        number = chance.choice(bad) if chance.random() < 0.6 else chance.randrange(NODES)
        node = name_of(number) if chance.random() < 0.95 else f"gone-{number}"
        name = chance.choice(("Ghost", "Ghost", "Stuck", "Other"))
        if free_at.get((name, node), 0) >= at:
            continue
        length = chance.choice((0, 1, 5, 20, 60, 240)) * EVERY
        free_at[name, node] = at + length + 2 * EVERY
        held = chance.choice((0, 5, 15)) * EVERY
        labels = {"alertname": name, "node": node, "instance": f"{node}:9100", "severity": "critical"}
        fired.append(Fired(labels, begin + at - held, begin + at, begin + at + length))
    return fired


@dataclass
class Live:
    """The service, whose clock stands at each delivery and at the end of each run."""

    world: World
    _ends: list[datetime] = field(default_factory=list)

    def hear(self, one: Delivered) -> None:
        """Receive and judge one alert at its time, after the runs that have ended by then."""
        self.end_runs(one.at)
        self._move_to(one.at)
        deliver(self.world, one.alert)
        self._judge()

    def end_runs(self, until: datetime) -> None:
        """Let runs end whose time is over."""
        # A run is created some milliseconds behind its alert, and has ended when something comes a whole minute later.
        while self._ends and self._ends[0] <= until + timedelta(seconds=0.5):
            at = heapq.heappop(self._ends)
            self._move_to(at)
            for _ in range(10):
                self._drive(at - LASTS)
            self._judge()

    def _judge(self) -> None:
        before = {run.id for run in self._open()}
        while judge_due(self.world.service):
            pass
        for run in self._open():
            if run.id not in before:
                heapq.heappush(self._ends, run.created_at + LASTS)

    def _open(self) -> list[NodeRun]:
        now = self.world.clock.now()
        return list(self.world.service.store.read(lambda reader: reader.due(now, limit=1000)))

    def _drive(self, created: datetime) -> None:
        now = self.world.clock.now()
        for run in self._open():
            if run.created_at <= created:
                claimed = self.world.service.store.write(
                    lambda transaction, run_id=run.id: transaction.claim(run_id, owner="tests", now=now)  # type: ignore[misc]
                )
                if claimed is not None:
                    drive(self.world.service, claimed)

    def _move_to(self, at: datetime) -> None:
        assert isinstance(self.world.clock, SteppedClock)
        self.world.move_to(max(at, self.world.clock.at))


def played_live(folder: Path, place: Path, delivered: list[Delivered]) -> tuple[RecordedAlert, ...]:
    """Let the service receive and judge them at their times."""
    names = [name_of(number) for number in range(NODES)]
    world = World.build(
        f"sqlite:///{folder}/live.db",
        table(names, works("cure")),
        inventory=local_nodes(*names),
        runbooks=RUNBOOKS,
        clock=SteppedClock(delivered[0].at),
    )
    rules = FileRules(place / "config" / "rules.yaml", world.service.runbooks)
    world.service = replace(world.service, rules=rules, policy=FilePolicy(place / "config" / "policy.yaml"))
    live = Live(world)
    with closing(world):
        for one in delivered:
            live.hear(one)
        live.end_runs(delivered[-1].at + 2 * LASTS)
        first = delivered[0].at
        return world.service.store.read(lambda reader: reader.alerts_since(first, after=None, limit=1_000_000))


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    made = Installation(tmp_path / "place")
    shutil.copytree(RUNBOOKS, made.folder / "runbooks", dirs_exist_ok=True)
    nodes = "".join(f"  {name_of(number)}: {{executor: local, view: private}}\n" for number in range(NODES))
    (made.folder / "config" / "inventory.yaml").write_text(f"nodes:\n{nodes}")
    (made.folder / "config" / "rules.yaml").write_text(RULES)
    (made.folder / "config" / "policy.yaml").write_text(POLICY)
    return made


def test_a_backtest_of_thirty_days_says_what_the_service_says_live(
    place: Installation, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    begin = int(time.time()) - DAYS * DAY
    fired = happened(begin, random.Random(SEED))
    back_fill(tmp_path / "prometheus", fired)
    wanted = Wanted(datetime.fromtimestamp(begin, UTC), datetime.now(UTC))
    with prometheus(tmp_path / "prometheus", {}, arguments=["--storage.tsdb.retention.time=90d"]) as monitor:
        with closing(PrometheusHistory(Access(monitor.url))) as history:
            delivered = history.delivered(wanted)
        since = ("--since", wanted.begin.isoformat(), "--run-lasts", "1m")
        started = time.monotonic()
        done = place("rules", "backtest", "--prometheus", monitor.url, *since, "--json")
        seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    tested = json.loads(done.stdout)["alerts"]
    live = played_live(tmp_path, place.folder, delivered)

    told = [one for one in fired if one.resolved > one.first + GROUP_WAIT]
    assert sorted((one.labels["node"], one.first) for one in told) == sorted(
        {(one.alert.labels["node"], round(one.alert.starts_at.timestamp())) for one in delivered}
    )
    verdicts = Counter(str(one.verdict) for one in live)
    record_property("proof", f"a backtest of {DAYS} days of {NODES} nodes in a real Prometheus against a live replay")
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    record_property("count", f"{len(fired)} alerts, {len(live)} deliveries, in {seconds:.0f} s: {counts}")
    assert [row(one["name"], one) for one in tested] == [row(one.name, vars(one)) for one in live]
    assert len(verdicts) >= 7


def row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is compared; what names a fault that is over is found in the record alone."""
    verdict = str(one["verdict"])
    return (name, verdict, "", "") if verdict == "resolved" else (name, verdict, one["rule"], one["node"])
