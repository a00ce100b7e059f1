"""Make a FUSE connection really stuck in this kernel, in a private mount namespace or on a booted node.

The incident: the server is killed while a mount helper still has the descriptor it inherited, so the kernel waits for
answers that nobody will write, and a reader that is killed then stays in D. It is always undone: when the block ends,
and by the guardian when the test was killed.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab import process
from lab.closing import Closing
from lab.leftovers import CONNECTIONS, Connection, abort
from lab.process import Process, wait_until

READ = ("dd", "if={file}", "of=/dev/null", "bs=4096", "count=1")
MAP = (
    "python3",
    "-c",
    "import mmap, os, sys; print(mmap.mmap(os.open(sys.argv[1], 0), 4096, prot=mmap.PROT_READ)[0])",
    "{file}",
)
READ_ON = ("dd", "if={file}", "of=/dev/null", "bs=4096")


class Place(Protocol):
    """Where mounts are made: a private mount namespace of this machine, or a booted node."""

    @property
    def root(self) -> Path:
        """Give the way by which this process sees the place's root folder, mounts included."""

    @property
    def folder(self) -> str:
        """Give the folder for mount points and reports, as the place names it."""

    @property
    def enter_prefix(self) -> list[str]:
        """Give the command line prefix by which this machine starts a program there."""

    @property
    def rawfuse(self) -> Sequence[str]:
        """Give the command that starts the FUSE server there."""

    def start(self, name: str, command: Sequence[str]) -> int:
        """Start a program there in the background; return its pid as the place counts."""

    def output(self, name: str) -> str:
        """Give what a program started there has printed."""

    def kill(self, pid: int, *, with_signal: int = signal.SIGKILL) -> None:
        """Send a signal there."""

    def reap(self) -> None:
        """Collect what ended, so that no zombie of ours is taken for a process."""

    def unmount(self, mountpoint: str) -> None:
        """Take an aborted mount out of the place's mount table."""

    def remember(self, connection: Connection) -> None:
        """Write a connection down, so that it is aborted also if this process is killed."""

    def anchors(self) -> list[Process]:
        """Give the processes through which the place's mount namespace can be reached."""


@dataclass(frozen=True)
class MountOptions:
    """How a FUSE server mounts and behaves; see lab/rawfuse.py."""

    fstype: str = "fuse.rclone"
    source: str = "bucket:data"
    comm: str = "rclone"
    helper: str | None = "fusermount-server"  # None: nobody but the server holds the descriptor
    direct: bool = False
    asynchronous: bool = False
    refuse_interrupt: bool = False
    slow: float = 0.0

    def arguments(self) -> list[str]:
        """Give them as the server's command line."""
        given = ["--fstype", self.fstype, "--source", self.source, "--comm", self.comm, "--slow", str(self.slow)]
        given += ["--no-helper"] if self.helper is None else ["--helper", self.helper]
        given += ["--direct"] if self.direct else []
        given += ["--async"] if self.asynchronous else []
        return given + (["--refuse-interrupt"] if self.refuse_interrupt else [])


