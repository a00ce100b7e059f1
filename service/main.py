"""The composition root: the only place that builds the store, the executors, the engine and the web.

What is built on a large library (paramiko, sqlalchemy, alembic, uvicorn) is imported where it is built: together
they are two thirds of the start of a command that needs none of them.
"""

import hashlib
import platform
import secrets
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.app.absent import absent
from service.app.ask_controller import ask_controller
from service.app.guard import GuardedExecutor
from service.app.load_runbooks import RunbookFolder
from service.app.notice_ports import NoticeSender
from service.app.ports import Clock, Executor, Executors, Store
from service.app.service import Service
from service.app.survey_node import NodeSurveyor
from service.domain.errors import NotFound
from service.domain.node import Endpoint, Inventory
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

if TYPE_CHECKING:
    from service.store.locks import EngineLock
    from service.store.sql_store import SqlStore


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
        surveyor=NodeSurveyor(ports.executors, clock, service_id=service_id(settings)),
    )
    return with_login(with_notices(with_alerts(service, settings), settings), settings)


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


def with_notices(service: Service, settings: Settings) -> Service:
    """Add who is told what, and how it is sent. Nothing is read yet."""
    from service.notify.notify_file import FileNotify
    from service.notify.senders import Senders

    def chat() -> NoticeSender:
        # apprise is loaded for chats, and for nothing else.
        from service.notify.chat import ChatSender

        return ChatSender()

    def webhook() -> NoticeSender:
        from service.notify.webhook import WebhookSender

        return WebhookSender()

    return replace(
        service, notify=FileNotify(settings.config / "notify.yaml"), sender=Senders(chat=chat, webhook=webhook)
    )


def with_login(service: Service, settings: Settings) -> Service:
    """Add how persons sign in besides tokens. Nothing is read yet."""
    from service.login.later import ProviderLater
    from service.login.login_file import FileLogin

    return replace(service, login=FileLogin(settings.config / "login.yaml"), provider=ProviderLater())


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

    def ring_for_alerts() -> None:
        engine.wake_judging()

    service = replace(base, wake_engine=ring, wake_judging=ring_for_alerts)
    engine = LocalEngine(service, owner=owner)
    return service, engine


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
