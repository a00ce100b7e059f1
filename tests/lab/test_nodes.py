"""The lab's nodes are real: they boot systemd, log in over their own sshd, and reboot."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import leftovers
from lab.needs import need_fuse
from lab.nodes import Node
from lab.process import Process, wait_until
from lab.sshd import greets
from lab.stuck import BusyMount, StuckConnection

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

REPOSITORY = Path(__file__).resolve().parent.parent.parent
BOOTS_AND_WAITS = """
import time
from lab.nodes import Node
from lab.stuck import StuckConnection
node = Node("left-behind")
stuck = StuckConnection(node)
print(node.folder_here, node.init.pid, flush=True)
time.sleep(600)
"""


def test_every_user_logs_in_and_only_one_has_sudo(lab_node: Callable[[str], Node]) -> None:
    node = lab_node("gpu-01")

    answers = {user: node.ssh("id -u; hostname; sudo -n id -u", user=user) for user in ("root", "unstick-agent")}
    refused = {user: node.ssh("sudo -n id -u", user=user) for user in ("nopass", "alice")}

    uids = {user: answer.stdout.split() for user, answer in answers.items()}
    assert (uids["root"], uids["unstick-agent"][1:]) == (["0", "gpu-01", "0"], ["gpu-01", "0"])
    assert 0 < int(uids["unstick-agent"][0]) < 1000
    assert {user: answer.stderr for user, answer in refused.items()} == {
        "nopass": "sudo: a password is required\n",
        "alice": "sudo: a password is required\n",
    }


def test_two_nodes_are_two_machines(lab_node: Callable[[str], Node]) -> None:
    nodes = [lab_node("gpu-01"), lab_node("gpu-02")]

    for facts in ("host_key", "address", "boot_id"):
        assert len({getattr(node, facts) for node in nodes}) == 2, facts
    assert [node.ssh("hostname").stdout for node in nodes] == ["gpu-01\n", "gpu-02\n"]


def test_a_reboot_gives_a_new_boot_id_and_keeps_the_host_key(lab_node: Callable[[str], Node]) -> None:
    node = lab_node("gpu-02")
    before, key = node.boot_id, node.host_key

    after = node.reboot()

    seen = node.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip()
    assert (after == before, after == seen, node.host_key == key) == (False, True, True)


def test_a_crash_is_a_new_boot_too(lab_node: Callable[[str], Node]) -> None:
    node = lab_node("gpu-02")
    before = node.boot_id

    after = node.crash()

    assert (after == before, node.ssh("true").returncode) == (False, 0)


def test_a_node_that_does_not_return_is_down(fresh_node: Callable[[str], Node]) -> None:
    node = fresh_node("gpu-09")
    node.set_no_return()

    with pytest.raises(RuntimeError, match="ended instead of booting"):
        node.reboot()

    assert (node.down(), greets(node.address, node.port)) == (True, False)


def test_a_cut_wire_silences_the_node_and_nothing_else(lab_node: Callable[[str], Node]) -> None:
    node = lab_node("gpu-02")
    before = node.boot_id

    node.cut()
    silent = not greets(node.address, node.port)
    alive = node.run(["true"]).returncode == 0
    node.mend()

    wait_until(lambda: greets(node.address, node.port), "the node is heard again")
    assert (silent, alive, node.boot_id) == (True, True, before)


def test_the_incident_on_a_node_is_cured_over_ssh(lab_node: Callable[[str], Node]) -> None:
    node = lab_node("gpu-01")
    with StuckConnection(node) as stuck, BusyMount(node) as busy:
        before = (stuck.reader_state(), stuck.waiting(), stuck.freed())
        read = busy.bytes_read()

        cure = node.ssh(f"echo 1 > /sys/fs/fuse/connections/{stuck.connection}/abort")
        wait_until(stuck.freed, "the reader is freed")
        wait_until(lambda: busy.bytes_read() > read, "the busy reader reads on")

        assert (before, cure.returncode, busy.exists()) == (("D", 1, False), 0, True)


@pytest.fixture
def own_lab(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Give the environment of a lab that shares no records with others, so that nobody else's guardian steps in."""
    need_fuse()
    environment = {**os.environ, "UNSTICK_LAB_RUN": str(tmp_path / "run")}
    yield environment
    _take_down(environment)


def test_down_removes_what_a_killed_test_and_a_killed_guardian_left(own_lab: dict[str, str]) -> None:
    test = subprocess.Popen(
        [sys.executable, "-c", BOOTS_AND_WAITS], cwd=REPOSITORY, env=own_lab, stdout=subprocess.PIPE, text=True
    )
    assert test.stdout is not None
    with test.stdout:
        folder, init = test.stdout.readline().split()
    started = Process.of(int(init))
    path = Path(folder).parent / "records" / f"{Path(folder).name}.json"
    record = leftovers.load(path)
    guardian = _guardian_of(Process.of(test.pid))

    guardian.send()
    wait_until(lambda: not guardian.alive(), "the guardian is gone")
    test.kill()
    test.wait()
    orphaned = (started.alive(), path.exists())
    answer = _take_down(own_lab)

    namespaces = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.split()
    left = [each for each in (folder, *record.cgroups, str(path)) if Path(each).exists()]
    mounts = Path("/proc/self/mountinfo").read_text()
    assert (orphaned, answer) == ((True, True), f"removed {record.name}\n")
    assert (started.alive(), left, folder in mounts) == (False, [], False)
    assert set(record.network_namespaces) & set(namespaces) == set()


def test_down_with_a_name_takes_that_node_and_no_other(own_lab: dict[str, str]) -> None:
    facts = json.loads(_lab_nodes(own_lab, "up", "gpu-07").stdout)
    try:
        stuck = json.loads(_lab_nodes(own_lab, "stuck", "gpu-07").stdout)
        listed = _lab_nodes(own_lab, "list").stdout
        mistyped = _lab_nodes(own_lab, "down", "gpu-70")
        named = _lab_nodes(own_lab, "down", "gpu-07").stdout
    finally:
        _lab_nodes(own_lab, "down")

    record = listed.split()[1]
    assert (facts["name"], facts["view"], stuck["reader_state"]) == ("gpu-07", "boot", "D")
    assert listed == f"gpu-07  {record}  kept\n"
    assert (mistyped.returncode, mistyped.stdout) == (2, "")
    assert "no node gpu-70 stands; `python -m lab.nodes list` shows what does" in mistyped.stderr
    assert named == f"removed {record}\n"


def _lab_nodes(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lab.nodes", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def _take_down(environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "lab.nodes", "down", "--left"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def _guardian_of(owner: Process) -> Process:
    wanted = ["lab.guardian", str(owner.pid), str(owner.start)]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_text().split("\0")[-4:-1] == wanted:
                return Process.of(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    raise AssertionError("no guardian")
