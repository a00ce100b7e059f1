"""Serves: web and engine in one process, from a bound socket to the last answer.

What it serves with is built in `main.py`; here is when each part begins and ends.
"""

import os
import platform
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from service import logging
from service.app.ports import Clock
from service.app.tokens import create_token, revoke_token
from service.domain.errors import ConfigInvalid, Conflict, Unavailable
from service.domain.known_secrets import KNOWN
from service.domain.person import Role
from service.inventory.sourced import SourcedInventory
from service.main import Ports, SystemClock, build_engine, build_executors, build_service, open_store
from service.settings import Settings
from service.web.listening import listen, url_of

if TYPE_CHECKING:
    import uvicorn

    from service.store.locks import EngineLock

#: After SIGTERM scripts that are followed are given this long (seconds); then they go on alone.
GRACE: Final = 5.0
#: A start waits so long for sources of nodes (seconds), so that runs of before find their nodes known.
_FIRST_LOOK: Final = 20.0
#: What else stands in the environment of the service and is no business of who reads an output.
_SECRET_VARIABLES: Final = ("UNSTICK_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PGPASSWORD")
_DEV_TOKEN_LIVES: Final = timedelta(hours=24)

log = structlog.get_logger()


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
    KNOWN.learn(*(os.environ.get(name, "").strip() for name in _SECRET_VARIABLES))
    lock = locks.acquire(url, name="serve")
    try:
        store = open_store(settings, clock, lock=lock)
        try:
            ports = between(Ports(store, build_executors(clock)))
            listener = listen(settings.host, settings.port)
            with listener:
                _Serving(settings, ports, lock=lock, clock=clock).run(listener, dev=dev, say=say)
        finally:
            # What was accepted is committed before anything says that the service has stopped.
            store.close()
            log.info("serve.stopped")
    finally:
        lock.release()


class _Serving:
    """One service on its way from start to stop."""

    def __init__(self, settings: Settings, ports: Ports, *, lock: "EngineLock", clock: Clock) -> None:
        self._url = settings.database_url.get_secret_value()
        self._requests_per_second = settings.requests_per_second
        self._lock = lock
        self._executors = ports.executors
        base = build_service(settings, ports, clock=clock)
        # Read once, so that a wrong file is told at start and not at three in the morning.
        for source in (base.inventory, base.rules, base.policy, base.login):
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

    def _server(self) -> "uvicorn.Server":
        from service.web.app import create_app
        from service.web.connections import bounded_server
        from service.web.forwarded import ON_THIS_MACHINE
        from service.web.rates import rates_of

        app = create_app(
            self._service,
            readiness=(self._engine.fault, *self._file_faults(), self._lock_fault),
            rates=rates_of(self._requests_per_second),
            # uvicorn's own name for it.
            forwarders=os.environ.get("FORWARDED_ALLOW_IPS") or ON_THIS_MACHINE,
        )
        return bounded_server(app)

    def _file_faults(self) -> Iterator[Callable[[], str | None]]:
        """Yield for each file that may become wrong under the service what says why it is not used."""
        for source in (self._inventory, self._service.rules, self._service.policy, self._service.login):
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
