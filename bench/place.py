"""The place in which everything is measured: a PID namespace of its own, whose /run is empty at the beginning.

The farm's nodes are then booted containers to the envelope (PID 1 is called systemd, and scripts see its mounts), so
that nothing about the first look has to be left out; numbers of processes count ours alone; and when the place ends,
everything in it has ended, whatever has gone wrong.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_INSIDE = "UNSTICK_BENCH_PLACE"
_INIT = """\
mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd && "$@"
exit $?
"""


def folder() -> Path | None:
    """Return the folder of the place in which we are, on a real disk; None outside of one."""
    found = os.environ.get(_INSIDE)
    return Path(found) if found else None


def enter(arguments: Sequence[str]) -> int:
    """Run `python -m bench` with these arguments inside a new place and return its exit code; needs root."""
    if os.geteuid() != 0:
        print("bench: needs root, for a PID namespace and a /run of its own", file=sys.stderr)
        return 2
    # Not /tmp, which may be memory: a commit shall cost what it costs on a disk.
    with tempfile.TemporaryDirectory(prefix="unstick-bench-", dir="/var/tmp") as name:
        init = Path(name, "systemd")
        shutil.copy("/bin/bash", init)
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        command += [str(init), "-c", _INIT, "init", sys.executable, "-m", "bench", *arguments]
        environment = {**os.environ, _INSIDE: name, "UNSTICK_LAB_RUN": f"{name}/lab"}
        return subprocess.run(command, env=environment, check=False).returncode
