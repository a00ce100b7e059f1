"""The real service as its own process, on a database of its own, and a person who asks it for runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bench.measure import cpu_seconds
from lab.closing import Closing
from lab.sshd import SshdFarm
from service.app.ports import AuditFilter
from service.app.tokens import create_token
from service.client import Client
from service.domain.audit import first_fault
from service.domain.person import Role
from service.domain.run import History
from service.domain.script import Stream
from service.main import SystemClock, open_store, record_service
from service.settings import Settings
from service.store.sql_store import SqlStore

RUNBOOKS = Path(__file__).with_name("runbooks")
#: Seconds after which a run that has not ended is a hang.
HANG = 1200.0
_OPEN = ("queued", "running", "waiting", "stuck")


@dataclass(frozen=True)
class Ran:
    """A run from request to end, as the person who asked saw it."""

    run_id: str
    wall: float
    #: CPU of the service and of the process that asked.
    cpu: float


class Served(Closing):
    """`unstick serve` with the farm as its inventory."""

    def __init__(self, folder: Path, farm: SshdFarm, *, rules: str = "") -> None:
        """Write its files, start it, and wait until it has said where it is."""
        self._settings = Settings(database_url=SecretStr(f"sqlite:///{folder}/unstick.db"))
        (folder / "config").mkdir(parents=True)
        self.nodes = tuple(f"n{number:03}" for number in range(1, len(farm.servers) + 1))
        lines = [
            f"  {name}: {{executor: ssh, address: {server.address}, port: {server.port}, user: {farm.user}, "
            f'view: boot, key_file: {farm.private_key}, host_key: "{server.host_key}"}}\n'
            for name, server in zip(self.nodes, farm.servers, strict=True)
        ]
        (folder / "config" / "inventory.yaml").write_text("nodes:\n" + "".join(lines))
        if rules:
            (folder / "config" / "rules.yaml").write_text(rules)
        self._log = (folder / "serve.log").open("wb")
        self._process = subprocess.Popen(
            [Path(sys.executable).with_name("unstick"), "serve"],
            cwd=folder,
            env=_environment(folder),
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        try:
            self.url = self._greeting()
            self._client = Client(self.url, self.token("bench", Role.OPERATOR, Role.VIEWER))
        except BaseException:
            self.close()
            raise

    def run(self, runbook: str, nodes: Sequence[str], *, every: float) -> Ran:
        """Request a run and wait for its end, looking every so many seconds; RuntimeError unless it succeeds."""
        began, cpu = time.perf_counter(), self._cpu()
        run_id = str(self._client.request("/runs", {"runbook": runbook, "nodes": list(nodes)})["id"])
        while (state := self._state(run_id)) in _OPEN:
            if state == "stuck" or time.perf_counter() - began > HANG:
                raise RuntimeError(f"the run is {state}")
            time.sleep(every)
        ran = Ran(run_id, time.perf_counter() - began, self._cpu() - cpu)
        if state != "succeeded":
            parts = self._client.get(f"/runs/{run_id}")["nodes"]
            told = [f"{node['node']}: {node['reason']}" for node in parts if node["state"] != "succeeded"]
            raise RuntimeError(f"void: the run ended {state}, {len(told)} nodes did not succeed; {told[0]}")
        return ran

    def recorded(self) -> "Recorded":
        """Return what the service has recorded, read beside it."""
        return Recorded(open_store(self._settings, SystemClock()))

    def token(self, name: str, *roles: Role) -> str:
        """Make a token of this name, for a person of this name, beside the service."""
        clock = SystemClock()
        with closing(open_store(self._settings, clock)) as store:
            service = record_service(store, clock=clock)
            return create_token(service, name, roles=frozenset(roles), person=name, by="bench")

    def close(self) -> None:
        """End the service."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._process.pid

    def _state(self, run_id: str) -> str:
        newest: Mapping[str, Any] = self._client.get("/runs", limit=1)["items"][0]
        if newest["id"] != run_id:
            raise RuntimeError("somebody else asks this service")
        return str(newest["state"])

    def _cpu(self) -> float:
        return cpu_seconds(self._process.pid) + time.process_time()

    def _greeting(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line.startswith("unstick serves on "):
            raise RuntimeError(f"the service did not start: see {self._log.name}")
        return line.split()[-1]


class Recorded(Closing):
    """The record of a service."""

    def __init__(self, store: SqlStore) -> None:
        """Read this store; it is closed with this."""
        self._store = store

    def histories(self, run_id: str) -> tuple[History, ...]:
        """Return everything recorded of each node run."""
        return self._store.read(lambda reader: reader.histories(run_id))

    def texts(self, run_id: str, node: str) -> dict[tuple[str, str], str]:
        """Return every script of a node, by step and kind, byte for byte as it was sent."""
        planned = self._store.read(lambda reader: reader.scripts(run_id, node))
        return {(one.step, one.kind.value): one.text for one in planned}

    def output(self, attempt_id: str) -> tuple[bytes, bytes]:
        """Return what is kept of both streams."""
        return self._store.read(
            lambda reader: (reader.output(attempt_id, Stream.STDOUT), reader.output(attempt_id, Stream.STDERR))
        )

    def deliveries(self) -> int:
        """Return how many deliveries of monitors were taken."""
        return sum(one.fact.action == "delivery.received" for one in self._store.audit_events())

    def unjudged(self) -> bool:
        """Whether an alert waits to be judged."""
        return self._store.read(lambda reader: reader.waiting_alerts(most=1)) > 0

    def newest_output(self, node: str, *, since: datetime) -> str:
        """Return what the newest script on this node has said, ended after a time; empty while there is none."""
        which = AuditFilter(node=node, action="attempt.finished", since=since)
        found = self._store.read(lambda reader: reader.audit(which, cursor=None, limit=1)).items
        return self.output(found[0].fact.about.removeprefix("attempt/"))[0].decode().strip() if found else ""

    def events(self) -> int:
        """Return how many audit events there are; RuntimeError when the chain is broken."""
        fault = first_fault(self._store.audit_events())
        if fault is not None:
            raise RuntimeError(f"the audit is broken: {fault}")
        return sum(1 for _ in self._store.audit_events())

    def close(self) -> None:
        """Close the store; the service goes on."""
        self._store.close()


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        # The service beside this file, also when another one is installed.
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "UNSTICK_DATABASE_URL": f"sqlite:///{folder}/unstick.db",
        "UNSTICK_CONFIG": str(folder / "config"),
        "UNSTICK_RUNBOOKS": str(RUNBOOKS),
        "UNSTICK_PORT": "0",
    }
