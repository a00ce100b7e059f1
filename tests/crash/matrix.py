"""Plays one run against a service that dies at a boundary and is started again."""

import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import httpx

from service.app.guard import GuardedExecutor
from service.app.tokens import create_token
from service.domain.person import Role
from service.executors.local import LocalExecutor
from service.main import SystemClock, open_store, record_service
from service.serving import serve
from service.settings import Settings
from tests.crash.boundaries import Boundaries, counted
from tests.crash.machine import PretendMachine
from tests.support.database import prepare

# What `serve` imports when it is called; here once, and not in each of some hundred forks.
for name in (
    "uvicorn.loops.auto", "uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto", "uvicorn.lifespan.on",
    "service.web.app", "service.executors.ssh.executor", "service.notify.senders", "service.notify.notify_file",
    "service.triggers.policy_file", "service.triggers.receivers", "service.triggers.rules_file",
    "service.triggers.sns_certificates",
):  # fmt: skip
    import_module(name)

RUNBOOKS = Path(__file__).parent / "runbooks"
#: Ids, digests and boots differ between two runs that are the same otherwise.
CHANGING = (
    "attempt",
    "gate",
    "digest",
    "boot_id",
    "output_sha256",
    "token",
    "retry_of",
    "file_sha256",
    "revision",
    "expires_at",
)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PATIENCE_SECONDS = 120.0
#: Of a script that takes longer than usual the output is written once more in between: two boundaries each time.
JITTER = 4
#: What is asked for, beside the node.
SIX_STEPS = {"runbook": "six-steps", "reason": "crash matrix"}
#: What the scripts of that runbook write down, each once.
EXECUTIONS = [
    "evidence run",
    "cordon check",
    "cordon run",
    "cordon verify",
    "repair check",
    "repair run",
    "repair verify",
    "reboot check",
    "reboot run",
    "reboot verify",
    "well verify",
    "uncordon run",
    "uncordon verify",
]


