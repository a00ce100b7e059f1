"""Processes named by pid and start time, so that a pid that was used again is never taken for the one we started."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REAL_PROC = Path("/proc")
GONE_STATES = frozenset({"Z", "X"})


@dataclass(frozen=True)
class Process:
    """One process: its pid and its start time in clock ticks since boot (field 22 of /proc/PID/stat, proc(5))."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Name the process that has this pid now; ProcessLookupError if there is none."""
        start = start_time(pid)
        if start is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid=pid, start=start)

    @classmethod
    def me(cls) -> "Process":
        """Name the calling process."""
        return cls.of(os.getpid())

    def alive(self) -> bool:
        """Tell whether this very process still runs; a zombie does not."""
        return start_time(self.pid) == self.start and state(self.pid) not in GONE_STATES

    def send(self, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal to this very process; nothing happens if it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if start_time(self.pid) == self.start:
                signal.pidfd_send_signal(descriptor, signal_number)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)


def stat_fields(pid: int, *, proc: Path = REAL_PROC) -> list[str] | None:
    """Give the fields of /proc/PID/stat from the state on, or None if there is no such process."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def start_time(pid: int, *, proc: Path = REAL_PROC) -> int | None:
    """Give the start time in clock ticks since boot, or None if there is no such process."""
    fields = stat_fields(pid, proc=proc)
    return None if fields is None else int(fields[19])


def state(pid: int, *, proc: Path = REAL_PROC) -> str | None:
    """Give the one-letter state (R, S, D, Z...), or None if there is no such process."""
    fields = stat_fields(pid, proc=proc)
    return None if fields is None else fields[0]


def wait_until(true: Callable[[], bool], what: str, *, seconds: float = 60.0) -> None:
    """Wait until something is true; TimeoutError names what did not happen, so that a hang ends with words."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)
