"""A storm of alerts over HTTP into the real service: the limits hold at every moment, and nothing is lost."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from service.app.alert_ports import AlertFilter
from service.domain.delivery import AlertVerdict, HeldBy, RecordedAlert
from service.domain.person import Role
from service.main import SystemClock, open_store
from service.settings import Settings
from service.store.sql_store import SqlStore
from tests.cli.installation import Installation, Serving
from tests.proof.counts import count

pytestmark = pytest.mark.proof

ALERTS, SECONDS, GROUPS, NODES = count("storm_alerts", 10_000), count("storm_seconds", 60), 200, 50
AT_ONCE, IN_WINDOW = 5, 20
#: It only stops a hang.
HANG = 1800.0
FAULTS = ("Ghost", "Phantom", "Stuck", "Blind")
RULES = "sources:\n  prom: {kind: alertmanager, token: prom}\nrules:\n" + "".join(
    f'  - {{name: {name.lower()}, when: alert.labels.alertname == "{name}", runbook: slow, node: alert.labels.node}}\n'
    for name in FAULTS
)
#: Each run has its node for a while, so that the limit of nodes at once is met.
RUNBOOK = """\
schema: 1
name: slow
title: Act for a while
owner: tests
description: For a storm.
steps:
  - id: touch
    title: Act on a thing
    timeout: 2m
    check: |
      echo thing >"$UNSTICK_TARGETS"
    run: |
      sleep 15
    verify: |
      true
"""
POLICY = f"""\
blast_radius:
  nodes_at_once: {AT_ONCE}
  per_window: {{most: {IN_WINDOW}, within: 1h}}
  percent_of_pool: 100
"""


@dataclass
class Watch:
    """Looks at the record beside the service, again and again, for more than is allowed."""

    store: SqlStore
    looks: int = 0
    most_at_once: int = 0
    most_in_window: int = 0
    broken: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look until it is stopped."""
        while not self._stopping.wait(0.02):
            self.look()

    def look(self) -> None:
        """Look once."""
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        acting, window = self.store.read(lambda reader: (reader.open_acting(), reader.disrupted_since(hour_ago)))
        nodes = Counter(one.node for one in acting)
        self.looks += 1
        self.most_at_once = max(self.most_at_once, len(nodes))
        self.most_in_window = max(self.most_in_window, len(window))
        if max(nodes.values(), default=0) > 1 or len(nodes) > AT_ONCE or len(window) > IN_WINDOW:
            self.broken.append(f"{dict(nodes)}, {len(window)} in the window")

    def stop(self) -> None:
        """Let the loop end."""
        self._stopping.set()


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    made = Installation(tmp_path / "place")
    (made.folder / "config" / "rules.yaml").write_text(RULES)
    (made.folder / "config" / "policy.yaml").write_text(POLICY)
    (made.folder / "runbooks" / "slow.yaml").write_text(RUNBOOK)
    return made


@pytest.fixture
def store(place: Installation) -> Iterator[SqlStore]:
    settings = Settings(database_url=SecretStr(f"sqlite:///{place.database}"))
    with closing(open_store(settings, SystemClock())) as opened:
        yield opened


def firing(number: int, *, name: str, node: str) -> dict[str, Any]:
    labels = {"alertname": name, "node": node, "unit": str(number), "job": "node", "severity": "critical"}
    return {
        "status": "firing",
        "labels": labels,
        "annotations": {"summary": f"{name} on {node}", "description": "x" * 200},
        "startsAt": datetime.now(UTC).isoformat(),
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.example.net:9090/graph?g0.expr=up+%3D%3D+0&g0.tab=1",
        "fingerprint": f"{number:016x}",
    }


def body(alerts: Sequence[object], *, omitted: int = 0) -> bytes:
    return json.dumps({"version": "4", "status": "firing", "truncatedAlerts": omitted, "alerts": alerts}).encode()


def group(number: int) -> bytes:
    """Return one group: one fault of one node, with its share of the alerts."""
    name, node = FAULTS[number % len(FAULTS)], f"n{number // len(FAULTS):02}"
    share = ALERTS // GROUPS
    return body([firing(number * share + one, name=name, node=node) for one in range(share)])


