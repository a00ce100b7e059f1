"""From a stuck connection to the cure and back: the collector, Prometheus, two Alertmanagers, and the real program.

What ships is used as it ships, but for waiting: the copy of the rule fires after three seconds of standstill instead of
ten minutes and one, the copy of Alertmanager's file waits one second.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.ports import free_port
from lab.private import PrivateMounts
from lab.stuck import BusyMount, MountOptions, StuckConnection
from service.client import Client
from service.domain.person import Role
from tests.cli.installation import Installation, Serving, eventually
from tests.monitoring.collector import Collector
from tests.monitoring.promtool import RULES
from tests.monitoring.running import Monitor, alertmanager, prometheus
from tests.support.world import RUNBOOKS

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

#: A type of our own: what other tests have mounted at the same time is not looked at.
OWN = f"fuse.lab{os.getpid()}"
RULES_OF_UNSTICK = f"""\
sources:
  prom: {{kind: alertmanager, token: prom}}
rules:
  - name: stuck-fuse
    sources: [prom]
    when: alert.labels.alertname == "FuseRequestsStuck"
    runbook: abort-stuck-fuse
    node: alert.labels.node
    params: {{hold_seconds: 3, fstype: {OWN}}}
    waive: [abort-dead]
    dedup: 1h
    cooldown: 30m
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, as the part of node_exporter that hands out text files does."""

    extensions_map = {".prom": "text/plain; version=0.0.4"}  # noqa: RUF012 - a name of the library

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@dataclass
class Exporter:
    """The collector, begun again and again as its timer does, and its file on HTTP."""

    collector: Collector
    said: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[str]:
        """Look and serve until the block ends; give the address."""
        self.collector.look()
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(self.collector.out)))
        threads = [threading.Thread(target=server.serve_forever), threading.Thread(target=self._look)]
        for thread in threads:
            thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            self._stopping.set()
            server.shutdown()
            for thread in threads:
                thread.join()
            server.server_close()

    def _look(self) -> None:
        while not self._stopping.wait(0.5):
            self.collector.look()
            self.said.append(self.collector.said)


@dataclass
class Site:
    """An installation whose node n00 is the namespace in which things get stuck."""

    place: Installation
    exporter: Exporter
    #: The tokens of who reads and of who delivers.
    viewer: str
    sender: str

    def ask(self, serving: Serving, path: str, **query: Any) -> Any:
        """Return what the service answers a reader."""
        with Client(serving.url, self.viewer) as client:
            return client.get(path, **query)

    def alerts(self, serving: Serving, status: str) -> list[dict[str, Any]]:
        """Return the judged alerts of this status, the oldest first."""
        items = self.ask(serving, "/alerts", node="n00", limit=200)["items"]
        return [one for one in reversed(items) if one["status"] == status]


@pytest.fixture
def site(tmp_path: Path, private_mounts: PrivateMounts) -> Site:
    folder = tmp_path / "place"
    # Whoever enters a namespace of mounts stands in its root.
    place = Installation(folder, enter=[*private_mounts.enter_prefix, "env", f"--chdir={folder}"])
    (place.folder / "config" / "rules.yaml").write_text(RULES_OF_UNSTICK)
    shutil.copytree(RUNBOOKS, place.folder / "runbooks", dirs_exist_ok=True)
    sender = place.token("prom", Role.SOURCE)
    return Site(place, Exporter(Collector(private_mounts)), place.token("vera", Role.VIEWER), sender)


def watching(folder: Path, exporter: str) -> dict[str, Any]:
    """Return the configuration of a Prometheus that scrapes the node each other second, by the shipped rules."""
    rules = yaml.safe_load(RULES.read_text())
    (stuck,) = [one for group in rules["groups"] for one in group["rules"] if one.get("alert") == "FuseRequestsStuck"]
    assert "> 600" in stuck["expr"]
    # On a busy machine a scrape may be late, which would look like an end of the fault.
    stuck |= {"expr": stuck["expr"].replace("> 600", "> 3"), "for": "1s", "keep_firing_for": "5s"}
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    own = {"source_labels": ["fstype"], "regex": f"|{OWN}", "action": "keep"}
    node = {"static_configs": [{"targets": [exporter], "labels": {"node": "n00"}}], "metric_relabel_configs": [own]}
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "nodes", "metrics_path": "/unstick-node.prom", **node}],
    }


def firing(monitor: Monitor) -> list[str]:
    alerts = monitor.get("/api/v1/alerts")["data"]["alerts"]
    return [one["labels"]["alertname"] for one in alerts if one["state"] == "firing"]


@pytest.mark.parametrize("down", [0, pytest.param(60, marks=pytest.mark.proof)])
def test_a_fault_that_begins_while_the_service_is_down_is_cured_once_and_told_from_end_to_end(
    site: Site, private_mounts: PrivateMounts, tmp_path: Path, down: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("proof", f"a fault that fires while the service is down for {down} s is cured once")
    with ExitStack() as stack:
        exporter = stack.enter_context(site.exporter.running())
        site.place.environment["UNSTICK_PORT"] = str(free_port())
        with site.place.serving() as before:
            peers = [
                stack.enter_context(alertmanager(tmp_path / name, to=before.url, token=site.sender))
                for name in ("one", "two")
            ]
            (tmp_path / "prometheus").mkdir()
            config = watching(tmp_path / "prometheus", exporter)
            monitor = stack.enter_context(prometheus(tmp_path / "prometheus", config, alertmanagers=peers))
            eventually(lambda: bool(monitor.get("/api/v1/query", query="unstick_node_look_success")["data"]["result"]))
        busy = stack.enter_context(BusyMount(private_mounts, MountOptions(fstype=OWN)))
        stuck = stack.enter_context(StuckConnection(private_mounts, MountOptions(direct=True, fstype=OWN)))
        eventually(lambda: all(peer.has_failed() for peer in peers))
        time.sleep(down)
        assert firing(monitor) == ["FuseRequestsStuck"]

        with site.place.serving() as after:
            eventually(lambda: len(site.alerts(after, "firing")) >= 2)
            eventually(lambda: {run["state"] for run in site.ask(after, "/runs")["items"]} == {"succeeded"})
            freed, served = stuck.freed(), busy.exists()
            eventually(lambda: firing(monitor) == [])
            eventually(lambda: len(site.alerts(after, "resolved")) >= 2)
            (run,) = site.ask(after, "/runs")["items"]
            shown = site.ask(after, f"/runs/{run['id']}")
            events = site.ask(after, "/audit", run_id=run["id"], limit=200)["items"]
            told, over = site.alerts(after, "firing"), site.alerts(after, "resolved")
        verified = site.place("audit", "verify")

    (node,) = shown["nodes"]
    assert (freed, served, node["node"], node["verdict"]) == (True, True, "n00", "cured")
    assert [(gate["step"], gate["state"]) for gate in shown["gates"]] == [("abort-dead", "waived")]
    assert {one["run_id"] for one in told} == {run["id"]}
    assert [one["verdict"] for one in told] == ["ran"] + ["deduplicated"] * (len(told) - 1)
    assert {(one["verdict"], one["run_id"]) for one in over} == {("resolved", run["id"])}
    told_of_run = [one["action"] for one in reversed(events)]
    scripts = ["attempt.intended", "attempt.finished"]
    assert [action for action in told_of_run if action != "alert.judged"] == [
        "run.requested",
        "node_run.started",
        *scripts * 2,
        "gate.waived",
        *scripts * 5,
        "node_run.ended",
        "run.ended",
    ]
    assert told_of_run.count("alert.judged") == len(told) + len(over)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert set(site.exporter.said) <= {""}
