"""The composition root: the only place that builds the store, the executors, the engine and the web.

What is built on a large library (paramiko, sqlalchemy, alembic, uvicorn) is imported where it is built: together
they are two thirds of the start of a command that needs none of them.
"""

import hashlib
import os
import platform
import secrets
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from service import logging
from service.app.absent import absent
from service.app.ask_controller import ask_controller
from service.app.guard import GuardedExecutor
from service.app.load_runbooks import RunbookFolder
from service.app.ports import Clock, Executor, Executors, Store
from service.app.service import Service
from service.app.tokens import create_token, revoke_token
from service.domain.errors import ConfigInvalid, Conflict, NotFound, Unavailable
from service.domain.node import Endpoint, Inventory
from service.domain.person import Role
from service.domain.public_key import PublicKey
from service.engine.local import LocalEngine
from service.executors.envelope import node_runner
from service.executors.local import LocalExecutor
from service.executors.registry import ExecutorsByKind
from service.inventory.asked_once import AskedOnce
from service.inventory.file import FileInventory
from service.inventory.kubernetes import KubernetesLook
from service.inventory.slurm import SlurmLook
from service.inventory.source import KubernetesQuestion, Look, SlurmQuestion, SourceConfig, SsmQuestion
from service.inventory.sourced import SourcedInventory
from service.settings import Settings
from service.web.listening import listen, url_of

if TYPE_CHECKING:
    import uvicorn

    from service.store.locks import EngineLock
    from service.store.sql_store import SqlStore

#: After SIGTERM scripts that are followed are given this long (seconds); then they go on alone.
GRACE: Final = 5.0
_REQUEST_GRACE: Final = 5
#: A start waits so long for sources of nodes (seconds), so that runs of before find their nodes known.
_FIRST_LOOK: Final = 20.0
_DEV_TOKEN_LIVES: Final = timedelta(hours=24)

log = structlog.get_logger()


