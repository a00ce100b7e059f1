"""The functions of runbooks/lib/fuse.sh against made-up trees: what they read is files, so no kernel is needed."""

import subprocess
from pathlib import Path

import pytest

from tests.support.fake_node import NOT_ROOT

STRICT = Path("runbooks/lib/strict.sh").read_text()
LIBRARY = Path("runbooks/lib/fuse.sh").read_text()
NVIDIA_SMI = Path("runbooks/lib/nvidia_smi.sh").read_text()
FIRST_FUNCTION = "# Print the /proc folder of every process"

# Kernel escapes: \040 is a space, \134 a backslash, \011 a tab.
MOUNTS = r"""36 35 0:93 / /mnt/my\040data rw,nosuid,nodev shared:21 - fuse.rclone remote:bucket rw,user_id=0,group_id=0
37 35 0:94 / /mnt/a\134b rw - fuse.sshfs u@h:/x rw
38 35 0:95 / /mnt/x\011y rw shared:1 master:2 - fuse.s3fs s3\040fs rw
39 35 0:93 /sub /srv/bind rw - fuse.rclone remote:bucket rw
40 35 0:96 / /mnt/100%{done} rw - fuse gcsfuse rw
41 35 0:97 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw
42 40 8:1 / / rw - ext4 /dev/sda1 rw
43 35 0:98 / /mnt/run\0401 rw - fuse.rclone  rw
44 35 0:99 / /sys/fs/fuse/connections rw - fusectl none rw
45 35 8:17 / /mnt/ntfs rw - fuseblk /dev/sdb1 rw
"""


class FakeNode:
    """A tree with a control folder of FUSE and one process that sees mounts."""

    def __init__(self, folder: Path) -> None:
        self.control = folder / "connections"
        self.process = folder / "proc" / "100"
        self.targets = folder / "targets"
        self.control.mkdir()
        self.process.mkdir(parents=True)
        self.targets.touch()
        self.see_mounts("")

    def see_mounts(self, mountinfo: str) -> None:
        (self.process / "mountinfo").write_text(mountinfo)

    def add(self, number: int, *, waiting: int = 0) -> None:
        folder = self.control / str(number)
        folder.mkdir()
        (folder / "waiting").write_text(f"{waiting}\n")
        (folder / "abort").touch()

    def aborted(self) -> set[int]:
        return {int(folder.name) for folder in self.control.iterdir() if (folder / "abort").read_text() == "1\n"}

    def call(self, shell: str, *, holders: str = "") -> subprocess.CompletedProcess[str]:
        """Run some shell after the library, whose looks at /proc and /sys are turned to this tree."""
        strict = STRICT.replace('[ "$EUID" -ne 0 ]', NOT_ROOT['[ "$EUID" -ne 0 ]'])
        functions = LIBRARY[LIBRARY.index(FIRST_FUNCTION) :]
        script = f"""set -euo pipefail
{strict}
{NVIDIA_SMI}
control={self.control}
{functions}
folders() {{ printf '%s\\n' {self.process}; }}
server_holders() {{ printf '%s' '{holders}'; }}
waiters() {{ :; }}
{shell}
"""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "UNSTICK_TARGETS": str(self.targets)}
        return subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=60, check=False
        )


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def mount(number: int, fstype: str, mountpoint: str, *, mount_id: int | None = None) -> str:
    return f"{mount_id or number + 700} 35 0:{number} / {mountpoint} rw - {fstype} source rw\n"


HELPERS = "".join(f"{number} 9 /proc/9 fusermount-serv\n" for number in (41, 57, 58, 60))


def see_four_connections(node: FakeNode, *, lxcfs_waiting: int) -> None:
    """Show lxcfs, a dead rclone, an idle one, and a connection that no process here has mounted."""
    for number, waiting in ((41, lxcfs_waiting), (57, 5), (58, 0), (60, 3)):
        node.add(number, waiting=waiting)
    node.see_mounts(
        mount(41, "fuse.lxcfs", "/var/lib/lxcfs")
        + mount(57, "fuse.rclone", "/data")
        + mount(58, "fuse.rclone", "/more")
    )