class FuseMount(Closing):
    """One mounted FUSE file system with its server, and the processes that read from it."""

    def __init__(self, place: Place, options: MountOptions | None = None, *, mountpoint: str | None = None) -> None:
        """Start the server and wait until it has mounted."""
        self.place = place
        self.options = options or MountOptions()
        self.name = f"fuse-{os.urandom(4).hex()}"
        self.mountpoint = mountpoint or f"{place.folder}/{self.name}"
        self._readers: list[int] = []
        self.see(self.mountpoint).mkdir(parents=True, exist_ok=True)
        self.report = f"{place.folder}/{self.name}.report"
        self.server_pid = place.start(
            self.name, [*place.rawfuse, self.mountpoint, "--report", self.report, *self.options.arguments()]
        )
        wait_until(lambda: self.see(self.report).exists() or not self.runs(self.server_pid), "the FUSE server mounts")
        if not self.see(self.report).exists():
            raise RuntimeError(f"the FUSE server did not mount: {place.output(self.name)}")
        facts = dict(line.split() for line in self.see(self.report).read_text().splitlines())
        self.helper_pid = int(facts["helper"]) or None
        self.connection = int(facts["connection"])
        self.identity = Connection(
            number=self.connection, mountpoint=self.mountpoint, appeared=self._folder().stat().st_ctime_ns
        )
        place.remember(self.identity)

    def see(self, path: str) -> Path:
        """Give the way by which this process sees a path of the place."""
        return self.place.root / path.lstrip("/")

    def read(self, file: str, *, command: Sequence[str] = READ) -> int:
        """Start a reader of one of the server's files; return its pid as the place counts."""
        path = f"{self.mountpoint}/{file}"
        number = len(self._readers)
        pid = self.place.start(f"{self.name}-reader-{number}", [part.format(file=path) for part in command])
        self._readers.append(pid)
        return pid

    def runs(self, pid: int) -> bool:
        """Tell whether a process of the place runs; a zombie does not."""
        self.place.reap()
        return process.state(pid, proc=self.see("/proc")) not in {None, *process.GONE_STATES}

    def state_of(self, pid: int) -> str | None:
        """Give the one-letter state of a process of the place, None if it is gone."""
        return process.state(pid, proc=self.see("/proc")) if self.runs(pid) else None

    def waiting(self) -> int:
        """Give how many requests wait for an answer; 0 also when the connection is gone."""
        try:
            return int((self._folder() / "waiting").read_text())
        except FileNotFoundError:
            return 0

    def taken(self) -> bool:
        """Tell whether the server has taken a request that it will not answer."""
        return self.see(f"{self.report}.stuck").exists()

    def exists(self) -> bool:
        """Tell whether our connection is still known to the kernel (the number alone may be somebody else's)."""
        try:
            return self._folder().stat().st_ctime_ns == self.identity.appeared
        except FileNotFoundError:
            return False

    def listed(self) -> bool:
        """Tell whether the mount still stands in the place's mount table."""
        table = Path(f"/proc/{self.place.anchors()[0].pid}/mountinfo").read_text()
        return any(line.split()[4] == self.mountpoint for line in table.splitlines())

    def kill_server(self) -> None:
        """Kill the server alone and wait until it is gone; the helper keeps the descriptor."""
        self.place.kill(self.server_pid)
        wait_until(lambda: not self.runs(self.server_pid), "the FUSE server ends")

    def kill_helper(self) -> None:
        """Kill the helper; with the last descriptor the connection goes too."""
        if self.helper_pid is not None and self.runs(self.helper_pid):
            self.place.kill(self.helper_pid)

    def abort(self) -> None:
        """Abort this connection, and no other."""
        abort(self.identity, anchors=self.place.anchors())

    def close(self) -> None:
        """Abort, end all processes, unmount; nothing is left in D."""
        self.abort()
        for pid in [self.server_pid, *self._readers]:
            if self.runs(pid):
                self.place.kill(pid)
        self.kill_helper()
        gone = [self.server_pid, *self._readers, *([self.helper_pid] if self.helper_pid else [])]
        wait_until(lambda: not any(self.runs(pid) for pid in gone), f"all processes of {self.mountpoint} end")
        self.place.unmount(self.mountpoint)

    def _folder(self) -> Path:
        return self.place.root / CONNECTIONS / str(self.connection)


class StuckConnection(FuseMount):
    """The incident, ready when the object is built: server killed, descriptor leaked, killed reader in D."""

    def __init__(
        self,
        place: Place,
        options: MountOptions | None = None,
        *,
        file: str = "stuck",
        command: Sequence[str] = READ,
        kill_server: bool = True,
        kill_reader: bool = True,
        mountpoint: str | None = None,
    ) -> None:
        """Mount, let a reader wait, then kill the server and the reader, each unless told otherwise."""
        super().__init__(place, options or MountOptions(direct=True), mountpoint=mountpoint)
        try:
            self.reader_pid = self.read(file, command=command)
            # Not `waiting` alone: a LOOKUP or OPEN on its way would be withdrawn when the reader is killed.
            wait_until(self.taken, "the server leaves a request unanswered")
            wait_until(lambda: self.waiting() > 0, "a request waits for its answer")
            if kill_server:
                self.kill_server()
            if kill_reader:
                place.kill(self.reader_pid)
                wait_until(lambda: self.reader_state() == "D", "the killed reader stays in D")
        except BaseException:
            self.close()
            raise

    def reader_state(self) -> str | None:
        """Give the reader's one-letter state, None once it is gone."""
        return self.state_of(self.reader_pid)

    def freed(self) -> bool:
        """Tell whether the incident is over: no request waits and the reader is gone."""
        return self.waiting() == 0 and self.reader_state() is None


class BusyMount(FuseMount):
    """A healthy mount with a reader that never stops: requests wait most of the time, and are answered."""

    def __init__(self, place: Place, options: MountOptions | None = None, *, mountpoint: str | None = None) -> None:
        """Mount and start the reader."""
        super().__init__(place, options or MountOptions(source="bucket:busy"), mountpoint=mountpoint)
        self.reader_pid = self.read("stream", command=READ_ON)
        wait_until(lambda: self.bytes_read() > 0, "the busy reader reads")

    def bytes_read(self) -> int:
        """Give how many bytes the reader has read so far (rchar of proc(5)'s io)."""
        facts = dict(line.split(": ") for line in self.see(f"/proc/{self.reader_pid}/io").read_text().splitlines())
        return int(facts["rchar"])
