"""A backtest over what a real Prometheus keeps, and the names that a real Alertmanager gives to alerts."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.triggers.prometheus_series import fingerprint
from tests.cli.installation import Installation
from tests.monitoring.fired import EVERY, Fired, back_fill
from tests.monitoring.running import Monitor, alertmanager, prometheus

RULES = """\
sources:
  prom: {kind: alertmanager, token: prom}
  spare: {kind: alertmanager, token: spare}
rules:
  - name: ghost
    sources: [prom]
    when: alert.labels.alertname == "Ghost"
    runbook: free
    node: alert.labels.node
    cooldown: 2h
"""
DAY = 86_400
#: An evaluation five days ago.
BEGIN = (int(time.time()) - 5 * DAY) // EVERY * EVERY


def ghost(node: str, first: int, *, minutes: int) -> Fired:
    at = BEGIN + first
    return Fired({"alertname": "Ghost", "node": node}, at - 300, at, at + minutes * 60)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    made = Installation(tmp_path_factory.mktemp("backtest") / "place")
    (made.folder / "config" / "rules.yaml").write_text(RULES)
    return made


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    folder = tmp_path_factory.mktemp("prometheus")
    # An hour, the same again within the cooldown, another node, and one that nobody knows.
    back_fill(
        folder,
        [
            ghost("n00", 0, minutes=60),
            ghost("n00", 2 * 3600, minutes=5),
            ghost("n01", DAY, minutes=5),
            ghost("n99", DAY, minutes=5),
        ],
    )
    with prometheus(folder, {}, arguments=["--storage.tsdb.retention.time=60d"]) as running:
        yield running


def verdicts(text: str) -> list[tuple[int, str, str, str]]:
    alerts: list[dict[str, Any]] = json.loads(text)["alerts"]
    moments = [datetime.fromisoformat(one["received_at"]).timestamp() for one in alerts]
    return sorted(
        (int(at) - BEGIN, one["node"], one["verdict"], one["rule"]) for at, one in zip(moments, alerts, strict=True)
    )


def test_what_fired_in_a_prometheus_is_judged_as_if_it_had_been_delivered(
    place: Installation, monitor: Monitor
) -> None:
    done = place("rules", "backtest", "--prometheus", monitor.url, "--source", "prom", "--since", "30d", "--json")

    assert done.returncode == 0, done.stderr
    assert verdicts(done.stdout) == [
        (10, "n00", "ran", "ghost"),
        (1810, "n00", "deduplicated", "ghost"),
        (3610, "n00", "deduplicated", "ghost"),
        (3670, "", "resolved", ""),
        (7210, "n00", "cooling_down", "ghost"),
        (7570, "", "resolved", ""),
        (DAY + 10, "", "no_node", "ghost"),
        (DAY + 10, "n01", "ran", "ghost"),
        (DAY + 370, "", "resolved", ""),
        (DAY + 370, "", "resolved", ""),
    ]


def test_what_is_asked_wrongly_exits_2_with_a_reason(place: Installation, monitor: Monitor) -> None:
    nobody = place("rules", "backtest", "--prometheus", monitor.url)
    refused = place("rules", "backtest", "--prometheus", monitor.url, "--source", "prom", "--match", "node")

    told = """\
It is not said which source the alerts would have come from.
Give --source. The sources of the kind alertmanager are: prom, spare.
"""
    assert (nobody.returncode, nobody.stderr, refused.returncode) == (2, told, 2)
    assert refused.stderr.startswith(f"{monitor.url} refuses: ")


def test_a_fingerprint_is_the_one_that_alertmanager_gives(tmp_path: Path) -> None:
    labels = [{"alertname": "Ghost", "node": f"gpu-{name}", "instance": name} for name in ("01", "ä", "", "a=b,c")]
    with alertmanager(tmp_path / "one", to="http://127.0.0.1:9", token="none") as peer:
        body = [{"labels": one} for one in labels]
        httpx.post(f"{peer.url}/api/v2/alerts", json=body, trust_env=False).raise_for_status()
        found = {one["fingerprint"] for one in peer.get("/api/v2/alerts")}

    # A label without a value is none.
    assert found == {fingerprint({name: value for name, value in one.items() if value}) for one in labels}
