"""A process that outlives a killed test and undoes what it left: `python -m lab.guardian PID START`.

It waits on a descriptor of the owner (pidfd_open(2)), so it needs no polling and fires whatever the end was.
"""

import os
import select
import sys
from pathlib import Path

from lab import leftovers
from lab.process import Process

REPOSITORY = Path(__file__).resolve().parent.parent
_guarded: set[int] = set()


def guarded_record(name: str, *, keep: bool = False) -> leftovers.Record:
    """Start a record that a guardian undoes when the calling process dies; a record to `keep` outlives it."""
    if not keep:
        guard_me()
    record = leftovers.Record(name=name, owner=None if keep else Process.me())
    record.save()
    return record


def guard_me() -> None:
    """Start the guardian of the calling process, once."""
    me = Process.me()
    if me.pid in _guarded:
        return
    log = os.open(leftovers.run_folder() / "guardian.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    # posix_spawn and not Popen: nobody waits for the guardian, it ends after us.
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "lab.guardian", str(me.pid), str(me.start)],
        {**os.environ, "PYTHONPATH": str(REPOSITORY), "UNSTICK_LAB_RUN": str(leftovers.RUN)},
        file_actions=[(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
        setsid=True,
    )
    os.close(log)
    os.close(nothing)
    _guarded.add(me.pid)


def main() -> None:
    """Wait for the owner's end, then undo what nobody owns any more."""
    owner = Process(pid=int(sys.argv[1]), start=int(sys.argv[2]))
    try:
        descriptor = os.pidfd_open(owner.pid)
    except ProcessLookupError:
        descriptor = None
    if descriptor is not None and owner.alive():
        select.select([descriptor], [], [])
    leftovers.undo_dead()


if __name__ == "__main__":
    main()
