"""Control groups of the lab's own, by which everything below one object is found and ended, detached or not."""

import errno
from collections.abc import Sequence
from pathlib import Path

from lab.process import Process, wait_until

ROOT = Path("/sys/fs/cgroup")
ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 98; shift; done; shift; exec "$@"'


def names_for(name: str) -> list[Path]:
    """Give the control groups of an object: in both of systemd's hierarchies, or in the only one there is."""
    hybrid = [ROOT / hierarchy for hierarchy in ("systemd", "unified")]
    bases = [base for base in hybrid if base.is_dir()] or [ROOT]
    return [base / f"unstick-lab-{name}" for base in bases]


def entering(cgroups: Sequence[str], command: Sequence[str]) -> list[str]:
    """Give the command line that starts a program inside the control groups."""
    return ["sh", "-c", ENTER, "sh", *cgroups, "--", *command] if cgroups else list(command)


def empty(cgroup: Path) -> None:
    """Kill all in a control group and those below it, then remove them."""
    if not cgroup.is_dir():
        return
    wait_until(lambda: nothing_left(cgroup), f"{cgroup} is empty")
    for folder in sorted((p for p in cgroup.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
        folder.rmdir()
    cgroup.rmdir()


def nothing_left(cgroup: Path) -> bool:
    """Kill what runs in a control group; tell whether there was nothing."""
    try:
        return not kill_all(cgroup)
    except OSError as error:
        # A node that is just ending removes groups below it while we look.
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
        return False


def kill_all(cgroup: Path) -> bool:
    """Kill what runs in a control group and those below it; tell whether there was something."""
    found = False
    for listing in [cgroup / "cgroup.procs", *cgroup.glob("**/cgroup.procs")]:
        for pid in listing.read_text().split():
            try:
                process = Process.of(int(pid))
            except ProcessLookupError:
                continue
            found = True
            process.send()
    return found
