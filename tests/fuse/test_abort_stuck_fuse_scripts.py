"""Each script of abort-stuck-fuse as it is sent, against connections that are really stuck in this kernel.

Every test has a file system type of its own and asks for it, so that nothing of anybody else's is looked at or touched.
"""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.private import PrivateMounts
from lab.process import wait_until
from lab.stuck import MAP, BusyMount, FuseMount, MountOptions, StuckConnection
from service.app.load_runbooks import RunbookFolder
from service.domain.plan import check_params, param_text
from service.domain.runbook import Runbook
from service.domain.script import ScriptKind, render

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

CHECK, RUN, VERIFY = ScriptKind.CHECK, ScriptKind.RUN, ScriptKind.VERIFY
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Only stops a hang.
SECONDS = 600

# The other kind of kernel: fdinfo does not say whose connection a descriptor is. There "nobody else
# on the node" counts, so these looks are kept to the processes of the test's own mount namespace.
TOLD = '$1 == "fuse_connection:"'
OWN_FOLDERS = r"""
folders() {
  local own
  own=$(readlink /proc/self/ns/mnt)
  find /proc/[0-9]*/ns/mnt -maxdepth 0 -lname "${own//[\[\]]/?}" -printf '%h\n' 2>/dev/null | sed 's,/ns$,,' || true
}
"""


@dataclass(frozen=True)
class Said:
    """How a script ended."""

    code: int
    output: str
    targets: tuple[str, ...]

    @property
    def connections(self) -> list[int]:
        """The numbers of the connections among the targets."""
        return [int(target.split()[1]) for target in self.targets]


