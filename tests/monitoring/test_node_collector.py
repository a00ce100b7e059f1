"""The nodes' collector beside mounts that are really stuck: what it says, and that it neither hangs nor guesses."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.private import PrivateMounts
from lab.process import wait_until
from lab.stuck import BusyMount, MountOptions, StuckConnection
from tests.monitoring.collector import SCRIPT, Collector
from tests.monitoring.promtool import LOOKS, need

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

D_STATE = "tasks_uninterruptible{wchan=request_wait_answer}"
D_OLDEST = "tasks_uninterruptible_oldest_seconds{wchan=request_wait_answer}"
LIVE, DYING = (f"gpu_holders{{device=nvidia0,state={state}}}" for state in ("live", "dying"))
DROP_IN = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
"""
RUNC = DROP_IN.replace("runtimes.nvidia", "runtimes.runc")
INFO = """{
  "config": {
    "containerd": {
      "defaultRuntimeName": "runc",
      "runtimes": {%s
      },
      "ignoreBlockIONotEnabledErrors": false
    },
    "runtimes_of_others": 1
  }
}"""
HANDLER = """
        "%s": {
          "runtimeType": "io.containerd.runc.v2",
          "ContainerAnnotations": [],
          "options": {
            "BinaryName": "",
            "SystemdCgroup": true
          },
          "cniConfDir": ""
        }"""


def still(connection: int, fstype: str = "fuse.rclone") -> str:
    return f"fuse_still_seconds{{connection={connection},fstype={fstype}}}"


def waiting(connection: int) -> str:
    return f"fuse_waiting{{connection={connection},fstype=fuse.rclone}}"


@pytest.fixture
def collector(private_mounts: PrivateMounts) -> Collector:
    return Collector(private_mounts)


@pytest.fixture
def stuck(collector: Collector) -> Iterator[StuckConnection]:
    with StuckConnection(collector.place) as made:
        yield made


def test_a_stuck_connection_stands_still_and_a_busy_one_does_not(collector: Collector, stuck: StuckConnection) -> None:
    with BusyMount(collector.place) as busy:
        first = collector.look()
        later = collector.look_until(still(stuck.connection), 2)

        assert {first[f"look_success{{look={look}}}"] for look in LOOKS} == {1}
        assert (first["collector_success"], first[waiting(stuck.connection)], first[still(stuck.connection)]) == (
            1,
            1,
            0,
        )
        assert (first[D_STATE] >= 1, later[D_OLDEST] >= 1, later["fuse_connections"] >= 2) == (True, True, True)
        assert later["fuse_helper_descriptors{helper=fusermount-serv}"] >= 2
        assert later[still(busy.connection)] == 0
        assert (stuck.waiting(), stuck.reader_state(), collector.said) == (1, "D", "")


def test_after_the_abort_nothing_stands_still(collector: Collector, stuck: StuckConnection) -> None:
    collector.look_until(still(stuck.connection), 1)
    stuck.abort()
    wait_until(stuck.freed, "the reader is freed")

    assert collector.look().get(still(stuck.connection), 0) == 0


def test_a_server_that_lives_and_answers_nobody_stands_still(collector: Collector) -> None:
    with StuckConnection(collector.place, kill_server=False) as hung:
        assert collector.look_until(still(hung.connection), 1)[waiting(hung.connection)] == 1


def test_one_long_wait_on_a_server_that_works_is_no_standstill(collector: Collector, stuck: StuckConnection) -> None:
    with BusyMount(collector.place) as upload:
        upload.read("stuck")
        wait_until(upload.see(f"{upload.report}.stuck").exists, "one request stays unanswered")

        later = collector.look_until(still(stuck.connection), 2)

        assert (later[waiting(upload.connection)] >= 1, later[still(upload.connection)]) == (True, 0)


def test_what_it_writes_is_in_good_order_for_prometheus(collector: Collector, stuck: StuckConnection) -> None:
    need("promtool", "prometheus")
    collector.look()
    text = collector.file.read_text()

    said = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)

    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    assert waiting(stuck.connection).split("{")[0] in text
    assert oct(collector.file.stat().st_mode) == "0o100644"


def test_where_fusectl_is_not_seen_no_number_of_fuse_is_written(collector: Collector, stuck: StuckConnection) -> None:
    collector.place.run(["mount", "-t", "tmpfs", "tmpfs", "/sys/fs/fuse/connections"])
    seen = collector.look()
    collector.place.run(["umount", "/sys/fs/fuse/connections"])

    assert [key for key in seen if key.startswith("fuse_")] == []
    assert (seen["look_success{look=fuse}"], seen["collector_success"], seen["look_success{look=tasks}"]) == (0, 0, 1)
    assert collector.said.startswith("fuse: could not look: fusectl is not mounted (mount -t fusectl fusectl ")
    assert stuck.waiting() == 1


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (("setpriv", "--bounding-set=-sys_ptrace"), "could not look: without CAP_SYS_PTRACE"),
        (("unshare", "--pid", "--fork", "--mount-proc"), "could not look: in a PID namespace of its own"),
    ],
    ids=["CAP_SYS_PTRACE", "the machine's PID namespace"],
)
def test_who_may_not_look_never_says_that_there_is_nothing(
    collector: Collector, stuck: StuckConnection, without: tuple[str, ...], said: str
) -> None:
    (collector.devices / "nvidia0").touch()
    seen = collector.look(*without)

    assert [key for key in seen if key.startswith(("fuse_", "tasks_", "gpu_"))] == []
    assert [seen[f"look_success{{look={look}}}"] for look in ("fuse", "tasks", "gpu")] == [0, 0, 0]
    assert collector.said.count(said) == 3


