"""The network of the lab's nodes: a bridge of this machine, and a network namespace with one wire to it per node.

The addresses are of 198.18.0.0/15, which RFC 2544 keeps for tests; nothing is routed and no sysctl is touched.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import leftovers

BRIDGE = "unsticklab"
PREFIX = "198.18.77."
GATEWAY = 1
LAST = 250
LOCK = Path("/run/unstick-lab-bridge.lock")  # one for the machine, whatever the run folder is


@dataclass(frozen=True)
class Wire:
    """One node's place in the network; the number is free again when the record that has it is undone."""

    number: int

    @property
    def address(self) -> str:
        """Give the node's IPv4 address."""
        return f"{PREFIX}{self.number}"

    @property
    def namespace(self) -> str:
        """Give the name of the network namespace."""
        return f"unstick-lab-{self.number}"

    @property
    def link(self) -> str:
        """Give the name of the wire's end at the bridge."""
        return f"{BRIDGE}{self.number}"

    @property
    def hardware_address(self) -> str:
        """Give the MAC address: always the same for a number, so that nobody remembers another for its IPv4 address."""
        return f"02:00:c6:12:4d:{self.number:02x}"

    def cut(self) -> None:
        """Unplug: packets are lost, and nobody is told."""
        ip("link", "set", self.link, "down")

    def mend(self) -> None:
        """Plug in again."""
        ip("link", "set", self.link, "up")


def take_number() -> Wire:
    """Take a free number by making its namespace: the kernel lets only one process have a name."""
    for number in range(GATEWAY + 1, LAST):
        wire = Wire(number)
        made = subprocess.run(["ip", "netns", "add", wire.namespace], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            return wire
        if "File exists" not in made.stderr:
            raise RuntimeError(f"no network namespace: {made.stderr.strip()}")
    raise RuntimeError("no free number for a node; python -m lab.nodes down removes what was left")


def connect(wire: Wire) -> None:
    """Lay the wire from the bridge, which is made if need be, to the namespace."""
    with leftovers.locked(LOCK):
        if not Path(f"/sys/class/net/{BRIDGE}").exists():
            ip("link", "add", BRIDGE, "type", "bridge")
            ip("addr", "add", f"{PREFIX}{GATEWAY}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        far_end = ["peer", "name", "eth0", "address", wire.hardware_address, "netns", wire.namespace]
        ip("link", "add", wire.link, "type", "veth", *far_end)
        ip("link", "set", wire.link, "master", BRIDGE, "up")
    ip("-n", wire.namespace, "addr", "add", f"{wire.address}/24", "dev", "eth0")
    ip("-n", wire.namespace, "link", "set", "eth0", "up")
    ip("-n", wire.namespace, "link", "set", "lo", "up")


def drop_unused_bridge() -> None:
    """Remove the bridge when no wire is left on it."""
    with leftovers.locked(LOCK):
        ports = Path(f"/sys/class/net/{BRIDGE}/brif")
        if ports.is_dir() and not list(ports.iterdir()):
            ip("link", "del", BRIDGE)


def ip(*arguments: str) -> None:
    """Run ip(8); RuntimeError with its words if it refuses."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
