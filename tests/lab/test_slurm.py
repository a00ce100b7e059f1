"""The lab's Slurm: a job really runs on a booted node, a drain waits for it, and a reboot brings slurmd back."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import leftovers
from lab.needs import need_fuse
from lab.nodes import Node
from lab.process import wait_until
from lab.slurm import Slurm

pytestmark = pytest.mark.needs_root
NAME = "gpu-01"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    need_fuse()
    with Node(NAME) as booted:
        yield booted


def test_a_drained_node_keeps_its_job_and_comes_back_from_a_reboot_with_the_same_reason(node: Node) -> None:
    with Slurm([node]) as slurm:
        number = slurm.submit(NAME, "sleep 1000")
        slurm.update(NAME, "State=DRAIN", "Reason=a look at the fans")
        draining = sorted(slurm.state(NAME)), slurm.jobs(NAME)
        slurm.hold_ends(NAME)
        slurm.ask("scancel", number)
        wait_until(lambda: slurm.jobs(NAME) == {number: "COMPLETING"}, "the job is held in its end")
        held = sorted(slurm.state(NAME))
        slurm.let_end(NAME)
        wait_until(lambda: not slurm.jobs(NAME), "the job ends")

        began = slurm.fields(NAME)["SlurmdStartTime"]
        node.reboot()
        wait_until(lambda: slurm.fields(NAME)["SlurmdStartTime"] != began, "slurmd is back", seconds=60)
        rebooted = sorted(slurm.state(NAME)), slurm.reason(NAME).partition(" [root@")[0]
        slurm.clear(NAME)
        cleared = sorted(slurm.state(NAME)), slurm.reason(NAME)
        folder, processes = slurm.folder, slurm.processes

    left = [record.name for record in leftovers.all_records() if str(folder) in record.folders]
    assert (draining, held) == ((["ALLOCATED", "DRAIN"], {number: "RUNNING"}), ["COMPLETING", "DRAIN", "IDLE"])
    assert (rebooted, cleared) == ((["DRAIN", "IDLE"], "a look at the fans"), (["IDLE"], ""))
    assert ([one for one in processes if one.alive()], folder.exists(), left) == ([], False, [])


def test_a_killed_test_leaves_no_daemon_behind(node: Node, tmp_path: Path) -> None:
    told = tmp_path / "told"
    text = (
        "import os, sys; from lab.slurm import Slurm; made = Slurm([]);"
        " print(made.folder, *(one.pid for one in made.processes), file=open(sys.argv[1], 'w'), flush=True);"
        " os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", text, str(told)], cwd=ROOT, check=False, timeout=120)

    folder, *pids = told.read_text().split()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the guardian ends the daemons")
    wait_until(lambda: not Path(folder).exists(), "the guardian removes the folder")
    assert (killed.returncode, len(pids)) == (-9, 2)