def test_of_all_connections_only_the_dead_one_that_may_be_touched_is_aborted(node: FakeNode) -> None:
    see_four_connections(node, lxcfs_waiting=3)

    said = node.call("dead | tee $UNSTICK_TARGETS; dead | approved | abort", holders=HELPERS)

    target, acted = said.stdout.splitlines()
    assert (target.split()[:2], acted) == (["connection", "57"], "aborted connection 57")
    assert (said.returncode, node.aborted()) == (0, {57})


@pytest.mark.parametrize(
    ("holders", "found"),
    [
        ("57 9 /proc/9 fusermount-serv\n", ["57"]),
        ("57 9 /proc/9 fusermount3\n", ["57"]),
        ("57 9 /proc/9 fusermount-serv\n57 8 /proc/8 rclone\n", []),
        ("57 8 /proc/8 rclone\n", []),
        ("57 9 /proc/9 fusermount evil\n", []),
        ("", []),
        ("? 9 /proc/9 fusermount-serv\n", ["57"]),
        ("? 9 /proc/9 fusermount-serv\n? 8 /proc/8 rclone\n", []),
        ("? 9 /proc/9 fusermount-serv\nhidden 8 /proc/8 rclone\n", []),
        ("58 9 /proc/9 fusermount-serv\n", []),
    ],
    ids=[
        "a helper alone",
        "another helper alone",
        "a server too",
        "a server alone",
        "a name that only begins like a helper",
        "nobody seen",
        "not told: a helper alone",
        "not told: somebody else too",
        "not told: somebody hides",
        "a helper of another connection",
    ],
)
def test_a_server_is_gone_only_when_a_helper_and_nobody_else_is_seen_to_hold(
    node: FakeNode, holders: str, found: list[str]
) -> None:
    node.add(57, waiting=5)
    node.see_mounts(mount(57, "fuse.rclone", "/data"))

    said = node.call("dead", holders=holders)

    assert (said.returncode, [line.split()[1] for line in said.stdout.splitlines()]) == (0, found)


@pytest.mark.parametrize(
    "mountpoint",
    ["/", "/run/user", "/run/user/1000/doc", "/proc/x", "/sys/x", "/dev", "/etc/pve", "/usr/share/x"],
)
def test_a_mount_on_a_denied_path_denies_its_connection_wherever_else_it_is_mounted(
    node: FakeNode, mountpoint: str
) -> None:
    node.add(57, waiting=5)
    node.see_mounts(mount(57, "fuse.rclone", "/data") + mount(57, "fuse.rclone", mountpoint, mount_id=9))

    said = node.call("mount_targets")

    assert (said.returncode, said.stdout) == (0, "")


@pytest.mark.parametrize(
    "fstype",
    [
        "fuse.lxcfs",
        "fuse.fuse-overlayfs",
        "fuse.snapfuse",
        "fuse.squashfuse",
        "fuse.squashfuse_ll",
        "fuse.portal",
        "fuse.gvfsd-fuse",
        "fuse.glusterfs",
        "fuse.ceph-fuse",
        "fuse.juicefs",
        "fuseblk",
        "fusectl",
    ],
)
def test_a_denied_type_is_never_a_target(node: FakeNode, fstype: str) -> None:
    node.add(57, waiting=5)
    node.see_mounts(mount(57, fstype, "/data"))

    assert node.call("dead; mount_targets", holders=HELPERS).stdout == ""


def test_targets_are_in_a_stable_order_and_keep_the_escapes_of_the_kernel(node: FakeNode) -> None:
    for number in (98, 97, 96, 95, 94, 93):
        node.add(number)
    node.see_mounts(MOUNTS)

    said = node.call("mount_targets")

    found = [line.split() for line in said.stdout.splitlines()]
    assert [(words[1], words[5], words[9], words[11], words[13]) for words in found] == [
        ("93", "36", "fuse.rclone", "remote:bucket", r"/mnt/my\040data"),
        ("93", "39", "fuse.rclone", "remote:bucket", "/srv/bind"),
        ("94", "37", "fuse.sshfs", "u@h:/x", r"/mnt/a\134b"),
        ("95", "38", "fuse.s3fs", r"s3\040fs", r"/mnt/x\011y"),
        ("96", "40", "fuse", "gcsfuse", "/mnt/100%{done}"),
        ("98", "43", "fuse.rclone", "none", r"/mnt/run\0401"),
    ]


