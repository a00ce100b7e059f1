"""Debian's Prometheus and Alertmanager, each a process on loopback that ends with the test, also when that dies."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cli.installation import PATIENCE, eventually
from tests.monitoring.promtool import MONITORING, need

SHIPPED_ALERTMANAGER = MONITORING / "alertmanager" / "alertmanager.yaml"


@dataclass(frozen=True)
class Monitor:
    """A running Prometheus or Alertmanager."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        """Return where it listens; an empty text until it has said so."""
        found = re.search(r"Listening on\" address=(\S+)", self.log.read_text())
        return f"http://{found[1]}" if found else ""

    def get(self, path: str, **query: Any) -> Any:
        """Return what it answers to a question; an error of HTTP is raised."""
        answer = httpx.get(f"{self.url}{path}", params=query, timeout=PATIENCE, trust_env=False)
        return answer.raise_for_status().json()

    def has_failed(self) -> bool:
        """Whether an Alertmanager found nobody to deliver to."""
        return "Notify attempt failed" in self.log.read_text()


@contextmanager
def alertmanager(folder: Path, *, to: str, token: str) -> Iterator[Monitor]:
    """Run an Alertmanager by the file that ships, but that it waits seconds, not minutes; it posts to this URL."""
    need("prometheus-alertmanager", "prometheus-alertmanager")
    folder.mkdir()
    (folder / "token").write_text(token)
    text = SHIPPED_ALERTMANAGER.read_text().replace("http://127.0.0.1:8000", to)
    text = text.replace("/etc/prometheus/unstick-source.token", str(folder / "token"))
    text = re.sub(r"group_(wait|interval): \w+", r"group_\1: 1s", text)
    (folder / "alertmanager.yaml").write_text(text)
    command = ["prometheus-alertmanager", "--config.file=alertmanager.yaml", "--storage.path=data"]
    with _running(folder, [*command, "--cluster.listen-address="]) as monitor:
        yield monitor


@contextmanager
def prometheus(
    folder: Path, config: dict[str, Any], *, alertmanagers: Sequence[Monitor] = (), arguments: Sequence[str] = ()
) -> Iterator[Monitor]:
    """Run a Prometheus with this configuration on the data in FOLDER/data, and wait until it answers questions."""
    need("prometheus", "prometheus")
    folder.mkdir(exist_ok=True)
    peers = [{"targets": [one.url.removeprefix("http://")]} for one in alertmanagers]
    whole = {**config, "alerting": {"alertmanagers": [{"static_configs": [peer]} for peer in peers]}}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(whole))
    command = ["prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=data", *arguments]
    with _running(folder, command) as monitor:
        eventually(lambda: httpx.get(f"{monitor.url}/-/ready", trust_env=False).status_code == 200)
        yield monitor


@contextmanager
def _running(folder: Path, command: Sequence[str]) -> Iterator[Monitor]:
    # setpriv becomes the program, so the pid is its own.
    whole = ["setpriv", "--pdeathsig=KILL", *command, "--web.listen-address=127.0.0.1:0"]
    log = folder / "log"
    with log.open("wb") as written, subprocess.Popen(whole, cwd=folder, stdout=written, stderr=written) as process:
        try:
            monitor = Monitor(process, log)
            eventually(lambda: bool(monitor.url) or process.poll() is not None)
            assert monitor.url, log.read_text()
            yield monitor
        finally:
            process.kill()
