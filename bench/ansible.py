"""Ansible as its users run it for speed: forks 50, pipelining, kept connections, no facts, our key exchange.

It is installed from the package index into a venv of its own, in this version, and not into the project's.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench.measure import cpu_seconds
from lab.sshd import SshdFarm
from service.domain.runbook import Runbook
from service.domain.script import PREAMBLE

VERSION = "2.19.14"
FORKS = 50
_CONFIG = """\
[defaults]
inventory = {folder}/hosts
forks = {forks}
gathering = explicit
callback_result_format = json
local_tmp = {folder}/tmp
retry_files_enabled = false
interpreter_python = /usr/bin/python3
[connection]
pipelining = true
[ssh_connection]
ssh_args = -F none -o ControlMaster=auto -o ControlPersist=60s -o IdentitiesOnly=yes \
-o UserKnownHostsFile={folder}/known_hosts -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes \
-o KexAlgorithms=curve25519-sha256 -o Ciphers=aes128-gcm@openssh.com
control_path_dir = {folder}/cp
"""


@dataclass(frozen=True)
class Played:
    """One playbook from start to end."""

    wall: float
    #: CPU of everything it started, its ssh masters included.
    cpu: float


def install(folder: Path) -> Path:
    """Make the venv and return its programs."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [f"{folder}/bin/python", "-m", "pip", "install", "-qqq", f"ansible-core=={VERSION}"]
    subprocess.run(command, check=True)
    return folder / "bin"


class Playbook:
    """The scripts of a runbook as shell tasks for all addresses of a farm."""

    def __init__(self, programs: Path, folder: Path, *, farm: SshdFarm, runbook: Runbook) -> None:
        """Write inventory, known hosts, settings and the playbook into a folder."""
        folder.mkdir(parents=True)
        self._programs = programs
        self._folder = folder
        hosts = [
            f"n{number:03} ansible_host={server.address} ansible_port={server.port} ansible_user={farm.user} "
            f"ansible_ssh_private_key_file={farm.private_key}\n"
            for number, server in enumerate(farm.servers, start=1)
        ]
        (folder / "hosts").write_text("".join(hosts))
        known = [f"[{server.address}]:{server.port} {server.host_key}\n" for server in farm.servers]
        (folder / "known_hosts").write_text("".join(known))
        (folder / "ansible.cfg").write_text(_CONFIG.format(folder=folder, forks=FORKS))
        tasks = [
            {
                "name": step.title,
                "ansible.builtin.shell": f"{PREAMBLE}\n{step.run}",
                "args": {"executable": "/bin/bash"},
            }
            for step in runbook.steps
        ]
        play = [{"hosts": "all", "gather_facts": False, "tasks": tasks}]
        # JSON is YAML.
        (folder / "play.yaml").write_text(json.dumps(play))

    def play(self) -> Played:
        """Play it on all addresses with new connections; RuntimeError unless every task succeeded."""
        before, began = _children(), time.perf_counter()
        with (self._folder / "log").open("wb") as log:
            status = subprocess.run(
                [self._programs / "ansible-playbook", str(self._folder / "play.yaml")],
                env={"PATH": f"{self._programs}:/usr/bin:/bin", "HOME": str(self._folder), "LC_ALL": "C.UTF-8",
                     "ANSIBLE_CONFIG": str(self._folder / "ansible.cfg")},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
            ).returncode  # fmt: skip
        wall = time.perf_counter() - began
        cpu = _children() - before + self._end_masters()
        if status != 0:
            raise RuntimeError(f"ansible-playbook ended with {status}: see {self._folder / 'log'}")
        return Played(wall, cpu)

    def _end_masters(self) -> float:
        """End the connections that it keeps, and return the CPU that they have used."""
        used = 0.0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line = (process / "cmdline").read_bytes()
                if line.startswith(b"ssh: ") and str(self._folder).encode() in line:
                    used += cpu_seconds(int(process.name))
                    os.kill(int(process.name), signal.SIGTERM)
            except (FileNotFoundError, ProcessLookupError):
                continue
        return used


def _children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
