"""Situations that the FUSE runbook was made for, played with its own scripts against made-up trees.

Each script of a step stands behind the library as it would be sent; only its looks at /proc and /sys are turned.
"""

import subprocess
from pathlib import Path

import pytest

from service.app.load_runbooks import RunbookFolder
from service.app.ports import RunbookSource
from service.app.read_runbook import examine
from service.domain.runbook import Runbook
from service.domain.script import ScriptKind
from tests.runbooks.test_fuse_functions import MOUNTS, FakeNode, mount, see_four_connections
from tests.unit.runbook_text import script_of

CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
HELPERS = "".join(f"{number} 9 /proc/9 fusermount-serv\n" for number in (41, 57, 58, 60, 93))
#: What opens, or asks the file system for, the path that it is given. On a mount that hangs it would hang too.
TOUCHING = ("ls", "stat", "df", "du", "mountpoint", "fusermount", "fusermount3", "lsof", "fuser", "test", "realpath")


@pytest.fixture
def runbook() -> Runbook:
    return RunbookFolder(Path("runbooks")).get("abort-stuck-fuse")[0]


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


def play(node: FakeNode, runbook: Runbook, place: str, *, shell: str = "") -> subprocess.CompletedProcess[str]:
    """Play one script, such as `unmount.check`, with the default parameters and `shell` before it."""
    step, kind = place.split(".")
    body = runbook.step(step).script(ScriptKind(kind))
    given = "PARAM_FSTYPE='' PARAM_HOLD_SECONDS=3 PARAM_IDLE_VRAM_MIB=600 PARAM_UNMOUNT=false\nsleep() { :; }\n"
    return node.call(f"{given}{shell}\n{body}", holders=HELPERS)


def test_of_four_connections_one_is_aborted_and_what_has_no_mount_here_is_shown(
    node: FakeNode, runbook: Runbook
) -> None:
    see_four_connections(node, lxcfs_waiting=0)

    evidence = play(node, runbook, "evidence.run")
    check = play(node, runbook, "abort-dead.check")
    run = play(node, runbook, "abort-dead.run")

    shown = evidence.stdout.partition("== connections: number, waiting, appeared\n")[2].partition("==")[0]
    assert [line.split()[:2] for line in shown.splitlines()] == [["41", "0"], ["57", "5"], ["58", "0"], ["60", "3"]]
    assert (evidence.returncode, check.returncode, run.returncode) == (0, 0, 0)
    assert [line.split()[1] for line in node.targets.read_text().splitlines()] == ["57"]
    assert (run.stdout, node.aborted()) == ("aborted connection 57\n", {57})


def test_the_answer_that_everybody_knows_is_refused_with_the_right_one() -> None:
    text = script_of("for c in /sys/fs/fuse/connections/*; do echo 1 >$c/abort; done")

    examined = examine(RunbookSource("cure", text, "", ""), "runbooks/cure.yaml")

    assert examined.runbook is None
    (finding,) = examined.findings
    assert str(finding) == (
        "runbooks/cure.yaml:11: Step a: `run` aborts FUSE connections by a glob, healthy ones too. "
        "Abort the approved ones by number: read them from $UNSTICK_TARGETS."
    )


def test_no_script_touches_the_path_of_a_mount(node: FakeNode, runbook: Runbook, tmp_path: Path) -> None:
    node.add(57, waiting=5)
    node.see_mounts(mount(57, "fuse.rclone", "/mnt/ckpt"))
    traps = tmp_path / "traps"
    traps.mkdir()
    for name in TOUCHING:
        (traps / name).write_text(f'#!/bin/sh\necho "$0 $*" >>{tmp_path}/touched\n')
        (traps / name).chmod(0o755)
    # These are needed; they only must not be given the path.
    for name in ("find", "grep", "cat"):
        given = f'case "$*" in */mnt/ckpt*) echo "$0 $*" >>{tmp_path}/touched;; esac'
        (traps / name).write_text(f'#!/bin/sh\n{given}\nexec /usr/bin/{name} "$@"\n')
        (traps / name).chmod(0o755)

    scripts = [f"{step.id}.{kind}" for step in runbook.steps for kind in ScriptKind if step.script(kind) is not None]
    ends = {
        place: play(node, runbook, place, shell=f"PATH={traps}:$PATH\numount() {{ :; }}").returncode
        for place in scripts
    }

    assert not (tmp_path / "touched").exists(), (tmp_path / "touched").read_text()
    assert set(ends.values()) <= {0, 77}, ends
    node.call(f"PATH={traps}:$PATH\nls /mnt/ckpt\ncat /mnt/ckpt/x")
    assert len((tmp_path / "touched").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [
        ("D (disk sleep)", 2, "could not look: an nvidia-smi hangs in state D: {folder}/proc/4711 12\n"),
        ("S (sleeping)", 0, ""),
    ],
)
def test_while_an_nvidia_smi_hangs_no_second_one_is_started(
    node: FakeNode, tmp_path: Path, state: str, code: int, told: str
) -> None:
    other = tmp_path / "proc" / "4711"
    other.mkdir()
    (other / "status").write_text(f"Name:\tnvidia-smi\nUmask:\t0022\nState:\t{state}\n")
    (other / "stat").write_text(f"4711 (nvidia-smi) {state[0]} {'0 ' * 18}12 0\n")
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\necho started >>{tmp_path}/started\ncase $1 in --query-gpu=*) echo 'GPU-1, 14';; esac\n"
    )
    program.chmod(0o755)

    said = node.call(
        f"PATH={tmp_path}:$PATH\n"
        # The library looks at the processes of this machine; here at those of the tree.
        f"processes={tmp_path}/proc lock={tmp_path}\nvram_back 600"
    )

    assert (said.returncode, said.stdout) == (code, told.format(folder=tmp_path))
    assert (tmp_path / "started").exists() == (code == 0)


