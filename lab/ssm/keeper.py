"""The scripts' processes: written down for the guardian, reaped when nobody waits for them, ended with the server."""

import threading

from lab.leftovers import Record
from lab.process import Process
from lab.ssm.script import Script


class Keeper:
    """Knows all scripts of a server. As root their control groups end them; otherwise their process groups."""

    def __init__(self, record: Record) -> None:
        """Begin with none."""
        self._record = record
        self._lock = threading.Lock()
        self._scripts: list[Script] = []

    def take(self, script: Script) -> None:
        """Take a script that has just been started."""
        with self._lock:
            self._scripts = [each for each in self._scripts if each.process.poll() is None]
            self._scripts.append(script)
            if not self._record.cgroups:
                self._record.processes = [_named(each) for each in self._scripts if each.process.poll() is None]
                self._record.save()

    def end(self) -> None:
        """Kill the process groups that still run, unless control groups will do it."""
        for script in self._scripts:
            if not self._record.cgroups and script.group is not None and script.process.poll() is None:
                script.kill()

    def reap(self) -> None:
        """Wait for all; they must have been ended."""
        for script in self._scripts:
            script.process.wait()


def _named(script: Script) -> Process:
    try:
        return Process.of(script.process.pid)
    except ProcessLookupError:  # it has just ended; a start time of 0 is nobody's
        return Process(pid=script.process.pid, start=0)