def in_child(work: Callable[[], Any]) -> Any:
    """Do work in a process of its own and return what it returned, as JSON."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _pid, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with {status}"
    return json.loads(text)


@dataclass
class Served:
    """A service process; `crash_at` counts boundaries of this process."""

    settings: Settings
    log: Path
    prefix: tuple[str, ...] | None
    crash_at: int | None = None
    pid: int = 0
    url: str = ""

    def start(self) -> bool:
        """Start it and wait until it listens; False when it died before."""
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            self._serve(writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            line = pipe.readline()
        self.url = line.split()[-1] if line else ""
        return bool(line)

    def kill(self) -> None:
        """End it without a word."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def _serve(self, writing: int) -> None:
        try:
            quiet = os.open(self.log.with_suffix(".serve"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            told = os.fdopen(writing, "w")
            executor = None if self.prefix is None else GuardedExecutor(LocalExecutor(prefix=self.prefix))
            between = counted(Boundaries(self.log, self.crash_at), executor=executor)
            serve(
                self.settings, dev=False, say=lambda line: print(line, file=told, flush=True),
                between=between,
            )  # fmt: skip
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(1)


@dataclass
class Play:
    """One run from the request to its end, whatever happens to the service."""

    settings: Settings
    folder: Path
    prefix: tuple[str, ...] | None
    node: str
    crash_at: int | None = None
    #: Asked all the time; when it first says so, the service is killed.
    kill_when: Callable[[], bool] | None = None
    request: Mapping[str, Any] = field(default_factory=lambda: SIX_STEPS)
    restarts: int = 0
    #: From the request to the end of the run, once it has ended.
    seconds: float = 0.0
    served: Served = field(init=False)
    #: One for all calls: to make one reads the certificates of the whole world.
    client: httpx.Client = field(init=False)

    def run(self) -> dict[str, Any]:
        """Play and return the run as the service tells it in the end."""
        self.served = Served(self.settings, self.folder / "boundaries", self.prefix, self.crash_at)
        token = in_child(lambda: _token(self.settings))
        if not self.served.start():
            self._restart()
        try:
            with httpx.Client(verify=False, timeout=30, headers={"Authorization": f"Bearer {token}"}) as self.client:
                return self._play()
        finally:
            self.served.kill()

    def audit(self) -> list[Any]:
        """Return the audit of everything but tokens, ids and times removed."""
        return in_child(lambda: _audit(self.settings))  # type: ignore[no-any-return]

    def died(self) -> bool:
        """Whether the service died at the boundary at which it should."""
        return len((self.folder / "boundaries").read_text().splitlines()) == self.crash_at

    def _play(self) -> dict[str, Any]:
        body = {**self.request, "nodes": [self.node]}
        begun = time.monotonic()
        run_id = self._call("POST", "/runs", json=body, headers={"Idempotency-Key": "one"})["id"]
        return self._follow(run_id, begun)

    def _follow(self, run_id: str, begun: float) -> dict[str, Any]:
        """Agree to what a run asks for until it has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            run = self._call("GET", f"/runs/{run_id}")
            if run["state"] not in ("queued", "running", "waiting"):
                self.seconds = time.monotonic() - begun
                return run
            for gate in run["gates"]:
                if gate["state"] == "open":
                    answer = {"digest": gate["digest"], "reason": "agreed"}
                    self._call("POST", f"/approvals/{gate['id']}/approve", json=answer, may_conflict=True)
            # Each look costs the service what a step costs it; a moment for a kill is not to be missed.
            time.sleep(0.2 if self.kill_when is None else 0.05)
            self._kill_if_wanted()
        raise AssertionError(f"the run does not end: {json.dumps(run, indent=1)}")

    def _kill_if_wanted(self) -> None:
        if self.kill_when is not None and self.kill_when():
            self.kill_when = None
            os.kill(self.served.pid, signal.SIGKILL)

    def _call(
        self, method: str, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None,
        may_conflict: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        for _ in range(5):
            try:
                answer = self.client.request(method, f"{self.served.url}/api/v1{path}", json=json, headers=headers)
            except httpx.TransportError:
                self._restart()
                continue
            if not (may_conflict and answer.status_code == httpx.codes.CONFLICT):
                assert answer.is_success, f"{answer.status_code} {answer.text}"
            return answer.json()  # type: ignore[no-any-return]
        raise AssertionError(f"{method} {path} is not answered")

    def _restart(self) -> None:
        os.waitpid(self.served.pid, 0)
        self.restarts += 1
        self.served = Served(self.settings, self.folder / "boundaries-again", self.prefix)
        assert self.served.start(), (self.folder / "boundaries-again.serve").read_text()


def settings_for(folder: Path, *, config: Path, url: str | None = None, runbooks: Path = RUNBOOKS) -> Settings:
    """Return the settings of a service in a folder of its own."""
    return Settings(
        database_url=prepare(url or f"sqlite:///{folder}/unstick.db"),  # type: ignore[arg-type]
        config=config,
        runbooks=runbooks,
        port=0,
    )


class Machine(Protocol):
    """What the runs are played on."""

    def executions(self) -> list[str]:
        """Give what the scripts have written, in order."""


@dataclass
class Undisturbed:
    """What a run leaves when nothing happens to the service."""

    boundaries: list[str]
    audit: list[Any]
    run: dict[str, Any]


def bare(run: dict[str, Any]) -> list[Any]:
    """Return how the run and its steps ended."""
    return [
        run["state"],
        [
            [node["state"], node["verdict"], [[step["id"], step["outcome"]] for step in node["steps"]]]
            for node in run["nodes"]
        ],
    ]


def faults(name: str, played: Play, run: dict[str, Any], *, machine: Machine, undisturbed: Undisturbed) -> list[str]:
    """Return what differs from the undisturbed run; near its end a run may have had fewer boundaries."""
    found = []
    near_the_end = played.crash_at is not None and played.crash_at > len(undisturbed.boundaries) - JITTER
    if played.crash_at is not None and not played.died() and (played.restarts or not near_the_end):
        found.append(f"{name}: it did not die there")
    if machine.executions() != EXECUTIONS:
        found.append(f"{name}: executions {machine.executions()}")
    if bare(run) != bare(undisturbed.run):
        found.append(f"{name}: {bare(run)}")
    audit = played.audit()
    if audit != undisturbed.audit:
        odd = [one for one in audit if one not in undisturbed.audit][:3]
        found.append(f"{name}: audit {len(audit)} against {len(undisturbed.audit)}: {odd}")
    return found


def _token(settings: Settings) -> str:
    clock = SystemClock()
    store = open_store(settings, clock)
    roles = frozenset({Role.VIEWER, Role.OPERATOR, Role.APPROVER})
    try:
        return create_token(record_service(store, clock=clock), "matrix", roles=roles, person="matrix", by="tests")
    finally:
        store.close()


def _audit(settings: Settings) -> list[Any]:
    store = open_store(settings, SystemClock())
    try:
        events = list(store.audit_events())
    finally:
        store.close()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [
        [event.fact.action, event.fact.person, event.fact.node, event.fact.step, _bare(dict(event.fact.body))]
        for event in events
        # Whether an answer gets lost on the way, or comes before the end, is chance, and no crash of the service.
        if not event.fact.action.startswith(("token.", "attempt.lost", "attempt.running"))
    ]


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if key not in CHANGING}
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return UUID.sub("UUID", value) if isinstance(value, str) else value


def play_pretended(
    folder: Path, machine: PretendMachine, config: Path, crash_at: int | None = None
) -> tuple[Play, dict[str, Any]]:
    """Play the run on a pretended machine in its first state."""
    machine.reset()
    played = Play(settings_for(folder, config=config), folder, tuple(machine.enter_prefix), "gpu-01", crash_at)
    return played, played.run()


def faults_at(
    boundaries: Iterable[int], folder: Path, *, machine: PretendMachine, config: Path, undisturbed: Undisturbed
) -> list[str]:
    """Crash at each of the boundaries in a run of its own, and return what differs from the undisturbed run."""
    wrong = []
    for crash_at in boundaries:
        place = folder / str(crash_at)
        place.mkdir()
        played, run = play_pretended(place, machine, config, crash_at)
        name = f"{crash_at} {undisturbed.boundaries[crash_at - 1]}"
        wrong += faults(name, played, run, machine=machine, undisturbed=undisturbed)
    return wrong
