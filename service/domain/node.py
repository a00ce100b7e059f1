"""Nodes, controllers, pools: where scripts run, and what is known of the place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from service.domain.errors import Conflict, NotFound

#: The inode of the kernel's first PID namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO).
FIRST_PID_NAMESPACE = 4026531836


class ExecutorKind(StrEnum):
    """How a script reaches a machine."""

    SSH = "ssh"
    LOCAL = "local"
    SSM = "ssm"


class View(StrEnum):
    """From where a script must look at the machine; anything else is could-not-look."""

    #: The kernel's first PID namespace, and the mount namespace of PID 1.
    MACHINE = "machine"
    #: PID 1 is systemd and the namespaces are those of PID 1: a booted container.
    BOOT = "boot"
    #: Executor local only: the PID namespace of the machine, any mount namespace.
    PRIVATE = "private"


class Become(StrEnum):
    """How the login user turns into root."""

    NONE = "none"
    SUDO = "sudo"


class Login(StrEnum):
    """Which login users are safe: closing the last session of another one fires RemoveIPC."""

    ROOT = "root"
    SYSTEM = "system"
    LINGERING = "lingering"


class Confine(StrEnum):
    """Whether the kernel keeps a script that only reads from touching anything."""

    #: Where it cannot be confined it is not started.
    REQUIRED = "required"
    #: Where it cannot be confined it runs all the same, and its report says so.
    TRY = "try"
    #: It runs as root does.
    OFF = "off"


@dataclass(frozen=True)
class Endpoint:
    """A machine as an executor sees it."""

    name: str
    executor: ExecutorKind
    #: A host name or IP address; for SSM the id of the instance, `i-...` or `mi-...`.
    address: str
    port: int = 22
    user: str = "root"
    key_file: str | None = None
    certificate_file: str | None = None
    #: A known_hosts line without the host, such as `ssh-ed25519 AAAA...`; empty: known_hosts_file.
    host_keys: tuple[str, ...] = ()
    known_hosts_file: str | None = None
    #: Public keys of authorities that sign host certificates.
    host_authorities: tuple[str, ...] = ()
    #: The endpoint through which this one is reached.
    jump: "Endpoint | None" = None
    become: Become = Become.NONE
    login: Login = Login.ROOT
    view: View = View.MACHINE
    confine: Confine = Confine.TRY
    #: Whether a confined script stays the user that logs in: what a controller tells depends on who asks.
    keeps_user: bool = False
    #: `PATH` of every script.
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    #: Of SSM: where the instance is, and a profile of ~/.aws/config; None: what the environment says.
    region: str | None = None
    profile: str | None = None
    #: Of SSM: the document that carries the script, and the SHA-256 that it must have.
    document: str = "AWS-RunShellScript"
    document_hash: str | None = None

    @property
    def unconfined(self) -> str:
        """Return why its looks are not confined, as far as it is known before one; empty: they are to be."""
        return "the inventory says confine: off" if self.confine is Confine.OFF else ""


@dataclass(frozen=True)
class Node:
    """One machine that may be cured."""

    name: str
    endpoint: Endpoint
    pools: tuple[str, ...] = ()
    controller: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    #: The sources that vouch for it; empty: the file names it.
    sources: tuple[str, ...] = ()
    #: What sources say of how it is, such as a ping. Shown to people; no script, condition or digest sees it.
    hints: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Controller:
    """Where steps for a cluster's control plane run, with the environment they are given."""

    name: str
    endpoint: Endpoint
    environment: Mapping[str, str] = field(default_factory=dict)


class SourceKind(StrEnum):
    """Whom a source of nodes asks."""

    SSM = "ssm"
    KUBERNETES = "kubernetes"
    SLURM = "slurm"


@dataclass(frozen=True)
class SourceState:
    """How a source of nodes stands: when it last answered, and what is wrong with it now."""

    name: str
    kind: SourceKind
    #: When the last good answer was asked for; None: there was none yet.
    answered_at: datetime | None
    #: Nothing is planned on nodes that an older answer alone knows.
    stale_after: timedelta
    #: Why the last question brought no answer, or None.
    problem: str | None = None
    #: How many nodes the last good answer had.
    nodes: int = 0

    def age(self, now: datetime) -> timedelta | None:
        """Return how old the last good answer is."""
        return now - self.answered_at if self.answered_at is not None else None

    def stale(self, now: datetime) -> bool:
        """Tell whether nobody may rely on the last good answer any more, or there was none."""
        return self.answered_at is None or now - self.answered_at > self.stale_after


@dataclass(frozen=True)
class Inventory:
    """Every node and controller that is known at one moment."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    controllers: Mapping[str, Controller] = field(default_factory=dict)
    #: Names that stand for no one machine at this moment, and why.
    refused: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceState, ...] = ()
    #: Why the file as it is now is not used, and this is the last good one; None: it is used.
    problem: str | None = None

    def pool_size(self, pool: str) -> int:
        """Return how many nodes are in a pool."""
        return sum(pool in node.pools for node in self.nodes.values())

    def node(self, name: str) -> Node:
        """Return a node; NotFound, or Conflict when nobody can say which machine it is, or whether there is one."""
        if name in self.nodes:
            return self.nodes[name]
        if name in self.refused:
            raise Conflict(self.refused[name], f"Name {name} in inventory.yaml, or mend what the sources say.")
        silent = self.silent()
        if silent is not None:
            raise Conflict(f"Whether there is a node {name} is not known: {silent}", SOURCE_WAY_OUT)
        raise NotFound(f"There is no node {name} in the inventory.", "`unstick nodes` lists the nodes.")

    def here(self) -> tuple[str, ...]:
        """Return the names of the machine of the service itself."""
        return tuple(name for name, node in self.nodes.items() if node.endpoint.executor is ExecutorKind.LOCAL)

    def silent(self) -> str | None:
        """Return which source has never answered, and why, as a sentence; None when each did once."""
        for source in self.sources:
            if source.answered_at is None:
                return f"the source {source.name} has not answered yet. {source.problem or ''}".rstrip()
        return None

    def is_stale(self, node: Node, now: datetime) -> bool:
        """Tell whether every source that vouches for a node is stale; one that the file names is never."""
        return bool(node.sources) and all(source.stale(now) for source in self.sources if source.name in node.sources)

    def refuse_stale(self, node: Node, now: datetime) -> None:
        """Raise Conflict, with the ages, for a node that is stale."""
        if not self.is_stale(node, now):
            return
        states = [source for source in self.sources if source.name in node.sources]
        ages = ", ".join(f"{source.name} {_seconds(source.age(now))}" for source in states)
        problem = next((f" {source.problem}" for source in states if source.problem), "")
        raise Conflict(f"What is known of node {node.name} is too old ({ages}).{problem}", SOURCE_WAY_OUT)


SOURCE_WAY_OUT = "`unstick nodes` shows the sources; mend them, or name the node in inventory.yaml."


def _seconds(age: timedelta | None) -> str:
    return f"{age.total_seconds():.0f} s" if age is not None else "never"