def test_a_look_that_nothing_can_end_is_left_behind_and_not_begun_twice(
    collector: Collector, stuck: StuckConnection
) -> None:
    (collector.containerd / "config.toml").write_text(RUNC)
    collector.has("containerd", f"cat {collector.containerd}/config.toml")
    collector.has("crictl", f"echo $$ >>{collector.folder}/begun; exec cat {stuck.mountpoint}/stuck")
    first = collector.look(seconds=5)
    second = collector.look(seconds=5)
    begun = (collector.folder / "begun").read_text().split()
    stuck.abort()
    wait_until(stuck.freed, "the reader is freed")
    collector.has("crictl", f"cat {collector.folder}/info")
    (collector.folder / "info").write_text(INFO % (HANDLER % "runc"))
    collector.look_until("look_success{look=runtime}", 1)

    assert [seen["look_success{look=runtime}"] for seen in (first, second)] == [0, 0]
    assert [seen[waiting(stuck.connection)] >= 1 for seen in (first, second)] == [True, True]
    assert len(begun) == 1


def test_who_holds_a_gpu_lives_or_was_killed_and_is_not_gone(collector: Collector) -> None:
    reader = ("bash", "-c", f"exec 7<>{collector.devices}/nvidia0; exec dd if={{file}} of=/dev/null bs=4096 count=1")
    (collector.devices / "nvidia0").touch()
    (collector.devices / "nvidia1").touch()
    service = shutil.copy("/bin/sleep", collector.programs / "nvidia-persistenced")
    collector.holder("service", [str(service), "600"])
    with StuckConnection(collector.place, MountOptions(direct=True), command=reader, kill_reader=False) as stuck:
        waits = collector.look()
        collector.place.kill(stuck.reader_pid)
        wait_until(lambda: stuck.reader_state() == "D", "the killed reader stays in D")
        killed = collector.look()

        assert (waits[LIVE], waits[DYING], killed[LIVE], killed[DYING]) == (1, 0, 0, 1)
        assert killed["gpu_holders{device=nvidia1,state=live}"] == 0
    assert (gone := collector.look())[LIVE] + gone[DYING] == 0


@pytest.mark.parametrize(
    ("imported", "running", "told"),
    [(False, ("runc",), (1, 0, 0)), (True, ("runc",), (1, 1, 0)), (True, ("runc", "nvidia"), (1, 1, 1))],
    ids=["nothing imports the drop-in", "not restarted", "loaded"],
)
def test_a_handler_in_a_file_is_not_taken_for_one_that_runs(
    collector: Collector, imported: bool, running: tuple[str, ...], told: tuple[int, ...]
) -> None:
    (collector.containerd / "config.toml").write_text(RUNC)
    (collector.containerd / "conf.d").mkdir()
    (collector.containerd / "conf.d/99-nvidia.toml").write_text(DROP_IN)
    (collector.folder / "info").write_text(INFO % ",".join(HANDLER % name for name in running))
    read = f"cat {collector.containerd}/config.toml"
    collector.has("containerd", f"{read} {collector.containerd}/conf.d/*" if imported else read)
    collector.has("crictl", f"cat {collector.folder}/info")

    seen = collector.look()

    handlers = {key: value for key, value in seen.items() if key.startswith("runtime_handler{")}
    assert (
        tuple(handlers[f"runtime_handler{{handler=nvidia,seen={at}}}"] for at in ("disk", "files", "running")) == told
    )
    assert [handlers[f"runtime_handler{{handler=runc,seen={at}}}"] for at in ("disk", "files", "running")] == [1, 1, 1]
    assert len(handlers) == 6


def test_a_runtime_that_does_not_answer_is_not_said_to_have_no_handler(collector: Collector) -> None:
    (collector.containerd / "config.toml").write_text(RUNC)
    collector.has("containerd", f"cat {collector.containerd}/config.toml")
    collector.has("crictl", "echo 'validate service connection: no such file' >&2; exit 1")

    seen = collector.look()

    assert [key for key in seen if key.startswith("runtime_")] == []
    assert (seen["look_success{look=runtime}"], seen["look_success{look=fuse}"]) == (0, 1)
    assert "runtime: could not look: crictl does not answer" in collector.said


def test_shellcheck_has_nothing_to_say_of_it() -> None:
    need("shellcheck", "shellcheck")

    said = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True, check=False)

    assert (said.returncode, said.stdout) == (0, "")


def test_it_knows_the_mount_helpers_that_the_cure_knows() -> None:
    cure = (Path("runbooks/lib/fuse.sh")).read_text()
    helpers = re.search(r"^helpers='(.*)'$", SCRIPT.read_text(), re.MULTILINE)

    assert helpers is not None
    assert f"/^({helpers[1]})$/" in cure