@dataclass(frozen=True)
class Node:
    """A private mount namespace on which scripts are played as an executor would."""

    place: PrivateMounts
    folder: Path
    fstype: str
    prelude: str
    runbook: Runbook

    def options(self, **more: object) -> MountOptions:
        """Return how a mount of this test is made."""
        return MountOptions(**{"fstype": self.fstype, "direct": True, **more})  # type: ignore[arg-type]

    def play(
        self,
        step: str,
        kind: ScriptKind,
        targets: tuple[str, ...] = (),
        *,
        without: tuple[str, ...] = (),
        **params: object,
    ) -> Said:
        """Run one script with the parameters as a plan would give them."""
        body = self.runbook.step(step).script(kind)
        assert body is not None
        given = check_params(self.runbook, {"hold_seconds": 3, "fstype": self.fstype, **params})
        environment = {f"PARAM_{name.upper()}": param_text(value) for name, value in given.items()}
        script = render(prelude=self.prelude, body=body, environment=environment | {"NODE_NAME": "gpu-01"})
        file = self.folder / "targets"
        file.write_text("".join(f"{target}\n" for target in targets))
        said = subprocess.run(
            [*self.place.enter_prefix, *without, "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": PATH, "UNSTICK_TARGETS": str(file)},
            cwd="/",
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Said(said.returncode, said.stdout, tuple(file.read_text().splitlines()))


@pytest.fixture
def runbook() -> Runbook:
    return RunbookFolder(Path("runbooks")).get("abort-stuck-fuse")[0]


@pytest.fixture
def node(private_mounts: PrivateMounts, tmp_path: Path, runbook: Runbook) -> Node:
    return Node(private_mounts, tmp_path, f"fuse.t{os.urandom(4).hex()}", runbook.prelude, runbook)


@pytest.fixture
def untelling_node(node: Node) -> Node:
    """Give a node whose kernel does not tell the connection of a descriptor (before 6.16)."""
    assert TOLD in node.prelude
    prelude = node.prelude.replace(TOLD, '$1 == "hidden:"') + OWN_FOLDERS
    return replace(node, prelude=prelude)


@pytest.fixture
def stuck(node: Node) -> Iterator[StuckConnection]:
    with StuckConnection(node.place, node.options()) as made:
        yield made


def identity(mount: FuseMount, node: Node, *, path: str | None = None) -> tuple[str, ...]:
    """Return the words of a target, the time of appearance and the mount id left out."""
    number = str(mount.connection)
    return (
        "connection",
        number,
        "device",
        f"0:{number}",
        "fstype",
        node.fstype,
        "mountpoint",
        path or mount.mountpoint,
    )


def words(target: str) -> tuple[str, ...]:
    said = target.split()
    return (*said[0:2], *said[6:10], *said[12:14])


def test_on_a_healthy_node_nobody_is_a_target_and_all_is_well(node: Node) -> None:
    with FuseMount(node.place, node.options()) as healthy:
        dead, hung = node.play("abort-dead", CHECK), node.play("abort-hung", CHECK)
        abandoned, well = node.play("unmount", CHECK), node.play("well", VERIFY)

        assert (dead.code, dead.output, dead.targets) == (77, "nobody waits on a connection\n", ())
        assert (hung.code, hung.output, hung.targets) == (77, "no connection is without an answer\n", ())
        assert (abandoned.code, abandoned.targets) == (77, ())
        assert (well.code, well.output) == (0, "no GPU driver on this node; VRAM not looked at\n")
        assert healthy.exists()


def test_a_dead_server_s_connection_is_the_one_target_and_abort_frees_its_reader(
    node: Node, stuck: StuckConnection
) -> None:
    check = node.play("abort-dead", CHECK)
    before = node.play("abort-dead", VERIFY, check.targets)
    run = node.play("abort-dead", RUN, check.targets)
    wait_until(stuck.freed, "the reader is freed")
    after, well = node.play("abort-dead", VERIFY, check.targets), node.play("well", VERIFY)

    assert check.code == 0
    assert [words(target) for target in check.targets] == [identity(stuck, node)]
    assert f"  {stuck.reader_pid}/{stuck.reader_pid} dd " in check.output
    assert (before.code, f"connection {stuck.connection} still has someone waiting" in before.output) == (77, True)
    assert (run.code, run.output) == (0, f"aborted connection {stuck.connection}\n")
    assert (after.code, after.output) == (0, "")
    assert (well.code, well.output) == (0, "no GPU driver on this node; VRAM not looked at\n")


@pytest.mark.parametrize(
    ("options", "file", "command"),
    [({"direct": False}, "stuck", MAP), ({"asynchronous": True, "direct": False}, "stuck", None), ({}, "unread", None)],
    ids=["a page fault", "a buffered read", "a request that stays queued"],
)
def test_a_reader_is_found_however_it_waits(
    node: Node, options: Mapping[str, object], file: str, command: tuple[str, ...] | None
) -> None:
    given = {"command": command} if command else {}
    made = StuckConnection(node.place, node.options(**options), file=file, kill_reader=False, **given)  # type: ignore[arg-type]
    with made as stuck:
        check = node.play("abort-dead", CHECK)
        run = node.play("abort-dead", RUN, check.targets)
        wait_until(stuck.freed, "the reader is freed")

        assert [words(target) for target in check.targets] == [identity(stuck, node)]
        assert (check.code, run.code) == (0, 0)


def test_a_connection_that_gets_stuck_after_the_look_is_left_alone_and_named(
    node: Node, stuck: StuckConnection
) -> None:
    check = node.play("abort-dead", CHECK)
    with StuckConnection(node.place, node.options()) as later:
        run = node.play("abort-dead", RUN, check.targets)
        verify = node.play("abort-dead", VERIFY, check.targets)
        well = node.play("well", VERIFY)

        assert run.code == 0
        assert f"left alone, not approved: connection {later.connection} since " in run.output
        assert f"aborted connection {stuck.connection}\n" in run.output
        assert (later.reader_state(), later.waiting()) == ("D", 1)
        assert verify.code == 0
        assert (well.code, "still stuck:" in well.output) == (77, True)


def test_a_target_that_is_gone_is_cleared_and_its_number_is_not_taken_for_it(node: Node) -> None:
    with StuckConnection(node.place, node.options()) as first:
        check = node.play("abort-dead", CHECK)
    with StuckConnection(node.place, node.options(), mountpoint=first.mountpoint) as second:
        run = node.play("abort-dead", RUN, check.targets)

        assert check.connections == [first.connection]
        assert run.code == 77
        assert run.output.endswith("nothing that was approved is stuck any more\n")
        assert (second.reader_state(), second.waiting()) == ("D", 1)


def test_a_denied_type_and_a_denied_path_are_never_targets(node: Node) -> None:
    lxcfs = replace(node, fstype="fuse.lxcfs")
    node.place.run(["mount", "-t", "tmpfs", "tmpfs", "/run/user"])
    with (
        StuckConnection(node.place, lxcfs.options()) as denied,
        StuckConnection(node.place, node.options(), mountpoint="/run/user/1000/doc") as portal,
    ):
        looks = [there.play(step, CHECK) for there in (lxcfs, node) for step in ("abort-dead", "abort-hung")]

        assert [(look.code, look.targets) for look in looks] == [(77, ())] * 4
        assert (denied.waiting(), portal.waiting()) == (1, 1)


def test_a_busy_mount_is_never_a_target(node: Node) -> None:
    with BusyMount(node.place, node.options()) as busy:
        before = busy.bytes_read()
        looks = [node.play("abort-dead", CHECK), node.play("abort-hung", CHECK), node.play("well", VERIFY)]

        assert [(look.code, look.targets) for look in looks] == [(77, ()), (77, ()), (0, ())]
        assert busy.exists()
        assert busy.bytes_read() > before


def test_a_path_with_a_space_a_digit_and_a_backslash_is_cured_and_unmounted(node: Node) -> None:
    mountpoint, escaped = f"{node.place.folder}/a 1\\b", f"{node.place.folder}/a\\0401\\134b"
    with StuckConnection(node.place, node.options(), mountpoint=mountpoint) as stuck:
        dead = node.play("abort-dead", CHECK)
        aborted = node.play("abort-dead", RUN, dead.targets)
        wait_until(stuck.freed, "the reader is freed")
        before = node.play("unmount", CHECK)
        still = node.play("unmount", VERIFY, before.targets)
        unmounted = node.play("unmount", RUN, before.targets)
        wait_until(lambda: node.play("unmount", VERIFY, before.targets).code == 0, "the connection is gone too")

        assert [words(target) for target in dead.targets] == [identity(stuck, node, path=escaped)]
        assert aborted.code == 0
        assert [words(target) for target in before.targets] == [identity(stuck, node, path=escaped)]
        assert (still.code, unmounted.code) == (77, 0)
        assert node.fstype not in Path(f"/proc/{node.place.holder.pid}/mountinfo").read_text()


def test_a_mount_whose_server_lives_is_not_abandoned(node: Node, stuck: StuckConnection) -> None:
    with FuseMount(node.place, node.options()) as healthy:
        node.play("abort-dead", RUN, node.play("abort-dead", CHECK).targets)
        wait_until(stuck.freed, "the reader is freed")

        check = node.play("unmount", CHECK)
        run = node.play("unmount", RUN, check.targets)

        assert (check.connections, run.code) == ([stuck.connection], 0)
        assert (healthy.exists(), healthy.listed(), stuck.listed()) == (True, True, False)


def test_a_live_server_that_answers_nobody_is_left_to_the_second_person(node: Node) -> None:
    with StuckConnection(node.place, node.options(), kill_server=False) as stuck:
        dead, hung = node.play("abort-dead", CHECK), node.play("abort-hung", CHECK)
        run = node.play("abort-hung", RUN, hung.targets)
        wait_until(stuck.freed, "the reader is freed")
        verify = node.play("abort-hung", VERIFY, hung.targets)

        assert (dead.code, dead.targets) == (77, ())
        assert [words(target) for target in hung.targets] == [identity(stuck, node)]
        assert f"server {stuck.connection} {stuck.server_pid} " in hung.output
        assert (hung.code, run.code, verify.code) == (0, 0, 0)


def test_where_the_kernel_does_not_tell_a_helper_alone_proves_a_dead_server(untelling_node: Node) -> None:
    node = untelling_node
    with StuckConnection(node.place, node.options()) as stuck:
        check = node.play("abort-dead", CHECK)
        run = node.play("abort-dead", RUN, check.targets)
        wait_until(stuck.freed, "the reader is freed")

        assert [words(target) for target in check.targets] == [identity(stuck, node)]
        assert (check.code, run.code) == (0, 0)


def _another_server(node: Node) -> FuseMount:
    return FuseMount(node.place, node.options(fstype="fuse.other", helper=None))


class _BareDescriptor:
    """A process that has /dev/fuse open and serves nothing."""

    def __init__(self, node: Node) -> None:
        self._place = node.place
        self._pid = self._place.start("bare", ["bash", "-c", "exec 7<>/dev/fuse; sleep 600 & wait"])
        wait_until(lambda: Path(f"/proc/{self._pid}/fd/7").exists(), "the descriptor is open")

    def __enter__(self) -> "_BareDescriptor":
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._pid, 9)