def post(serving: Serving, token: str, content: bytes) -> tuple[int, float]:
    """Deliver as Alertmanager does: again, as long as it is not taken. Return the tries and the seconds of the last."""
    for tries in range(1, 100):
        began = time.monotonic()
        try:
            answer = httpx.post(
                f"{serving.url}/webhooks/prom",
                content=content,
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
                trust_env=False,
            )
            if answer.status_code == 202:
                return tries, time.monotonic() - began
            assert answer.status_code >= 500, answer.text
        except httpx.TransportError:
            pass
        time.sleep(1.0)
    raise AssertionError("it is not taken")


def recorded(store: SqlStore) -> list[RecordedAlert]:
    page = store.read(lambda reader: reader.alerts(AlertFilter(), cursor=None, limit=1_000_000))
    return list(page.items)


def at_rest(store: SqlStore, *, alerts: int) -> list[RecordedAlert]:
    """Wait until all of them are judged and no run acts; return them."""
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline:
        if not store.read(lambda reader: reader.waiting_alerts(most=1) or reader.open_acting()):
            found = recorded(store)
            if len(found) >= alerts and None not in {one.verdict for one in found}:
                return found
        time.sleep(0.5)
    raise AssertionError("it does not come to rest")


def test_ten_thousand_alerts_in_a_minute_break_no_limit_and_none_is_lost(
    place: Installation, store: SqlStore, record_property: Callable[[str, object], None]
) -> None:
    token, watch = place.token("prom", Role.SOURCE), Watch(store)
    with place.serving() as serving, ThreadPoolExecutor(32) as pool:
        looking = pool.submit(watch.run)
        began, sent = time.monotonic(), []
        for number in range(GROUPS):
            time.sleep(max(0.0, began + number * SECONDS / GROUPS - time.monotonic()))
            sent.append(pool.submit(post, serving, token, group(number)))
        answers = [one.result() for one in sent]
        taken = time.monotonic() - began
        found = at_rest(store, alerts=ALERTS)
        judged = time.monotonic() - began
        watch.stop()
        looking.result()
    verified = place("audit", "verify")

    verdicts = Counter(one.verdict for one in found)
    told = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    record_property(
        "proof", f"{ALERTS} alerts in {SECONDS} s in {GROUPS} groups over {NODES} nodes: no limit is broken"
    )
    slowest = max(seconds for _, seconds in answers)
    record_property(
        "count",
        f"{ALERTS} alerts: {told}; all taken after {taken:.0f} s (slowest answer {slowest:.1f} s), "
        f"judged after {judged:.0f} s; {watch.looks} looks: at most {watch.most_at_once} nodes at once, "
        f"{watch.most_in_window} in the hour",
    )
    assert watch.broken == []
    assert sorted(one.fingerprint for one in found) == [f"{number:016x}" for number in range(ALERTS)]
    assert (watch.most_at_once, watch.most_in_window) == (AT_ONCE, IN_WINDOW)
    assert verdicts[AlertVerdict.RAN] >= IN_WINDOW
    held = {one.held_by for one in found if one.verdict is AlertVerdict.HELD}
    assert held <= {HeldBy.BREAKER, HeldBy.BLAST_RADIUS, HeldBy.BUSY}
    assert verified.returncode == 0, verified.stdout


def test_one_group_of_five_thousand_with_more_left_out_is_taken_whole(
    place: Installation, store: SqlStore, record_property: Callable[[str, object], None]
) -> None:
    token, watch, many = place.token("prom", Role.SOURCE), Watch(store), 5000
    nodes = "".join(f"  n{number:03}: {{executor: local, view: private}}\n" for number in range(300))
    (place.folder / "config" / "inventory.yaml").write_text(f"nodes:\n{nodes}")
    content = body([firing(one, name="Ghost", node=f"n{one % 300:03}") for one in range(many)], omitted=812)
    with place.serving() as serving, ThreadPoolExecutor(1) as pool:
        looking = pool.submit(watch.run)
        tries, seconds = post(serving, token, content)
        found = at_rest(store, alerts=many)
        watch.stop()
        looking.result()

    delivery = store.read(lambda reader: reader.delivery(found[0].delivery_id))
    verdicts = Counter(one.verdict for one in found)
    record_property(
        "proof", "one delivery of 5000 alerts on 300 nodes with 812 left out: taken whole, within the limits"
    )
    told = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    record_property("count", f"{len(content) / 1e6:.1f} MB answered in {seconds:.1f} s; {told}")
    assert (watch.broken, len(found), delivery.omitted, tries) == ([], many, 812, 1)
    assert len({one.node for one in found if one.verdict is AlertVerdict.RAN}) == IN_WINDOW
    assert seconds < 5
