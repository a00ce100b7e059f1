"""A private mount namespace of this machine, in which FUSE mounts can be stuck without anybody else seeing them."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import leftovers
from lab.closing import Closing
from lab.guardian import guarded_record
from lab.leftovers import Connection
from lab.process import Process, wait_until

RAWFUSE = Path(__file__).resolve().parent / "rawfuse.py"
CONTROL = f"/{leftovers.CONNECTIONS}"
# A stack of mounts is no harm: the namespace may have inherited one already.
HOLD = f"mount -t fusectl fusectl {CONTROL} && echo ready && exec sleep infinity"


class PrivateMounts(Closing):
    """The namespace and the process that holds it open; other programs enter it with `enter_prefix`."""

    def __init__(self) -> None:
        """Make the namespace, with fusectl mounted in it."""
        name = f"private-{os.getpid()}-{os.urandom(4).hex()}"
        self._record = guarded_record(name)
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._folder = leftovers.run_folder() / name
        self._folder.mkdir(mode=0o755)
        self._record.folders.append(str(self._folder))
        self._record.save()
        command = ["unshare", "-m", "--propagation", "private", "sh", "-c", HOLD]
        holder = self._popen("holder", command, stdout=subprocess.PIPE)
        self.holder = Process.of(holder.pid)
        self._record.namespace_holders.append(self.holder)
        self._record.save()
        if holder.stdout is not None and holder.stdout.readline() != b"ready\n":
            reason = self.output("holder")
            self.close()
            raise RuntimeError(f"no private mount namespace: {reason}")

    @property
    def enter_prefix(self) -> list[str]:
        """Give the command line prefix by which any program is started inside."""
        return ["nsenter", "-t", str(self.holder.pid), "-m", "--"]

    @property
    def root(self) -> Path:
        """Give the way by which this process sees the namespace's root folder, mounts included."""
        return Path(f"/proc/{self.holder.pid}/root")

    @property
    def folder(self) -> str:
        """Give the folder for mount points and reports."""
        return str(self._folder)

    @property
    def rawfuse(self) -> Sequence[str]:
        """Give the command that starts the FUSE server."""
        return [sys.executable, str(RAWFUSE)]

    def run(self, command: Sequence[str], *, seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run a program inside and wait for it; TimeoutExpired after `seconds`."""
        return subprocess.run(
            [*self.enter_prefix, *command], capture_output=True, text=True, timeout=seconds, check=False
        )

    def start(self, name: str, command: Sequence[str]) -> int:
        """Start a program inside in the background; its output goes to NAME.log."""
        return self._popen(name, [*self.enter_prefix, *command]).pid

    def output(self, name: str) -> str:
        """Give what a program started inside has printed."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def kill(self, pid: int, *, with_signal: int = signal.SIGKILL) -> None:
        """Send a signal to a process."""
        os.kill(pid, with_signal)

    def reap(self) -> None:
        """Collect the children that ended."""
        for child in self._started.values():
            child.poll()
            if child.returncode is not None and child.stdout is not None:
                child.stdout.close()

    def remember(self, connection: Connection) -> None:
        """Write a connection down for the guardian."""
        self._record.connections.append(connection)
        self._record.save()

    def anchors(self) -> list[Process]:
        """Give the holder."""
        return [self.holder]

    def unmount(self, mountpoint: str) -> None:
        """Take an aborted mount out of the namespace."""
        self.run(["umount", "-l", mountpoint])

    def close(self) -> None:
        """Abort all connections made here, end every process inside and drop the namespace."""
        self._record.undo()
        wait_until(self._all_reaped, "all children of the private namespace are collected")

    def _all_reaped(self) -> bool:
        self.reap()
        return all(child.returncode is not None for child in self._started.values())

    def _popen(self, name: str, command: Sequence[str], *, stdout: int | None = None) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
                start_new_session=True,
            )
        self._started[child.pid] = child
        self._record.processes.append(Process.of(child.pid))
        self._record.save()
        return child