def test_a_path_is_unmounted_under_its_own_name_as_one_word(node: FakeNode) -> None:
    for number in (93, 94, 95, 96, 98):
        node.add(number)
    node.see_mounts(MOUNTS)

    said = node.call("umount() { printf '%s\\0' \"${@: -1}\" >&2; }\nmount_targets | unmount")

    assert said.returncode == 0
    assert said.stderr.split("\0")[:-1] == [
        "/mnt/my data",
        "/srv/bind",
        "/mnt/a\\b",
        "/mnt/x\ty",
        "/mnt/100%{done}",
        "/mnt/run 1",
    ]


def test_bind_mounts_of_one_connection_share_one_abort(node: FakeNode) -> None:
    node.add(93, waiting=1)
    node.see_mounts(MOUNTS)

    said = node.call("dead | tee $UNSTICK_TARGETS | abort", holders="93 9 /proc/9 fusermount3\n")

    assert (said.returncode, said.stdout) == (0, "aborted connection 93\n")


def test_only_the_type_that_was_asked_for_is_looked_at(node: FakeNode) -> None:
    for number in (93, 94, 96):
        node.add(number)
    node.see_mounts(MOUNTS)

    said = node.call("connections fuse.sshfs")

    assert [line.split()[1] for line in said.stdout.splitlines()] == ["94"]


def test_one_look_at_waiting_requests_is_not_enough(node: FakeNode) -> None:
    node.add(57, waiting=5)
    node.add(58, waiting=5)
    node.see_mounts(mount(57, "fuse.rclone", "/data") + mount(58, "fuse.rclone", "/more"))

    said = node.call(f"sleep() {{ echo 0 >{node.control}/58/waiting; }}\nheld 4 dead", holders=HELPERS)

    assert [line.split()[1] for line in said.stdout.splitlines()] == ["57"]


def test_a_connection_that_is_being_taken_away_has_nobody_waiting_and_one_that_cannot_be_read_is_no_zero(
    node: FakeNode,
) -> None:
    node.add(57)
    (node.control / "57/waiting").unlink()
    node.add(58)
    (node.control / "58/waiting").unlink()
    (node.control / "58/waiting").mkdir()

    going, unreadable = node.call("waiting 57"), node.call("waiting 58")

    assert (going.returncode, going.stdout) == (0, "0\n")
    assert (unreadable.returncode, unreadable.stdout) == (2, "")


def test_where_nobody_waits_no_time_is_held(node: FakeNode) -> None:
    node.add(57, waiting=0)
    node.see_mounts(mount(57, "fuse.rclone", "/data"))

    said = node.call("sleep() { echo slept; }\nheld 60 dead\nhung 60", holders=HELPERS)

    assert (said.returncode, said.stdout) == (0, "")


def test_what_was_not_approved_is_left_alone_and_named(node: FakeNode) -> None:
    node.add(57, waiting=5)
    node.add(58, waiting=5)
    node.see_mounts(mount(57, "fuse.rclone", "/data") + mount(58, "fuse.rclone", "/more"))

    said = node.call("dead | grep ' 57 ' >$UNSTICK_TARGETS\ndead | approved | abort", holders=HELPERS)

    assert (said.stdout, node.aborted()) == ("aborted connection 57\n", {57})
    assert said.stderr.startswith("left alone, not approved: connection 58 since ")


def test_a_number_that_was_given_again_is_another_connection(node: FakeNode) -> None:
    node.add(57, waiting=5)
    node.see_mounts(mount(57, "fuse.rclone", "/data"))
    again = f"rm -r {node.control}/57\nsleep 0.05\nmkdir {node.control}/57\necho 5 >{node.control}/57/waiting"

    said = node.call(f"dead >$UNSTICK_TARGETS\n{again}\nabort <$UNSTICK_TARGETS", holders=HELPERS)
    look = node.call("dead | approved", holders=HELPERS)

    assert (said.returncode, said.stdout) == (77, "")
    assert look.stderr.startswith("left alone, not approved: connection 57 since ")


