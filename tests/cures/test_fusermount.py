"""FUSE mounts of a booted node are really aborted and taken away, and what is in use stays."""

import pytest

from lab.nodes import Node
from lab.process import wait_until
from lab.stuck import BusyMount, FuseMount, StuckConnection
from service.domain.script import ScriptKind
from tests.cures.cure import Cure, by_each, ending, outcomes, running

pytestmark = pytest.mark.needs_root

RUNBOOK = "fusermount-over-ssm"
HOLD = {"hold_seconds": 3}
#: Keeps a file open that is only under way in a socket: the kernel counts it, and no look at /proc sees it.
UNDER_WAY = """
import _socket, os, struct, sys, time
ours, theirs = _socket.socketpair()
file = os.open(sys.argv[1], os.O_RDONLY)
ours.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", file))])
os.close(file)
print("under way", flush=True)
time.sleep(600)
"""


def server_gone(node: Node) -> FuseMount:
    """Mount, and let the server die while nobody waits; the helper keeps the connection."""
    made = FuseMount(node)
    made.kill_server()
    return made


@by_each
def test_a_mount_whose_server_is_gone_is_taken_away_and_what_lives_stays(cure: Cure, node: Node) -> None:
    # As a container does it sees what was mounted before, in a namespace of its own.
    command = ["unshare", "--mount", "--propagation", "private", "sleep", "600"]
    with (
        BusyMount(node) as busy,
        FuseMount(node) as idle,
        server_gone(node) as gone,
        running(node, "container", command) as container,
    ):
        wait_until(lambda: node.run(["cat", f"/proc/{container}/comm"]).stdout == "sleep\n", "it has its namespace")
        read_before = busy.bytes_read()

        run = cure.request(RUNBOOK, params=HOLD)
        node_run = cure.end(run)

        assert (ending(node_run), outcomes(node_run)) == (
            ("succeeded", "cured"),
            {
                "evidence": "ok",
                "abort-dead": "ok",
                "abort-hung": "ok",
                "unmount-gone": "changed",
                "unmount-idle": "skipped",
                "well": "ok",
            },
        )
        assert (gone.listed(), gone.exists()) == (False, False)
        assert (idle.listed(), idle.exists(), busy.listed(), busy.exists()) == (True, True, True, True)
        assert busy.bytes_read() > read_before
        assert cure.targets(run, "unmount-gone") != ()
        said = cure.said(run, "unmount-gone", kind=ScriptKind.RUN)
        assert f"fusermount3 -u {gone.mountpoint}\n" in said
        assert f"umount {gone.mountpoint} as /proc/{container} sees it\n" in said


def test_a_named_mount_that_is_idle_is_taken_away_from_its_live_server(cure: Cure, node: Node) -> None:
    with FuseMount(node) as named, FuseMount(node) as other:
        run = cure.request(RUNBOOK, params={**HOLD, "mountpoint": named.mountpoint})
        node_run = cure.end(run)

        assert (ending(node_run), outcomes(node_run)["unmount-idle"]) == (("succeeded", "cured"), "changed")
        assert (named.listed(), named.exists()) == (False, False)
        assert (other.listed(), other.exists()) == (True, True)
        wait_until(lambda: not named.runs(named.server_pid), "the server ends with its mount")


def test_a_stuck_mount_is_aborted_first_and_then_taken_away(cure: Cure, node: Node) -> None:
    with StuckConnection(node) as named, StuckConnection(node) as other:
        run = cure.request(RUNBOOK, params={**HOLD, "mountpoint": named.mountpoint})
        node_run = cure.end(run)

        assert ending(node_run) == ("succeeded", "cured")
        assert cure.acted(run) == ["abort-dead", "unmount-gone"]
        wait_until(named.freed, "the reader is freed")
        assert (named.listed(), named.exists()) == (False, False)
        assert (other.reader_state(), other.listed()) == ("D", True)


def test_a_mount_in_use_is_no_target_and_stays(cure: Cure, node: Node) -> None:
    with BusyMount(node) as busy:
        before = busy.bytes_read()

        run = cure.request(RUNBOOK, params={**HOLD, "mountpoint": busy.mountpoint})
        node_run = cure.end(run)

        assert (ending(node_run), cure.gates(run), cure.acted(run)) == (("failed", "not_cured"), {}, [])
        said = cure.said(run, "unmount-idle", kind=ScriptKind.CHECK)
        assert f" {busy.reader_pid} dd has it open\n" in said
        assert (busy.listed(), busy.exists(), busy.bytes_read() > before) == (True, True, True)


def test_what_the_kernel_calls_busy_is_never_forced(cure: Cure, node: Node) -> None:
    with (
        FuseMount(node) as named,
        running(node, "under-way", ["python3", "-c", UNDER_WAY, f"{named.mountpoint}/ok"]),
    ):
        wait_until(lambda: "under way" in node.output("under-way"), "the file is under way")

        run = cure.request(RUNBOOK, params={**HOLD, "mountpoint": named.mountpoint})
        node_run = cure.end(run)

        assert (ending(node_run), outcomes(node_run)["unmount-idle"]) == (("failed", "not_cured"), "failed")
        said = cure.said(run, "unmount-idle", kind=ScriptKind.RUN)
        assert "Device or resource busy" in said
        assert "in use, left alone:\nconnection " in said
        assert (named.listed(), named.exists(), named.runs(named.server_pid)) == (True, True, True)
