"""On real machines: a booted node entered without SSH, reboots, a process in D state, and nothing left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import leftovers
from lab.needs import need_root
from lab.nodes import Node
from lab.private import PrivateMounts
from lab.process import Process, stat_fields, wait_until
from lab.ssm import Instance, Moment
from lab.ssm.machines import node_instance
from lab.stuck import FuseMount, MountOptions
from tests.lab.ssm_support import FIRST, Ssm, make_client, running
from tests.support.node_state import wait_until_nobody_is_logged_in

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

REPOSITORY = Path(__file__).resolve().parent.parent.parent
KILLED = """
import sys, time
from tests.lab.ssm_support import running
with running() as ssm:
    ssm.send(f"setsid sleep 1000 & echo $! >{sys.argv[1]}; wait")
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def node(lab_node: Callable[[str], Node]) -> Node:
    return lab_node("gpu-01")


@pytest.fixture(scope="module")
def ssm(node: Node) -> Iterator[Ssm]:
    with running(node_instance(node, FIRST)) as ssm:
        yield ssm


def test_a_script_runs_on_the_node_as_root_outside_every_session(ssm: Ssm, node: Node) -> None:
    lines = [
        "hostname",
        "id -u",
        "cat /proc/sys/kernel/random/boot_id /proc/1/comm",
        "loginctl list-sessions --no-legend",
    ]

    wait_until_nobody_is_logged_in(node)

    ended = ssm.until(ssm.send(*lines))

    assert (ended["Status"], ended["StandardOutputContent"].split()) == (
        "Success",
        ["gpu-01", "0", node.boot_id, "systemd"],
    )


def test_194_really_reboots_the_node_and_plays_the_script_again(ssm: Ssm, node: Node) -> None:
    before = node.boot_id
    script = ["cat /proc/sys/kernel/random/boot_id >>/var/lib/lab/boots"]
    script += ['[ "$(sort -u /var/lib/lab/boots | wc -l)" = 2 ] || exit 194', "cat /var/lib/lab/boots"]

    ended = ssm.until(ssm.send(*script))

    assert (ended["Status"], ended["StandardOutputContent"].split()) == ("Success", [before, node.boot_id])


@pytest.mark.proof
def test_a_reboot_under_a_script_is_a_failure_of_its_worker_and_the_next_command_finds_the_new_boot(
    ssm: Ssm, node: Node
) -> None:
    before = node.boot_id
    ssm.server.faults.reboot(FIRST, Moment.DURING)

    ended = ssm.until(ssm.send("echo begun; sleep 1000", seconds=600))
    after = ssm.until(ssm.send("cat /proc/sys/kernel/random/boot_id", TimeoutSeconds=36_000))  # in AWS's time

    assert (ended["Status"], ended["StandardOutputContent"]) == ("Failed", "")
    assert ended["StandardErrorContent"].startswith("document process failed unexpectedly")
    assert (after["StandardOutputContent"].strip() == node.boot_id, node.boot_id == before) == (True, False)


def test_serve_gives_other_processes_a_node_by_name(node: Node) -> None:
    command = [sys.executable, "-m", "lab.ssm", "serve", "--node", f"{node.name}=mi-0123456789abcdef0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        lines = iter(served.stdout.readline, "# Ctrl-C ends it\n")
        found = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines if line.startswith("export"))
        client = make_client(found)
        rows = client.describe_instance_information()["InstanceInformationList"]
        client.close()
        served.send_signal(signal.SIGTERM)
    nobody = subprocess.run(
        [*command[:-1], "nobody=i-12345678"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    assert [(row["InstanceId"], row["Name"]) for row in rows] == [("mi-0123456789abcdef0", "gpu-01")]
    assert (served.returncode, nobody.returncode) == (0, 2)
    assert "no node nobody stands here; python -m lab.nodes up nobody boots it" in nobody.stderr


def test_a_script_in_d_state_is_reported_as_cancelled_and_stays(private_mounts: PrivateMounts) -> None:
    place = private_mounts
    instance = Instance(id=FIRST, prefix=lambda: place.enter_prefix)
    with running(instance) as ssm, FuseMount(place, MountOptions(direct=True)) as stuck:
        pid = f"{place.folder}/reader"
        command = ssm.send(f"echo $$ >{pid}; exec dd if={stuck.mountpoint}/stuck of=/dev/null count=1")
        wait_until(Path(f"{stuck.report}.stuck").exists, "the server leaves a request unanswered")

        ssm.client.cancel_command(CommandId=command)
        ended = ssm.until(command)

        reader = int(Path(pid).read_text())
        wait_until(lambda: (stat_fields(reader) or ["gone"])[0] == "D", "the script is in D state")
        stuck.abort()
        wait_until(lambda: stat_fields(reader) is None, "the script ends")
    assert (ended["Status"], ended["ResponseCode"]) == ("Cancelled", 137)


def test_a_killed_test_leaves_no_script_and_no_server(tmp_path: Path) -> None:
    need_root()
    environment = {**os.environ, "UNSTICK_LAB_RUN": str(tmp_path / "run")}
    test = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "pid")], cwd=REPOSITORY, env=environment)
    wait_until(
        lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()), "the script runs", seconds=60
    )
    script = Process.of(int((tmp_path / "pid").read_text()))
    (record,) = (leftovers.load(path) for path in (tmp_path / "run/records").glob("*.json"))

    test.kill()
    test.wait()

    wait_until(lambda: not script.alive(), "the guardian ends the script")
    wait_until(lambda: not any(map(os.path.exists, [*record.folders, *record.cgroups])), "nothing is left")