class TestPathsWithOddSigns:
    """A space, a tab, a backslash, a percent sign and braces in the path of a mount, as the kernel writes them."""

    @pytest.fixture
    def mounted(self, node: FakeNode) -> FakeNode:
        for number in (93, 94, 95, 96):
            node.add(number)
        # In the list something is mounted on one of them; here it is elsewhere, so that all can be unmounted.
        node.see_mounts(MOUNTS.replace("42 40 8:1", "42 1 8:1"))
        return node

    def test_each_is_shown_as_it_is_unmounted(self, mounted: FakeNode, runbook: Runbook) -> None:
        play(mounted, runbook, "unmount.check")

        said = play(mounted, runbook, "unmount.run", shell="umount() { :; }")

        told = [line for line in said.stdout.splitlines() if line.startswith("unmount ")]
        assert (said.returncode, [line.removesuffix(f" as {mounted.process} sees it") for line in told]) == (
            0,
            [
                "unmount /mnt/my data",
                "unmount /srv/bind",
                "unmount /mnt/a\\b",
                "unmount /mnt/x\ty",
                "unmount /mnt/100%{done}",
            ],
        )

    def test_an_unmount_that_finds_no_such_path_is_no_success(self, mounted: FakeNode, runbook: Runbook) -> None:
        check = play(mounted, runbook, "unmount.check")
        fails = "umount() { echo 'umount: /mnt/my data: not found in /etc/mtab'; return 1; }"

        run = play(mounted, runbook, "unmount.run", shell=fails)
        verify = play(mounted, runbook, "unmount.verify")

        assert check.returncode == run.returncode == 0
        assert "umount: /mnt/my data: not found in /etc/mtab\n" in run.stdout
        assert verify.returncode == 77
        assert verify.stdout == f"still mounted:\n{mounted.targets.read_text()}"


class TestAnAbortThatDidNotHelp:
    """The act says nothing: who still waits, what is still mounted and what is still held decide."""

    STACKED = (
        mount(57, "fuse.rclone", "/data")
        + mount(57, "fuse.rclone", "/data", mount_id=758)
        + mount(57, "fuse.rclone", "/srv/bind", mount_id=759)
    )
    TWO_THREADS = "waiters() { printf 'waiter 57 4711 %s 1 2 request_wait_answer sure\\n' 4711 4712; }\n"

    @pytest.fixture
    def aborted(self, node: FakeNode, runbook: Runbook) -> FakeNode:
        node.add(57, waiting=2)
        node.see_mounts(self.STACKED)
        assert play(node, runbook, "abort-dead.check").returncode == 0
        run = play(node, runbook, "abort-dead.run")
        assert (run.returncode, run.stdout) == (0, "aborted connection 57\n")
        return node

    def test_threads_that_stay_are_named(self, aborted: FakeNode, runbook: Runbook) -> None:
        (aborted.control / "57" / "waiting").write_text("0\n")

        verify = play(aborted, runbook, "abort-dead.verify", shell=self.TWO_THREADS)

        assert verify.returncode == 77
        assert verify.stdout.splitlines() == [
            "waiter 57 4711 4711 1 2 request_wait_answer sure",
            "waiter 57 4711 4712 1 2 request_wait_answer sure",
            "connection 57 still has someone waiting",
        ]

    def test_memory_that_stays_is_named(self, aborted: FakeNode, runbook: Runbook) -> None:
        (aborted.control / "57" / "waiting").write_text("0\n")
        holds = "nvidia-smi() { :; }\nnvidia_smi() { case $1 in --query-gpu=*) echo 'GPU-1, 40000';; esac; }"

        well = play(aborted, runbook, "well.verify", shell=holds)

        assert (well.returncode, well.stdout) == (77, "GPU-1: 40000 MiB used and no process\n")

    def test_mounts_that_stay_count_only_where_they_were_to_go(self, aborted: FakeNode, runbook: Runbook) -> None:
        (aborted.control / "57" / "waiting").write_text("0\n")

        released = play(aborted, runbook, "abort-dead.verify")
        well = play(aborted, runbook, "well.verify", shell="vram_back() { :; }")
        check = play(aborted, runbook, "unmount.check")
        unmounted = play(aborted, runbook, "unmount.verify")

        assert [said.returncode for said in (released, well, check, unmounted)] == [0, 0, 0, 77]
        assert unmounted.stdout.splitlines()[0] == "still mounted:"
        assert [line.split()[5] for line in unmounted.stdout.splitlines()[1:]] == ["757", "758", "759"]
