"""Nodes, controllers, pools: where scripts run, and what is known of the place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

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
    #: `PATH` of every script.
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    #: Of SSM: where the instance is, and a profile of ~/.aws/config; None: what the environment says.
    region: str | None = None
    profile: str | None = None
    #: Of SSM: the document that carries the script, and the SHA-256 that it must have.
    document: str = "AWS-RunShellScript"
    document_hash: str | None = None


@dataclass(frozen=True)
class Node:
    """One machine that may be cured."""

    name: str
    endpoint: Endpoint
    pools: tuple[str, ...] = ()
    controller: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Controller:
    """Where steps for a cluster's control plane run, with the environment they are given."""

    name: str
    endpoint: Endpoint
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Inventory:
    """Every node and controller that is known at one moment."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    controllers: Mapping[str, Controller] = field(default_factory=dict)

    def pool_size(self, pool: str) -> int:
        """Return how many nodes are in a pool."""
        return sum(pool in node.pools for node in self.nodes.values())