class SystemClock:
    """The time and the ids of this machine."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return datetime.now(UTC)

    def new_id(self) -> str:
        """Return a UUID of version 7 (RFC 9562, section 5.7): milliseconds, then chance, so that ids sort by age."""
        number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
        number = number & ~(0xF << 76) | 0x7 << 76
        return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


@dataclass(frozen=True)
class Ports:
    """The two ports through which everything leaves the process; a test may stand between."""

    store: Store
    executors: Executors


def open_store(
    settings: Settings, clock: Clock, *, lock: "EngineLock | None" = None, must_exist: bool = False
) -> "SqlStore":
    """Open the record; NotFound when `must_exist` and there is no file yet."""
    from service.store.session import is_sqlite, parse_url, sqlite_file
    from service.store.sql_store import SqlStore

    url = settings.database_url.get_secret_value()
    parsed = parse_url(url)
    if must_exist and is_sqlite(parsed) and not sqlite_file(parsed).exists():
        raise NotFound(
            f"There is no database at {sqlite_file(parsed)}.", "Set UNSTICK_DATABASE_URL to the service's own."
        )
    return SqlStore.open(url, clock, lock=lock)


def build_service(settings: Settings, ports: Ports, *, clock: Clock) -> Service:
    """Put the ports together; the engine adds its bell."""
    service = replace(
        files_service(settings, clock=clock),
        store=ports.store,
        inventory=open_inventory(settings, ports.executors, clock=clock),
        executors=ports.executors,
        service_id=service_id(settings),
    )
    return with_alerts(service, settings)


def with_alerts(service: Service, settings: Settings) -> Service:
    """Add what alerts need: rules, limits, and who proves and reads deliveries. Nothing is read yet."""
    from service.triggers.policy_file import FilePolicy
    from service.triggers.receivers import SourceReceivers
    from service.triggers.rules_file import FileRules
    from service.triggers.sns_certificates import SnsCertificates

    certificates = SnsCertificates()
    return replace(
        service,
        rules=FileRules(settings.config / "rules.yaml", service.runbooks),
        policy=FilePolicy(settings.config / "policy.yaml"),
        receivers=SourceReceivers(fetch=certificates.fetch, roots=certificates.roots),
    )


def files_service(settings: Settings, *, clock: Clock) -> Service:
    """Return what works without a database, such as planning; a network only where the file names sources of nodes."""
    return Service(
        store=absent("database"),
        runbooks=RunbookFolder(settings.runbooks_folder),
        inventory=AskedOnce(partial(read_inventory, settings, clock)),
        executors=absent("network"),
        clock=clock,
        envelope_sha256=hashlib.sha256(node_runner()).hexdigest(),
        service_id="",
    )


def inventory_file(settings: Settings) -> Path:
    """Return the file with nodes and controllers."""
    return settings.config / "inventory.yaml"


def read_file(settings: Settings) -> Inventory:
    """Return the nodes and controllers that the file names itself; ConfigInvalid."""
    return FileInventory(inventory_file(settings)).current()


def read_inventory(settings: Settings, clock: Clock, *, names: Sequence[str] = ()) -> Inventory:
    """Return every node, each source asked once, unless the file knows all of `names`; ConfigInvalid."""
    file = FileInventory(inventory_file(settings))
    known = file.current()
    if not file.sources() or (names and all(name in known.nodes for name in names)):
        return known
    with closing(build_executors(clock)) as executors:
        inventory = open_inventory(settings, executors, clock=clock)
        inventory.refresh()
        return inventory.current()


def open_inventory(settings: Settings, executors: Executors, *, clock: Clock) -> SourcedInventory:
    """Return the inventory with its sources; nothing is asked of them yet."""

    def look_of(config: SourceConfig) -> Look:
        ask = partial(ask_controller, executors=executors, clock=clock, service_id=service_id(settings))
        match config.question:
            case SsmQuestion():
                from service.inventory.ssm import SsmLook

                return SsmLook(config.question)
            case KubernetesQuestion():
                return KubernetesLook(config.question, ask)
            case SlurmQuestion():
                return SlurmLook(config.question, ask)

    file = FileInventory(inventory_file(settings))
    return SourcedInventory(file, look_of, now=clock.now, chance=secrets.SystemRandom().random)


def record_service(store: Store, *, clock: Clock) -> Service:
    """Return what works on the database alone, such as tokens."""
    nothing: Any = absent("file of runbooks or nodes")
    return Service(store, nothing, nothing, nothing, clock, envelope_sha256="", service_id="")


def build_executors(clock: Clock) -> Executors:
    """Return the executors of every kind, each behind the guard of dry runs."""
    from service.executors.ssh.executor import SshExecutor

    def ssm() -> Executor:
        # boto3 is loaded for nodes that AWS reaches, and for no others.
        from service.executors.ssm.executor import SsmExecutor

        return GuardedExecutor(SsmExecutor(clock.now))

    return ExecutorsByKind(local=GuardedExecutor(LocalExecutor()), ssh=GuardedExecutor(SshExecutor(clock.now)), ssm=ssm)


def offered_host_keys(endpoint: Endpoint, clock: Clock) -> tuple[PublicKey, ...]:
    """Return the host keys that a machine shows to anybody, the best type first; they prove nothing by themselves."""
    from service.executors.ssh.executor import SshExecutor

    with closing(SshExecutor(clock.now)) as executor:
        return executor.offered_host_keys(endpoint)


def build_engine(base: Service, *, owner: str) -> tuple[Service, LocalEngine]:
    """Return the service with a bell, and the engine that hears it."""

    def ring() -> None:
        # The engine is made from the service that rings it, so it is only named here.
        engine.wake()

    service = replace(base, wake_engine=ring)
    engine = LocalEngine(service, owner=owner)
    return service, engine


def _as_they_are(ports: Ports) -> Ports:
    return ports


def serve(
    settings: Settings,
    *,
    dev: bool,
    say: Callable[[str], None],
    between: Callable[[Ports], Ports] = _as_they_are,
) -> None:
    """Serve until SIGTERM or SIGINT: web and engine in one process.

    `say` gets lines for the person who started it. Raises Conflict when another service has the
    database, ConfigInvalid when a file or the address cannot be used.
    """
    from service.store import locks

    if dev and not settings.loopback:
        raise ConfigInvalid(f"--dev serves on this machine alone, not on {settings.host}.", "Unset UNSTICK_HOST.")
    logging.configure()
    clock = SystemClock()
    url = settings.database_url.get_secret_value()
    lock = locks.acquire(url, name="serve")
    try:
        store = open_store(settings, clock, lock=lock)
        try:
            ports = between(Ports(store, build_executors(clock)))
            listener = listen(settings.host, settings.port)
            with listener:
                _Serving(settings, ports, lock=lock, clock=clock).run(listener, dev=dev, say=say)
        finally:
            store.close()
    finally:
        lock.release()


class _Serving:
    """One service on its way from start to stop."""

    def __init__(self, settings: Settings, ports: Ports, *, lock: "EngineLock", clock: Clock) -> None:
        self._url = settings.database_url.get_secret_value()
        self._lock = lock
        self._executors = ports.executors
        base = build_service(settings, ports, clock=clock)
        # Read once, so that a wrong file is told at start and not at three in the morning.
        for source in (base.inventory, base.rules, base.policy):
            source.current()
        self._inventory = base.inventory
        owner = f"{platform.node()}:{os.getpid()}:{clock.new_id()}"
        self._service, self._engine = build_engine(base, owner=owner)
        self._stopping = threading.Event()
        self._locked = True

    def run(self, listener: socket.socket, *, dev: bool, say: Callable[[str], None]) -> None:
        """Serve on a bound socket until a signal comes or the web ends."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._stopping.set())
        server = self._server()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="web")
        token = self._dev_token() if dev else None
        try:
            if isinstance(self._inventory, SourcedInventory):
                self._inventory.start(wait_seconds=_FIRST_LOOK)
            self._engine.start()
            thread.start()
            self._greet(server, listener, token=token, say=say)
            while thread.is_alive() and not self._stopping.wait(1.0):
                self._mind_lock()
        finally:
            log.info("serve.stopping")
            server.should_exit = True
            self._engine.stop(GRACE)
            if thread.ident is not None:
                thread.join()
            if token is not None:
                revoke_token(self._service, token[0], by="unstick")
            if isinstance(self._inventory, SourcedInventory):
                self._inventory.close()
            self._executors.close()
            log.info("serve.stopped")

    def _server(self) -> "uvicorn.Server":
        import uvicorn

        from service.web.app import create_app

        app = create_app(self._service, readiness=(self._engine.fault, *self._file_faults(), self._lock_fault))
        return uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_REQUEST_GRACE,
            )
        )

    def _file_faults(self) -> Iterator[Callable[[], str | None]]:
        """Yield for each file that may become wrong under the service what says why it is not used."""
        for source in (self._inventory, self._service.rules, self._service.policy):
            yield partial(_fault_of, source)

    def _lock_fault(self) -> str | None:
        return None if self._locked else "Another service may have the database."

    def _greet(
        self,
        server: "uvicorn.Server",
        listener: socket.socket,
        *,
        token: tuple[str, str] | None,
        say: Callable[[str], None],
    ) -> None:
        while not server.started and not server.should_exit:
            if self._stopping.wait(0.02):
                return
        url = url_of(listener)
        log.info("serve.started", url=url, service_id=self._service.service_id)
        say(f"unstick serves on {url}")
        if token is not None:
            say(f"export UNSTICK_URL={url} UNSTICK_TOKEN={token[1]}")

    def _dev_token(self) -> tuple[str, str]:
        """Make a token for whoever started the service; it ends with it, and a second person it is not."""
        name = f"dev-{self._service.clock.new_id()}"
        person = os.environ.get("SUDO_USER") or os.environ.get("USER") or "developer"
        roles = frozenset({Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.ADMIN})
        expires = self._service.clock.now() + _DEV_TOKEN_LIVES
        text = create_token(self._service, name, roles=roles, person=person, by="serve --dev", expires=expires)
        return name, text

    def _mind_lock(self) -> None:
        """Stop when another service may have the database: PostgreSQL has ended the session of our lock."""
        from service.store import locks

        if self._lock.still_held():
            return
        if self._locked:
            self._locked = False
            log.warning("serve.lock_lost")
        try:
            self._lock = locks.acquire(self._url, name="serve")
        except Unavailable:
            return
        except Conflict as taken:
            log.error("serve.lock_taken", reason=taken.reason)
            self._stopping.set()
        else:
            self._locked = True
            log.warning("serve.lock_back")


def _fault_of(source: object) -> str | None:
    problem = getattr(source, "problem", None)
    return problem.reason if isinstance(problem, ConfigInvalid) else None


def service_id(settings: Settings) -> str:
    """Return what names this installation on a node: the host for people, and what tells its database apart."""
    from service.store.session import is_sqlite, parse_url, sqlite_file

    parsed = parse_url(settings.database_url.get_secret_value())
    if is_sqlite(parsed):
        machine = Path("/etc/machine-id")
        place = f"{machine.read_text().strip() if machine.exists() else ''}:{sqlite_file(parsed)}"
    else:
        place = f"{parsed.host}:{parsed.port}/{parsed.database}"
    return f"{platform.node()}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
