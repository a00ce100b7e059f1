"""Each of the four points of ghost-vram-points as it is sent: on really stuck FUSE, and on GPUs and pods of files."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.private import PrivateMounts
from lab.stuck import BusyMount, MountOptions, StuckConnection
from service.app.load_runbooks import RunbookFolder
from service.domain.plan import check_params, param_text
from service.domain.script import ScriptKind, render
from tests.support.fake_gpu import FakeGpus

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Only stops a hang.
SECONDS = 600
WELL, FOUND, BLIND = 0, 77, 2
POD = "1b2f7a30-0000-4000-8000-0123456789ab"


@dataclass(frozen=True)
class Node:
    """A private mount namespace, and places of files instead of the machine's own where a test names them."""

    place: PrivateMounts
    folder: Path
    fstype: str
    places: dict[str, str] = field(default_factory=dict)

    def options(self) -> MountOptions:
        return MountOptions(fstype=self.fstype, direct=True)

    def ask(self, step: str, **params: object) -> tuple[int, str]:
        """Play one point; return its exit code and what it said."""
        runbook = RunbookFolder(Path("runbooks")).get("ghost-vram-points")[0]
        body = runbook.step(step).script(ScriptKind.VERIFY)
        assert body is not None
        given = check_params(runbook, {"hold_seconds": 3, "fstype": self.fstype, **params})
        environment = {f"PARAM_{name.upper()}": param_text(value) for name, value in given.items()}
        script = render(prelude=runbook.prelude_of(runbook.step(step)), body=body, environment=environment)
        for old, new in self.places.items():
            assert old in script, old
            script = script.replace(old, new)
        said = subprocess.run(
            [*self.place.enter_prefix, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": f"{self.folder}/bin{os.pathsep}{PATH}"},
            cwd="/",
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return said.returncode, said.stdout


@pytest.fixture
def node(private_mounts: PrivateMounts, tmp_path: Path) -> Node:
    (tmp_path / "bin").mkdir()
    return Node(private_mounts, tmp_path, f"fuse.t{os.urandom(4).hex()}")


def gpus(node: Node) -> FakeGpus:
    """Put two GPUs on the node."""
    (node.folder / "lock").mkdir()
    node.places.update(
        {
            "driver=/run/nvidia/driver ": f"driver={node.folder}/driver ",
            "kernel=/proc/driver/nvidia": f"kernel={node.folder}/kernel",
            "processes=/proc\n": f"processes={node.folder}/proc\n",
            "lock=/run\n": f"lock={node.folder}/lock\n",
        }
    )
    return FakeGpus(node.folder / "state", node.folder / "bin/nvidia-smi")


def thread(node: Node, pid: int, *, pending: str, files: Mapping[str, str]) -> None:
    """Put a thread of a pod on the node."""
    folder = node.folder / f"proc/{pid}/task/{pid}"
    folder.mkdir(parents=True)
    status = f"Name:\ttrain\nState:\tD (disk sleep)\nTgid:\t{pid}\nSigPnd:\t{pending}\nShdPnd:\t{'0' * 16}\n"
    for name, text in {"status": status, "comm": "train\n", "wchan": "request_wait_answer", **files}.items():
        (folder / name).write_text(text)


def test_a_stuck_connection_and_its_thread_are_found_and_a_busy_one_is_not(node: Node) -> None:
    with BusyMount(node.place, node.options()):
        well = [node.ask(step)[0] for step in ("threads", "connections")]
    with StuckConnection(node.place, node.options()) as stuck:
        threads, connections = node.ask("threads"), node.ask("connections")
        untouched = (stuck.reader_state(), stuck.waiting())

    assert well == [WELL, WELL]
    assert (threads[0], f"waiter {stuck.connection} {stuck.reader_pid} " in threads[1]) == (FOUND, True)
    assert (connections[0], f"connection {stuck.connection} since " in connections[1]) == (FOUND, True)
    assert untouched == ("D", 1)


def test_a_server_that_hangs_is_found_as_well(node: Node) -> None:
    with StuckConnection(node.place, node.options(), kill_server=False, kill_reader=False):
        assert [node.ask(step)[0] for step in ("threads", "connections")] == [FOUND, FOUND]


def test_memory_without_a_process_is_found_and_a_node_without_a_driver_is_not_called_well(node: Node) -> None:
    had = gpus(node)
    idle = node.ask("vram")[0]
    had.set("GPU-aaaa", **{"memory.used": "81920"})
    held = node.ask("vram")
    had.apps("GPU-aaaa")
    used = node.ask("vram")[0]
    had.say("Failed to initialize NVML: Unknown Error", code=255)
    silent = node.ask("vram")[0]
    (node.folder / "bin/nvidia-smi").unlink()
    without = node.ask("vram")

    assert (idle, used, silent) == (WELL, WELL, BLIND)
    assert held == (FOUND, "GPU-aaaa: 81920 MiB used and no process\n")
    assert without == (BLIND, "could not look: no GPU driver on this node\n")


def test_a_pod_that_outlives_its_sigkill_is_found(node: Node) -> None:
    node.places["/proc/[0-9]*/task/[0-9]*/status"] = f"{node.folder}/proc/[0-9]*/task/[0-9]*/status"
    cgroup = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-9f.scope\n"
    thread(node, 40, pending="0" * 16, files={"cgroup": cgroup})
    alive = node.ask("containers")[0]
    thread(node, 41, pending="0000000000000100", files={"cgroup": cgroup})
    code, said = node.ask("containers")

    assert alive == WELL
    assert code == FOUND
    assert f"{POD} 41/41 D train request_wait_answer" in said