@pytest.mark.parametrize("other", [_another_server, _BareDescriptor], ids=["a server", "a bare descriptor"])
def test_where_the_kernel_does_not_tell_any_other_holder_leaves_it_to_the_second_person(
    untelling_node: Node, other: Callable[[Node], FuseMount | _BareDescriptor]
) -> None:
    node = untelling_node
    with StuckConnection(node.place, node.options()) as stuck, other(node):
        dead, hung = node.play("abort-dead", CHECK), node.play("abort-hung", CHECK)

        told = "could not tell which servers live: this kernel does not say; left to abort-hung\n"
        assert (dead.code, dead.output, dead.targets) == (77, told, ())
        assert [words(target) for target in hung.targets] == [identity(stuck, node)]
        assert (hung.code, stuck.waiting()) == (0, 1)


def test_nobody_seen_to_hold_proves_nothing(node: Node) -> None:
    with StuckConnection(node.place, node.options(helper="sleeper")) as stuck:
        dead = node.play("abort-dead", CHECK)

        assert (dead.code, dead.targets, stuck.waiting()) == (77, (), 1)


def test_where_fusectl_is_not_seen_nothing_was_looked_at(node: Node, stuck: StuckConnection) -> None:
    node.place.run(["mount", "-t", "tmpfs", "tmpfs", "/sys/fs/fuse/connections"])

    looks = [node.play("abort-dead", CHECK), node.play("abort-hung", CHECK), node.play("well", VERIFY)]

    node.place.run(["umount", "/sys/fs/fuse/connections"])
    assert {(look.code, look.output.splitlines()[0]) for look in looks} == {
        (2, "could not look: fusectl is not mounted (mount -t fusectl fusectl /sys/fs/fuse/connections)")
    }
    assert stuck.waiting() == 1


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (("setpriv", "--reuid=65534", "--clear-groups"), "could not look: not root\n"),
        (("setpriv", "--bounding-set=-sys_ptrace"), "could not look: without CAP_SYS_PTRACE\n"),
    ],
    ids=["root", "CAP_SYS_PTRACE"],
)
def test_who_may_not_look_never_says_that_there_is_nothing(
    node: Node, stuck: StuckConnection, without: tuple[str, ...], said: str
) -> None:
    check = node.play("abort-dead", CHECK, without=without)

    assert (check.code, check.output) == (2, said)
    assert stuck.waiting() == 1


def test_the_evidence_is_taken_without_touching_what_is_stuck(node: Node, stuck: StuckConnection) -> None:
    said = node.play("evidence", RUN)

    assert said.code == 0
    assert f"\n{stuck.connection} 1 " in said.output
    assert f"\nwaiter {stuck.connection} {stuck.reader_pid} {stuck.reader_pid} " in said.output
    assert f"\n{stuck.connection} {stuck.helper_pid} /proc/{stuck.helper_pid} fusermount-serv\n" in said.output
    assert f"\n/proc/{stuck.reader_pid}/task/{stuck.reader_pid} dd request_wait_answer\n" in said.output
    assert stuck.waiting() == 1
