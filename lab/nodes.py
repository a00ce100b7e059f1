"""Nodes that really boot: systemd-nspawn with systemd, logind and sshd, each in a network namespace of its own.

`python -m lab.nodes up [NAME]` starts one that outlives the command, `stuck [NAME]` makes a FUSE connection stuck on
it, `list` shows what stands, `down NAME` takes that one down. `down` alone takes down all that was started by hand or
left by killed tests (`--left`: only that). What a running test has made is left alone.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import control_group, leftovers, network, rootfs
from lab.closing import Closing
from lab.guardian import guarded_record
from lab.leftovers import Connection, Record
from lab.process import Process, wait_until
from lab.sshd import greets
from lab.stuck import StuckConnection

LAB = Path(__file__).resolve().parent
BOOT_SECONDS = 120.0
NSPAWN = (
    "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe", "--bind=/dev/fuse",
    "--kill-signal=SIGRTMIN+3", "--link-journal=no", "--resolv-conf=off", "--timezone=off",
)  # fmt: skip
NODE_FOLDER = "/var/lib/lab"
RAWFUSE = "/usr/local/lib/lab/rawfuse.py"


class Node(Closing):
    """One booted node; it is also a place for FUSE mounts (lab/stuck.py)."""

    port = 22

    def __init__(self, name: str = "gpu-01", *, keep: bool = False, wait: bool = True) -> None:
        """Boot, and wait until users can log in unless told otherwise; `keep` lets it outlive this process."""
        base = rootfs.build()
        self.name = name
        self.private_key = base.private_key
        self._wire = network.take_number()
        self._record = guarded_record(f"node-{self._wire.number}", keep=keep)
        self._record.network_namespaces.append(self._wire.namespace)
        self._record.links.append(self._wire.link)
        self.folder_here = leftovers.run_folder() / self._record.name
        self._record.folders.append(str(self.folder_here))
        self._record.save()
        try:
            network.connect(self._wire)
            self._make_disk(base.folder)
            self._supervisor = self._power_on()
            if wait:
                self.wait()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Give the IPv4 address, which this machine can reach."""
        return self._wire.address

    @property
    def host_key(self) -> str:
        """Give the public host key, as `ssh-ed25519 AAAA...`."""
        return " ".join((self._disk / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2])

    @property
    def boot_id(self) -> str:
        """Give the boot_id as the node sees it; FileNotFoundError while it is down."""
        return (self.root / "proc/sys/kernel/random/boot_id").read_text().strip()

    @property
    def init(self) -> Process:
        """Name the node's first process; ProcessLookupError while it is down."""
        return first_process(self.folder_here)

    def set_reboot_delay(self, seconds: float) -> None:
        """Let each reboot from now on take this much longer."""
        (self.folder_here / "reboot_delay").write_text(str(seconds))

    def set_no_return(self) -> None:
        """Let the node stay away when it is rebooted the next time."""
        (self.folder_here / "no_return").touch()

    def reboot(self) -> str:
        """Reboot as an administrator would and wait until users can log in; return the new boot_id."""
        before = self.boot_id
        self.run(["systemctl", "reboot"])
        return self.wait(after_boot=before)

    def crash(self) -> str:
        """End everything on the node at once, without a goodbye, and wait for the next boot; return its boot_id."""
        before = self.boot_id
        (self.folder_here / "crash").touch()
        self.init.send(signal.SIGKILL)
        return self.wait(after_boot=before)

    def cut(self) -> None:
        """Unplug the node from the network."""
        self._wire.cut()

    def mend(self) -> None:
        """Plug it in again."""
        self._wire.mend()

    def down(self) -> bool:
        """Tell whether the node is off for good: it was stopped, died, or did not return."""
        return self._supervisor.poll() is not None

    def wait(self, *, after_boot: str | None = None) -> str:
        """Wait until users can log in, on another boot than `after_boot`; return the boot_id."""
        wait_until(lambda: self.down() or self._ready(after_boot), f"{self.name} boots", seconds=BOOT_SECONDS)
        if self.down():
            log = (self.folder_here / "log").read_text(errors="replace")[-2000:]
            raise RuntimeError(
                f"{self.name} ended instead of booting ({self._supervisor.returncode}); with many nodes"
                f" fs.inotify.max_user_instances is what they run out of. {log}"
            )
        return self.boot_id

    def ssh(
        self, command: str, *, user: str = "root", seconds: float = 60.0, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command over OpenSSH with the host key pinned; TimeoutExpired after `seconds`."""
        known_hosts = self.folder_here / "known_hosts"
        known_hosts.write_text(f"{self.address} {self.host_key}\n")
        options = ["BatchMode=yes", "ConnectTimeout=10", "LogLevel=ERROR", "StrictHostKeyChecking=yes"]
        options += [f"UserKnownHostsFile={known_hosts}", "IdentitiesOnly=yes"]
        flags = [part for option in options for part in ("-o", option)]
        return subprocess.run(
            ["ssh", "-F", "/dev/null", *flags, "-i", str(self.private_key), f"{user}@{self.address}", command],
            input=given or "",
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def run(self, command: Sequence[str], *, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a program on the node without its sshd, which leaves no login behind."""
        return subprocess.run(
            [*self.enter_prefix, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    @property
    def enter_prefix(self) -> list[str]:
        """Give the command line prefix by which this machine starts a program on the node."""
        return ["nsenter", "-t", str(self.init.pid), "-m", "-u", "-i", "-n", "-p", "--"]

    @property
    def root(self) -> Path:
        """Give the way by which this process sees the node's root folder, mounts included."""
        return Path(f"/proc/{self.init.pid}/root")

    @property
    def folder(self) -> str:
        """Give the node's folder for mount points and reports."""
        return NODE_FOLDER

    @property
    def rawfuse(self) -> Sequence[str]:
        """Give the command that starts the FUSE server on the node."""
        return ["python3", RAWFUSE]

    def start(self, name: str, command: Sequence[str]) -> int:
        """Start a program as a systemd service that leaves its children alone when it ends; return its pid there."""
        unit = f"lab-{name}.service"
        properties = ["Type=exec", "KillMode=process", "SendSIGKILL=no"]
        flags = [f"--property={each}" for each in properties]
        started = self.run(["systemd-run", "--quiet", "--collect", f"--unit={unit}", *flags, "--", *command])
        pid = int(self.run(["systemctl", "show", "-p", "MainPID", "--value", unit]).stdout or 0)
        if started.returncode != 0 or pid == 0:
            raise RuntimeError(f"{self.name} did not start {command[0]}: {started.stderr}")
        return pid

    def output(self, name: str) -> str:
        """Give what a service started by `start` has printed."""
        return self.run(["journalctl", "--no-pager", "-o", "cat", "-u", f"lab-{name}.service"]).stdout

    def kill(self, pid: int, *, with_signal: int = signal.SIGKILL) -> None:
        """Send a signal to one of the node's processes."""
        self.run(["kill", f"-{int(with_signal)}", str(pid)])

    def reap(self) -> None:
        """Do nothing: the node's first process collects its children."""

    def remember(self, connection: Connection) -> None:
        """Do nothing: with the node's processes its connections go too."""

    def anchors(self) -> list[Process]:
        """Give the node's first process."""
        return [self.init]

    def unmount(self, mountpoint: str) -> None:
        """Take an aborted mount out of the node's mount table."""
        self.run(["umount", "-l", mountpoint])

    def close(self) -> None:
        """Switch off and remove everything."""
        self._record.undo()
        network.drop_unused_bridge()
        if hasattr(self, "_supervisor"):
            self._supervisor.wait()

    @property
    def _disk(self) -> Path:
        return self.folder_here / "disk"

    def _make_disk(self, base: Path) -> None:
        for name in ("upper", "work", "disk"):
            (self.folder_here / name).mkdir(parents=True)
        self._record.mounts.append(str(self._disk))
        self._record.save()
        layers = f"lowerdir={base},upperdir={self.folder_here}/upper,workdir={self.folder_here}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(self._disk)], check=True)
        etc = self._disk / "etc"
        (etc / "hostname").write_text(f"{self.name}\n")
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n")
        key = etc / "ssh/ssh_host_ed25519_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(key)], check=True)
        (etc / "ssh/sshd_config.d/node.conf").write_text("HostKey /etc/ssh/ssh_host_ed25519_key\n")
        for folder in (self._disk / NODE_FOLDER.lstrip("/"), (self._disk / RAWFUSE.lstrip("/")).parent):
            folder.mkdir(parents=True)
        shutil.copy(LAB / "rawfuse.py", self._disk / RAWFUSE.lstrip("/"))

    def _power_on(self) -> "subprocess.Popen[bytes]":
        cgroups = control_group.names_for(self._record.name)
        self._record.cgroups = [str(cgroup) for cgroup in cgroups]
        self._record.save()
        for cgroup in cgroups:
            cgroup.mkdir()
        nspawn = [*NSPAWN, "-D", str(self._disk), f"--machine={self.name}"]
        nspawn += [f"--network-namespace-path=/run/netns/{self._wire.namespace}"]
        supervisor = [str(LAB / "node_supervisor.sh"), str(self.folder_here), *nspawn]
        with (self.folder_here / "log").open("ab") as log:
            child = subprocess.Popen(
                control_group.entering(self._record.cgroups, supervisor),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        self._record.processes.append(Process.of(child.pid))
        self._record.save()
        return child

    def _ready(self, after_boot: str | None) -> bool:
        try:
            root = self.root
            booted = self.boot_id != after_boot and (root / "run/systemd/users").is_dir()
            return booted and not (root / "run/nologin").exists() and greets(self.address, self.port)
        except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
            return False


def first_process(folder: Path) -> Process:
    """Name the first process of the node that has this folder here; ProcessLookupError while it is down."""
    try:
        nspawn = (folder / "nspawn.pid").read_text().strip()
        children = Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split()
    except FileNotFoundError as down:
        raise ProcessLookupError(f"{folder.name} is down") from down
    # While it starts, nspawn has a child that is still a process of this machine: it is not number 1 of its own.
    if not children or not is_first(int(children[0])):
        raise ProcessLookupError(f"{folder.name} has no first process yet")
    return Process.of(int(children[0]))


def is_first(pid: int) -> bool:
    """Tell whether a process is systemd as the first of a PID namespace (NSpid of proc(5) ends in 1)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return False
    facts = dict(line.split(":", 1) for line in status)
    return facts["Name"].strip() == "systemd" and facts["NSpid"].split()[-1] == "1"


class _Standing(Node):
    """A node that another process has booted; it is not switched off with this object."""

    def __init__(self, name: str, folder: Path) -> None:
        """Take its name and its folder here."""
        self.name = name
        self.folder_here = folder


def standing(name: str) -> Node:
    """Give a node that stands, by its name or that of its record; LookupError when there is not exactly one."""
    record = _the_one(name, leftovers.all_records())
    node_name, folder = _nodes_of(record)[0]
    return _Standing(node_name, folder)


def take_down(name: str | None = None, *, kept_too: bool = True) -> list[str]:
    """Undo one kept node, or all that killed tests left and that was started to be kept; return the names.

    Raises LookupError when no such node stands, or several do, and PermissionError when a running test has made it.
    """
    if name is None:
        names = leftovers.undo_dead(kept_too=kept_too)
    else:
        chosen = _the_one(name, leftovers.all_records())
        if chosen.owner is not None and chosen.owner.alive():
            raise PermissionError(f"{name} belongs to process {chosen.owner.pid}, which runs and will take it down")
        names = leftovers.undo_where(lambda record: record.name == chosen.name)
    if os.getuid() == 0:
        network.drop_unused_bridge()
    return names


def describe(record: Record) -> str:
    """Give one line about a record, with the names of its nodes."""
    owner = "kept" if record.owner is None else f"pid {record.owner.pid}"
    alive = record.owner is None or record.owner.alive()
    names = "".join(f"{name}  " for name, _ in _nodes_of(record))
    return f"{names}{record.name}  {owner}{'' if alive else ' (gone)'}"


def _nodes_of(record: Record) -> list[tuple[str, Path]]:
    """Give name and folder of each node that a record has made."""
    folders = [Path(folder) for folder in record.folders if record.network_namespaces]
    hostnames = [(folder / "disk/etc/hostname", folder) for folder in folders]
    return [(file.read_text().strip(), folder) for file, folder in hostnames if file.is_file()]


def _the_one(name: str, records: Sequence[Record]) -> Record:
    found = [one for one in records if _nodes_of(one) and name in (one.name, *(node for node, _ in _nodes_of(one)))]
    if not found:
        raise LookupError(f"no node {name} stands; `python -m lab.nodes list` shows what does")
    if len(found) > 1:
        raise LookupError(f"{len(found)} nodes are called {name}; name one of {', '.join(one.name for one in found)}")
    return found[0]


def main(given: Sequence[str] | None = None) -> int:
    """Run one of the commands of this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m lab.nodes", description=__doc__)
    parser.add_argument("command", choices=["up", "stuck", "list", "down"])
    parser.add_argument("name", nargs="?", help="up and stuck take gpu-01 when none is given, down takes all")
    parser.add_argument("--left", action="store_true", help="take down only what killed tests left")
    chosen = parser.parse_args(given)
    if chosen.name is not None and (chosen.left or chosen.command == "list"):
        parser.error("a name goes with up, stuck and down, and not with --left")
    try:
        _do(chosen.command, chosen.name, left=chosen.left)
    except (LookupError, PermissionError) as refused:
        print(f"python -m lab.nodes: {refused}", file=sys.stderr)
        return 2
    return 0


def _do(command: str, name: str | None, *, left: bool) -> None:
    match command:
        case "list":
            print("\n".join(describe(record) for record in leftovers.all_records()) or "nothing")
        case "down":
            names = take_down(name, kept_too=not left)
            print("\n".join(f"removed {one}" for one in names) or "nothing was left")
        case "stuck":
            # It is not closed: it ends with its cure, or with the node.
            stuck = StuckConnection(standing(name or "gpu-01"))
            facts = {"connection": stuck.connection, "mountpoint": stuck.mountpoint, "reader_pid": stuck.reader_pid}
            print(json.dumps(facts | {"reader_state": stuck.reader_state()}, indent=2))
        case _:
            _print_facts(Node(name or "gpu-01", keep=True))


def _print_facts(node: Node) -> None:
    """Print what an inventory says of a node, and on standard error how a person logs in."""
    facts = {"name": node.name, "address": node.address, "port": node.port, "user": "root", "view": "boot"}
    print(json.dumps(facts | {"key_file": str(node.private_key), "host_key": node.host_key}, indent=2), flush=True)
    known_hosts = node.folder_here / "known_hosts"
    known_hosts.write_text(f"{node.address} {node.host_key}\n")
    print(
        f"log in: ssh -F /dev/null -i {node.private_key} -o IdentitiesOnly=yes -o UserKnownHostsFile={known_hosts}"
        f" root@{node.address}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
