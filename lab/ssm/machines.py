"""The lab's nodes as SSM's instances, entered without SSH."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import leftovers
from lab.nodes import Node, first_process
from lab.process import wait_until
from lab.ssm.instance import Instance, Prefix


def node_instance(node: Node, identity: str, **named: Any) -> Instance:
    """Make an instance of a booted node; other arguments are those of Instance."""
    return _instance(node.folder_here, identity, **{"name": node.name, "address": node.address, **named})


def standing(name: str, identity: str) -> Instance:
    """Make an instance of a node that another process has booted; LookupError if none stands under this name.

    Where several have the same name it is the first of them; the whole path of a node's folder means that one.
    """
    for record in leftovers.all_records():
        for folder in map(Path, record.folders):
            hostname = folder / "disk/etc/hostname"
            if not record.network_namespaces or not hostname.is_file():
                continue
            hostname_there = hostname.read_text().strip()
            if name in (hostname_there, str(folder)):
                return _instance(folder, identity, name=hostname_there)
    raise LookupError(f"no node {name} stands here; python -m lab.nodes up {name} boots it")


def prefix_of(folder: Path) -> Prefix:
    """Give the prefix into the node of a folder, on whatever boot it is; ProcessLookupError unless users can log in."""

    def prefix() -> Sequence[str]:
        init = first_process(folder)
        run = Path(f"/proc/{init.pid}/root/run")
        if not (run / "systemd/users").is_dir() or (run / "nologin").exists():
            raise ProcessLookupError(f"{folder.name} is on its way up or down")
        return ("nsenter", "-t", str(init.pid), "-m", "-u", "-i", "-n", "-p", "--")

    return prefix


def _instance(folder: Path, identity: str, **named: Any) -> Instance:
    prefix = prefix_of(folder)

    def reboot() -> None:
        wait_until(lambda: _takes_reboot(prefix), f"{folder.name} takes the reboot")

    return Instance(**{"id": identity, "prefix": prefix, "reboot": reboot, **named})


def _takes_reboot(prefix: Prefix) -> bool:
    """Ask for a reboot; a node that has only just come up may not hear it, one that goes down has."""
    try:
        command = [*prefix(), "systemctl", "reboot"]
    except ProcessLookupError:
        return True
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
