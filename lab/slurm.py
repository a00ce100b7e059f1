"""A Slurm of one's own: Debian's munged and slurmctld in a network namespace, slurmd on booted lab nodes.

Nothing of the distribution's own Slurm is used or started: configuration, key, state and sockets lie in a folder of
ours. The programs of this machine are put on the nodes, where systemd starts slurmd at each boot. `scontrol`, `squeue`
and `sbatch` of this machine speak to it with the variables of `environment`.
"""

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab import control_group, leftovers, network
from lab.closing import Closing
from lab.guardian import guarded_record
from lab.nodes import Node
from lab.process import Process, wait_until

#: What slurmd and munged need on a node; their libraries come with them (dpkg -L says which files).
PACKAGES = ("slurmd", "slurm-wlm-basic-plugins", "munge", "libmunge2", "libhwloc15", "libnuma1", "liblz4-1")
PROGRAMS = ("slurmd", "slurmstepd")
CONTROLLER_PORT, NODE_PORT = 6817, 6818
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}({address})
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
MpiDefault=none
JobRequeue=0
KillWait=1
ReturnToService=1
SlurmdTimeout={slurmd_timeout}
Epilog=/usr/local/lib/lab/epilog.sh
"""
#: A job is in its end (COMPLETING) for as long as this file is there.
HELD_END = "/run/lab-held-end"
EPILOG = f"#!/bin/sh\nwhile [ -e {HELD_END} ]; do sleep 0.1; done\n"
UNITS = {
    "lab-munge.service": "munged --foreground --force --key-file={folder}/munge.key --socket={folder}/munge.socket"
    " --pid-file=/run/lab-munged.pid --seed-file={folder}/munge.seed --log-file=/var/log/munged.log",
    "slurmd.service": "slurmd -D -N {name} -f {folder}/slurm.conf",
}
UNIT = """\
[Unit]
After={after}
[Service]
ExecStart=/usr/sbin/{command}
TimeoutStopSec=2
[Install]
WantedBy=multi-user.target
"""


class Slurm(Closing):
    """One cluster of these nodes, in one partition; closed before its nodes are."""

    def __init__(self, nodes: Sequence[Node], *, slurmd_timeout: int = 30) -> None:
        """Start it and wait until all nodes are idle; `slurmd_timeout` seconds of silence make a node DOWN."""
        self._record = guarded_record(f"slurm-{os.getpid()}-{secrets.token_hex(4)}")
        self.folder = leftovers.run_folder() / self._record.name
        self._record.folders.append(str(self.folder))
        self._nodes = tuple(nodes)
        self._wire = network.take_number()
        self._record.network_namespaces.append(self._wire.namespace)
        self._record.links.append(self._wire.link)
        self._record.save()
        self._servers: list[subprocess.Popen[bytes]] = []
        try:
            network.connect(self._wire)
            self._prepare(slurmd_timeout)
            self._start_controller()
            for node in self._nodes:
                self._join(node)
            wait_until(self._all_idle, "the nodes of Slurm are idle", seconds=60)
        except BaseException as failure:
            failure.add_note(self.log())
            self.close()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """Give the variables by which Slurm's programs find this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    @property
    def processes(self) -> tuple[Process, ...]:
        """Give the controller's processes on this machine."""
        return tuple(self._record.processes)

    def ask(self, *command: str, seconds: float = 60.0) -> str:
        """Run one of Slurm's programs on this machine and return what it printed; RuntimeError when it refuses."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
            timeout=seconds,
            check=False,
            cwd="/",
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def state(self, name: str) -> frozenset[str]:
        """Give the flags of a node's state, such as IDLE and DRAIN."""
        return frozenset(self.fields(name)["State"].split("+"))

    def reason(self, name: str) -> str:
        """Give the reason of a node with who set it and when, or nothing."""
        _, found, reason = self.ask("scontrol", "show", "node", "-o", name).strip().partition(" Reason=")
        return reason if found else ""

    def fields(self, name: str) -> dict[str, str]:
        """Give what `scontrol show node` says, by its keys."""
        words = self.ask("scontrol", "show", "node", "-o", name).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def update(self, name: str, *changes: str) -> None:
        """Change a node as an administrator would, `State=DRAIN` and the like."""
        self.ask("scontrol", "update", f"NodeName={name}", *changes)

    def submit(self, name: str, command: str) -> str:
        """Start a job of one command on a node, wait until it runs, and return its number."""
        placed = ["--parsable", "--output=/dev/null", "--chdir=/", f"--nodelist={name}", "--job-name=train"]
        number = self.ask("sbatch", *placed, f"--wrap={command}").strip()
        wait_until(lambda: self.jobs(name) == {number: "RUNNING"}, f"job {number} runs")
        return number

    def jobs(self, name: str) -> dict[str, str]:
        """Give the jobs that are on a node, with their state."""
        lines = self.ask("squeue", "-h", "-w", name, "-o", "%A %T").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def clear(self, name: str) -> None:
        """Take every job and every mark from a node, and wait until it is idle."""
        self.let_end(name)
        for number in self.jobs(name):
            self.ask("scancel", number)
        wait_until(lambda: not self.jobs(name), f"the jobs of {name} end")
        if self.state(name) & {"DRAIN", "DOWN"}:
            self.update(name, "State=RESUME")
        wait_until(lambda: self.state(name) == {"IDLE"}, f"{name} is idle")

    def hold_ends(self, name: str) -> None:
        """Let the jobs of a node stay in their end until `let_end`, as those do whose processes nobody can kill."""
        (self._node(name).root / HELD_END.lstrip("/")).touch()

    def let_end(self, name: str) -> None:
        """Let jobs that are held in their end go."""
        (self._node(name).root / HELD_END.lstrip("/")).unlink(missing_ok=True)

    def log(self) -> str:
        """Give the last that the controller has logged."""
        file = self.folder / "slurmctld.log"
        return file.read_text(errors="replace")[-3000:] if file.exists() else "slurmctld has logged nothing"

    def close(self) -> None:
        """End the controller with all that it started, and remove the folder; slurmd goes with its node."""
        self._record.undo()
        network.drop_unused_bridge()
        for server in self._servers:
            server.wait()

    def _node(self, name: str) -> Node:
        return next(node for node in self._nodes if node.name == name)

    def _prepare(self, slurmd_timeout: int) -> None:
        for folder in (self.folder, self.folder / "state"):
            folder.mkdir(mode=0o755)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        text = CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            address=self._wire.address,
            controller_port=CONTROLLER_PORT,
            node_port=NODE_PORT,
            folder=self.folder,
            slurmd_timeout=slurmd_timeout,
        )
        for node in self._nodes:
            text += f"NodeName={node.name} NodeHostname={node.name} NodeAddr={node.address} CPUs=1 RealMemory=100\n"
        if not self._nodes:
            text += "NodeName=nobody CPUs=1 State=FUTURE\n"  # without any node slurmctld does not start
        text += "PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        (self.folder / "slurm.conf").write_text(text)

    def _start_controller(self) -> None:
        cgroups = control_group.names_for(self._record.name)
        self._record.cgroups = [str(cgroup) for cgroup in cgroups]
        self._record.save()
        for cgroup in cgroups:
            cgroup.mkdir()
        munged = ["munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key"]
        munged += [f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid"]
        self._start([*munged, f"--seed-file={self.folder}/munge.seed", f"--log-file={self.folder}/munged.log"])
        wait_until((self.folder / "munge.socket").exists, "munged listens")
        self._start(["slurmctld", "-D", "-c", "-f", f"{self.folder}/slurm.conf"])
        wait_until(self._answers, "slurmctld answers")

    def _start(self, command: Sequence[str]) -> None:
        inside = ["ip", "netns", "exec", self._wire.namespace, *command]
        with (self.folder / f"{command[0]}.out").open("ab") as log:
            server = subprocess.Popen(
                control_group.entering(self._record.cgroups, inside),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        self._servers.append(server)
        self._record.processes.append(Process.of(server.pid))
        self._record.save()

    def _join(self, node: Node) -> None:
        """Put Slurm on a node and let its systemd start it, now and at each boot."""
        copy_packages(node.root)
        folder = node.root / str(self.folder).lstrip("/")
        folder.mkdir(parents=True)
        for name in ("munge.key", "slurm.conf"):
            shutil.copy(self.folder / name, folder / name)
        (node.root / "var/spool/slurmd").mkdir(exist_ok=True)
        epilog = node.root / "usr/local/lib/lab/epilog.sh"
        epilog.write_text(EPILOG)
        epilog.chmod(0o755)
        after = "network.target"
        for name, command in UNITS.items():
            text = UNIT.format(after=after, command=command.format(folder=self.folder, name=node.name))
            (node.root / "etc/systemd/system" / name).write_text(text)
            after = name
        started = node.run(["systemctl", "enable", "--now", "--quiet", *UNITS])
        if started.returncode != 0:
            raise RuntimeError(f"slurmd does not start on {node.name}: {started.stderr}")

    def _answers(self) -> bool:
        try:
            return "is UP" in self.ask("scontrol", "ping")
        except RuntimeError:
            return False

    def _all_idle(self) -> bool:
        return all(self.state(node.name) == {"IDLE"} for node in self._nodes)


def copy_packages(root: Path) -> None:
    """Copy the files of this machine's Slurm and munge packages to where a node has its root.

    A node is Debian 12 as the lab is made for; FileNotFoundError where the packages are not installed here.
    """
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise FileNotFoundError(f"apt-get install slurmd slurmctld slurm-client munge: {listed.stderr.strip()}")
    for line in listed.stdout.splitlines():
        source = Path(line)
        target = root / line.lstrip("/")
        wanted = line.startswith(("/usr/sbin/", "/usr/lib/", "/lib/")) and "/systemd/" not in line
        if not wanted or source.is_dir() or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    for name in PROGRAMS:
        link = root / "usr/sbin" / name
        if not link.is_symlink():
            link.symlink_to(f"{name}-wlm")
