"""kill -9 around every write and call on the way from a delivery to a cured node: one run, and each script once."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from lab.needs import need_fuse
from service.app.tokens import create_token
from service.domain.person import Role
from service.main import SystemClock, open_store, record_service
from tests.crash.machine import PretendMachine
from tests.crash.matrix import EXECUTIONS, PATIENCE_SECONDS, Play, bare, in_child, settings_for
from tests.proof.counts import count, spread

pytestmark = [pytest.mark.proof, pytest.mark.needs_root]

INVENTORY = "nodes: {gpu-01: {executor: local, view: private, confine: off}}\n"
RULES = """\
sources:
  prom: {kind: alertmanager, token: prom}
rules:
  - {name: six, when: alert.labels.alertname == "Six", runbook: six-steps, node: alert.labels.node}
"""


class AlertPlay(Play):
    """An alert that a monitor says until it is taken, instead of a request."""

    def _play(self) -> dict[str, Any]:
        begun = time.monotonic()
        self._deliver(in_child(lambda: _source_token(self)))
        deadline = begun + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            started = [one for one in self.alerts() if one["verdict"] == "ran"]
            if started:
                return self._follow(started[0]["run_id"], begun)
            time.sleep(0.05)
        raise AssertionError(f"the alert starts nothing: {self.alerts()}")

    def alerts(self) -> list[dict[str, Any]]:
        """Return what was recorded of alerts."""
        found: list[dict[str, Any]] = self._call("GET", "/alerts")["items"]
        return found

    def _deliver(self, token: str) -> None:
        at = f"{datetime.now(UTC) - timedelta(seconds=30):%Y-%m-%dT%H:%M:%SZ}"
        labels = {"alertname": "Six", "node": self.node}
        alert = {"status": "firing", "labels": labels, "annotations": {}, "startsAt": at, "fingerprint": "f1"}
        body = json.dumps({"version": "4", "status": "firing", "alerts": [alert]})
        for _ in range(5):
            try:
                answer = httpx.post(
                    f"{self.served.url}/webhooks/prom", content=body, headers={"Authorization": f"Bearer {token}"},
                    timeout=30, trust_env=False,
                )  # fmt: skip
            except httpx.TransportError:
                self._restart()
                continue
            assert answer.is_success, answer.text
            return
        raise AssertionError("the delivery is not taken")


class Looking(AlertPlay):
    """Reads what is left while the service still runs."""

    left: tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]] = ((), ())

    def _follow(self, run_id: str, begun: float) -> dict[str, Any]:
        run = super()._follow(run_id, begun)
        self.left = (self.alerts(), self._call("GET", "/runs")["items"])
        return run


def _source_token(play: Play) -> str:
    clock = SystemClock()
    store = open_store(play.settings, clock)
    try:
        service = record_service(store, clock=clock)
        return create_token(service, "prom", roles=frozenset({Role.SOURCE}), person="prom", by="tests")
    finally:
        store.close()


@pytest.fixture
def machine() -> Iterator[PretendMachine]:
    need_fuse()
    with PretendMachine() as made:
        yield made


def test_an_alert_starts_one_run_wherever_the_service_is_killed(
    machine: PretendMachine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("proof", "kill -9 at every boundary from a delivery to the cure: one run, each script once")
    config = tmp_path / "config"
    config.mkdir()
    (config / "inventory.yaml").write_text(INVENTORY)
    (config / "rules.yaml").write_text(RULES)

    def play(name: str, crash_at: int | None) -> tuple[Looking, dict[str, Any]]:
        folder = tmp_path / name
        folder.mkdir()
        machine.reset()
        played = Looking(settings_for(folder, config=config), folder, tuple(machine.enter_prefix), "gpu-01", crash_at)
        return played, played.run()

    undisturbed, expected = play("undisturbed", None)
    every = len((undisturbed.folder / "boundaries").read_text().splitlines())
    assert (machine.executions(), expected["trigger"]["kind"]) == (EXECUTIONS, "alert")

    wrong, died = [], 0
    for crash_at in spread(every, count("boundaries", every)):
        played, run = play(str(crash_at), crash_at)
        died += played.restarts > 0
        alerts, runs = played.left
        verdicts = sorted(str(one["verdict"]) for one in alerts)
        seen = (machine.executions(), bare(run), len(runs), verdicts.count("ran"), "None" in verdicts)
        if seen != (EXECUTIONS, bare(expected), 1, 1, False):
            wrong.append((crash_at, seen))

    record_property("count", f"killed at {died} of about {every} boundaries")
    assert wrong == []
    assert died > 0
