"""A machine for the crash matrix that boots in an instant: a mount namespace with a boot id of its own.

What a boot does to the envelope is done for real: every process in the namespace is killed, /run is
emptied, and the kernel file that tells the boot tells another one.
"""

import os
import signal
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from lab.closing import Closing
from lab.private import PrivateMounts
from lab.process import wait_until

BOOT_ID = "/proc/sys/kernel/random/boot_id"
PREPARE = """set -e
mount -t tmpfs tmpfs /run
mkdir -p /machine
mount --bind "$1/machine" /machine
mount --bind "$1/boot_id" {boot_id}
"""


class PretendMachine(Closing):
    """A private mount namespace that plays a machine, and the watchman who boots it."""

    def __init__(self) -> None:
        """Make the machine and begin to watch for its wish to boot."""
        self._place = PrivateMounts()
        folder = Path(self._place.folder)
        self.disk = folder / "machine"
        self.disk.mkdir()
        (self.disk / "pretends").touch()
        self._boot_file = folder / "boot_id"
        self._boot_file.write_text(f"{uuid.uuid4()}\n")
        Path("/machine").mkdir(exist_ok=True)
        done = self._place.run(["sh", "-c", PREPARE.format(boot_id=BOOT_ID), "sh", str(folder)])
        if done.returncode != 0:
            self._place.close()
            raise RuntimeError(f"the machine could not be made: {done.stderr}")
        self._watchman = os.fork()
        if self._watchman == 0:
            self._watch()

    @property
    def enter_prefix(self) -> Sequence[str]:
        """Give what stands before a command that runs on the machine."""
        return self._place.enter_prefix

    def executions(self) -> list[str]:
        """Give what the scripts have written, in order."""
        file = self.disk / "executions"
        return file.read_text().splitlines() if file.exists() else []

    def reset(self) -> None:
        """Give the machine back its first state: same disk, nothing done, nothing of the envelope left."""
        self._kill_all()
        for name in ("executions", "cordoned", "repaired", "boot-now"):
            (self.disk / name).unlink(missing_ok=True)
        self._forget()

    def close(self) -> None:
        """End the watchman and the machine."""
        os.kill(self._watchman, signal.SIGKILL)
        os.waitpid(self._watchman, 0)
        self._kill_all()
        self._place.close()

    def _watch(self) -> None:
        wish = self.disk / "boot-now"
        parent = os.getppid()
        while os.getppid() == parent:
            if wish.exists():
                self._kill_all()
                self._forget()
                self._boot_file.write_text(f"{uuid.uuid4()}\n")
                wish.unlink()
            signal.sigtimedwait([signal.SIGUSR1], 0.01)
        os._exit(0)

    def _kill_all(self) -> None:
        wait_until(lambda: not self._kill_once(), "all processes of the machine end")

    def _kill_once(self) -> bool:
        """Kill every process of the namespace but its holder; True when there was one."""
        holder = self._place.holder.pid
        mine = Path(f"/proc/{holder}/ns/mnt").stat().st_ino
        found = False
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == holder:
                continue
            try:
                if (entry / "ns/mnt").stat().st_ino == mine:
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def _forget(self) -> None:
        root = self._place.root / "run/unstick"
        subprocess.run(["rm", "-rf", str(root)], check=True)
