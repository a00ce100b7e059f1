"""What the lab leaves on the machine, written down before it is made and undone even when its owner was killed.

Every lab object has one record: a JSON file under the run folder with processes, control groups, mounts, network
namespaces, FUSE connections and folders. The owner undoes it when it closes; a guardian process undoes it when the
owner dies; `python -m lab.nodes down` undoes it when the guardian died too.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from lab import control_group
from lab.process import Process, wait_until

RUN = Path(os.environ.get("UNSTICK_LAB_RUN", f"/var/tmp/unstick-lab-{os.getuid()}"))
CONNECTIONS = "sys/fs/fuse/connections"


@dataclass(frozen=True)
class Connection:
    """A FUSE connection of ours: its number, where it is mounted and when it appeared (ctime in ns in fusectl)."""

    number: int
    mountpoint: str
    appeared: int


@dataclass
class Record:
    """Everything one lab object has made; `owner` None means that it outlives the process that made it."""

    name: str
    owner: Process | None
    namespace_holders: list[Process] = field(default_factory=list)
    databases: list[Process] = field(default_factory=list)  # asked by SIGQUIT first, so that they free shared memory
    processes: list[Process] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)
    network_namespaces: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """Give the file of this record."""
        return records_folder() / f"{self.name}.json"

    def save(self) -> None:
        """Write the record, whole or not at all."""
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.replace(self.path)

    def undo(self) -> None:
        """Abort, kill, unmount and remove all that is written here; the record goes last."""
        for connection in self.connections:
            abort(connection, anchors=[*self.namespace_holders, *self.processes])
        for database in self.databases:
            database.send(signal.SIGQUIT)
        self._await_end(self.databases)
        for holder in self.namespace_holders:
            wait_until(partial(no_companions, holder), f"all in the mount namespace of {holder.pid} end")
        for process in [*self.processes, *self.namespace_holders]:
            process.send()
        for cgroup in self.cgroups:
            control_group.empty(Path(cgroup))
        self._await_end([*self.processes, *self.namespace_holders])
        for mountpoint in reversed(self.mounts):
            subprocess.run(["umount", "-l", mountpoint], capture_output=True, check=False)
        # The link first: with the namespace alone it would go only some time later.
        for what, names in (("link", self.links), ("netns", self.network_namespaces)):
            for name in names:
                subprocess.run(["ip", what, "del", name], capture_output=True, check=False)
        for folder in self.folders:
            remove(Path(folder))
        self.path.unlink(missing_ok=True)

    def _await_end(self, processes: list[Process]) -> None:
        wait_until(lambda: not any(p.alive() for p in processes), f"the processes of {self.name} end")


def load(path: Path) -> Record:
    """Read a record back; FileNotFoundError if it was undone meanwhile."""
    facts = json.loads(path.read_text())
    facts["owner"] = Process(**facts["owner"]) if facts["owner"] else None
    facts["namespace_holders"] = [Process(**each) for each in facts["namespace_holders"]]
    facts["databases"] = [Process(**each) for each in facts["databases"]]
    facts["processes"] = [Process(**each) for each in facts["processes"]]
    facts["connections"] = [Connection(**each) for each in facts["connections"]]
    return Record(**facts)


def all_records() -> list[Record]:
    """Give the records that exist now, oldest first."""
    found = []
    for path in sorted(records_folder().glob("*.json"), key=lambda p: p.stat().st_mtime):
        try:
            found.append(load(path))
        except FileNotFoundError:
            continue
    return found


def undo_dead(*, kept_too: bool = False) -> list[str]:
    """Undo the records whose owner is gone, with `kept_too` also those that were to outlive it; return their names."""
    return undo_where(lambda record: kept_too if record.owner is None else not record.owner.alive())


def undo_mine() -> list[str]:
    """Undo what the calling process has not closed; return the names."""
    me = Process.me()
    return undo_where(lambda record: record.owner == me)


def keep_mine() -> list[str]:
    """Let what the calling process has not closed outlive it, until `down`; return the names."""
    me = Process.me()
    mine = [record for record in all_records() if record.owner == me]
    for record in mine:
        record.owner = None
        record.save()
    return [record.name for record in mine]


def undo_where(chosen: Callable[[Record], bool]) -> list[str]:
    """Undo the chosen records one by one; an ExceptionGroup tells at the end what would not go."""
    undone = []
    failures: list[Exception] = []
    with locked(run_folder() / "undo.lock"):
        for record in all_records():
            if not chosen(record):
                continue
            try:
                record.undo()
                undone.append(record.name)
            except OSError as failure:  # TimeoutError too; the other leftovers still have to go
                failures.append(failure)
    if failures:
        raise ExceptionGroup("some of the lab's leftovers are still there", failures)
    return undone


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a lock file between processes; the kernel frees it when its holder dies."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_folder() -> Path:
    """Give the folder of all running lab objects; PermissionError if somebody else made it."""
    RUN.mkdir(mode=0o711, parents=True, exist_ok=True)
    if RUN.stat().st_uid != os.getuid():
        raise PermissionError(f"{RUN} belongs to another user; set UNSTICK_LAB_RUN to a folder of your own")
    return RUN


def records_folder() -> Path:
    """Give the folder of the records."""
    folder = run_folder() / "records"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def abort(connection: Connection, *, anchors: list[Process]) -> bool:
    """Abort a connection if it is provably ours, seen through any living process of its mount namespace.

    Ours means: mounted on our mount point there, or the same number with the same appearance time (the number of a
    connection is free again as soon as its file system is gone).
    """
    for anchor in anchors:
        if not anchor.alive():
            continue
        folder = Path(f"/proc/{anchor.pid}/root/{CONNECTIONS}/{connection.number}")
        try:
            same = folder.stat().st_ctime_ns == connection.appeared
            if same or mounted(anchor.pid, connection):
                (folder / "abort").write_text("1")
                return True
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError, PermissionError):
            continue
    return False


def mounted(pid: int, connection: Connection) -> bool:
    """Tell whether the mount table of a process has this connection on its mount point."""
    lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    places = [line.split() for line in lines]
    return any((f[2], f[4]) == (f"0:{connection.number}", connection.mountpoint) for f in places)


def no_companions(holder: Process) -> bool:
    """Kill all that shares the private mount namespace of a living holder; tell whether there was nobody left."""
    if not holder.alive():
        return True
    theirs = Path(f"/proc/{holder.pid}/ns/mnt").stat().st_ino
    if theirs == Path("/proc/self/ns/mnt").stat().st_ino:
        raise PermissionError(f"process {holder.pid} holds no namespace of its own")
    alone = True
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            process = Process.of(int(folder.name))
            companion = process != holder and process.alive() and (folder / "ns/mnt").stat().st_ino == theirs
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # gone, or none that we could have started
            continue
        if companion:
            process.send()
            alone = False
    return alone


def remove(folder: Path) -> None:
    """Remove a folder of ours with all in it, unless something is still mounted below."""
    below = f"{folder}/"
    table = Path("/proc/self/mountinfo").read_text().splitlines()
    if any(line.split()[4].startswith(below) for line in table):
        raise OSError(f"something is still mounted below {folder}")
    shutil.rmtree(folder, ignore_errors=True)