@pytest.mark.parametrize(
    ("after", "exit_code", "told"),
    [
        ("", 77, "connection 57 still has someone waiting\n"),
        ("echo 0 >$control/57/waiting", 0, ""),
        ("rm -r $control/57", 0, ""),
        ("rm -r $control/57; sleep 0.05; mkdir $control/57; echo 5 >$control/57/waiting", 0, ""),
        (
            "echo 0 >$control/57/waiting\nwaiters() { echo 'waiter 57 7 8 1 2 x sure'; }",
            77,
            "waiter 57 7 8 1 2 x sure\n",
        ),
    ],
    ids=["still waiting", "released", "gone", "another of that number", "nothing waits but a thread hangs"],
)
def test_released_is_judged_by_who_waits_and_not_by_the_act(
    node: FakeNode, after: str, exit_code: int, told: str
) -> None:
    node.add(57, waiting=5)
    node.see_mounts(mount(57, "fuse.rclone", "/data"))

    said = node.call(f"dead >$UNSTICK_TARGETS\n{after}\nreleased", holders=HELPERS)

    assert said.returncode == exit_code
    assert said.stdout.startswith(told)


@pytest.mark.parametrize(
    ("command", "exit_code", "told"),
    [
        ("echo a; echo b", 0, "a\nb\n"),
        ("printf a", 0, "a\n"),
        ("echo a >&2; exit 3", 3, "a\nsh: exit 3\n"),
        ("exit 1", 1, "sh: exit 1\n"),
        ("cat", 0, ""),
    ],
)
def test_a_bounded_command_gives_its_output_and_its_exit_code(
    node: FakeNode, command: str, exit_code: int, told: str
) -> None:
    said = node.call(f"code=0; bounded 20 sh -c '{command}' || code=$?\nexit $code")

    assert (said.returncode, said.stdout) == (exit_code, told)


def test_a_command_that_does_not_end_is_ended(node: FakeNode) -> None:
    said = node.call("code=0; bounded 1 sh -c 'echo a; exec sleep 30' || code=$?\nexit $code")

    assert (said.returncode, said.stdout) == (124, "a\nsh: exit 124\n")


def test_a_command_that_cannot_be_ended_is_left_behind(node: FakeNode) -> None:
    # Nobody can be made unkillable here, so `timeout` is replaced by one that never ends the command.
    # The answer is awaited for ten seconds longer than the command may take: 2 seconds here.
    said = node.call("timeout() { sleep 3; }\ncode=0; bounded -8 true || code=$?\nexit $code")

    assert (said.returncode, said.stdout) == (124, "true: no answer, left behind\n")


def test_an_accident_is_could_not_look_and_never_not_well(node: FakeNode) -> None:
    assert node.call("false").returncode == 2
    assert node.call('x=$(cat /absent)\necho "$x"').returncode == 2
    assert node.call("f() { grep -q x /dev/null; echo on; }\nf").returncode == 2


@pytest.mark.parametrize("unfinished", [False, True], ids=["", "last line without an end"])
@pytest.mark.parametrize(
    ("processes", "gpus", "exit_code", "told"),
    [
        ("", "GPU-1, 14", 0, ""),
        ("", "GPU-1, 40000", 77, "GPU-1: 40000 MiB used and no process\n"),
        ("GPU-1", "GPU-1, 40000", 0, ""),
        ("GPU-2", "GPU-1, 40000\nGPU-2, 40000", 77, "GPU-1: 40000 MiB used and no process\n"),
        ("", "GPU-1, [N/A]", 0, "GPU-1: this GPU does not tell its memory\n"),
        ("", "GPU-1, broken", 2, "could not look: GPU-1: broken\n"),
        ("", "", 2, "could not look: no GPU answered\n"),
        ("fail", "GPU-1, 14", 2, "could not look: Unable to determine the device handle"),
        ("", "fail", 2, "could not look: Unable to determine the device handle"),
    ],
)
def test_vram_is_back_only_when_every_gpu_says_so(
    node: FakeNode, tmp_path: Path, processes: str, gpus: str, exit_code: int, told: str, unfinished: bool
) -> None:
    program = tmp_path / "nvidia-smi"
    end = "" if unfinished else "\\n"
    program.write_text(
        f"""#!/bin/bash
case $1 in
  --query-compute-apps=*) answer='{processes}' ;;
  --query-gpu=*) answer='{gpus}' ;;
esac
[ "$answer" != fail ] || {{ echo 'Unable to determine the device handle'; exit 15; }}
[ -z "$answer" ] || printf '%s{end}' "$answer"
"""
    )
    program.chmod(0o755)

    said = node.call(f"PATH={tmp_path}:$PATH\nvram_back 600")

    assert said.returncode == exit_code
    assert said.stdout.startswith(told)
