"""What is counted: processes, CPU and percentiles."""

import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles

_TICK = os.sysconf("SC_CLK_TCK")


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile (1 to 99) of at least two values."""
    return median(values) if percent == 50 else quantiles(values, n=100, method="inclusive")[percent - 1]


def made() -> int:
    """Return the number of the newest process: numbers are given in order, threads take one too.

    Within a PID namespace only its own count (pid_namespaces(7)).
    """
    with subprocess.Popen(["true"]) as process:
        return process.pid


def cpu_seconds(pid: int) -> float:
    """Return the CPU that a process and its ended children have used (proc_pid_stat(5), fields 14 to 17)."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in after_name[11:15]) / _TICK


def others_cpu_seconds(*apart: int) -> float:
    """Return the CPU of all processes that we see, ended ones included, apart from these: that of the nodes."""
    used = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) not in apart:
            with suppress(FileNotFoundError, ProcessLookupError):
                used += cpu_seconds(int(process.name))
    return used


def machine() -> str:
    """Describe this machine in words, without its name."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    cores = len(os.sched_getaffinity(0))
    kernel = ".".join(platform.release().split(".")[:2])
    python = platform.python_version()
    return f"{cores} cores ({model}), Linux {kernel}, Python {python}; the client and all nodes share them"


def load() -> str:
    """Return how many processes wanted to run in the last minute, ours and those of others."""
    return f"{os.getloadavg()[0]:.1f}"
