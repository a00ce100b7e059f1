"""The lab's incident is the real one: these tests look at this very kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab import leftovers
from lab.needs import need_fuse
from lab.private import PrivateMounts
from lab.process import Process, wait_until
from lab.stuck import MAP, READ, BusyMount, MountOptions, StuckConnection

pytest_plugins = ["lab.fixtures"]
pytestmark = pytest.mark.needs_root

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MAKES_AND_WAITS = """
import time
from lab.private import PrivateMounts
from lab.stuck import StuckConnection
place = PrivateMounts()
stuck = StuckConnection(place)
print(stuck.reader_pid, stuck.helper_pid, place.folder, flush=True)
time.sleep(600)
"""


def test_a_killed_reader_stays_and_abort_frees_it(stuck_fuse_private: StuckConnection) -> None:
    stuck = stuck_fuse_private
    before = (stuck.reader_state(), stuck.waiting(), stuck.freed(), stuck.exists(), stuck.listed())

    stuck.abort()
    wait_until(stuck.freed, "the reader is freed")

    assert before == ("D", 1, False, True, True)
    assert (stuck.reader_state(), stuck.waiting(), stuck.listed()) == (None, 0, True)


def test_the_last_descriptor_keeps_the_connection(stuck_fuse_private: StuckConnection) -> None:
    stuck = stuck_fuse_private

    stuck.kill_helper()

    wait_until(stuck.freed, "the reader is freed by the end of the helper")


def test_the_stuck_mount_is_seen_in_the_namespace_alone(stuck_fuse_private: StuckConnection) -> None:
    inside = stuck_fuse_private.place.enter_prefix
    table = ["cat", "/proc/self/mountinfo"]

    seen = subprocess.run([*inside, *table], capture_output=True, text=True, check=True).stdout
    outside = subprocess.run(table, capture_output=True, text=True, check=True).stdout

    mountpoint = stuck_fuse_private.mountpoint
    assert (mountpoint in seen, mountpoint in outside) == (True, False)


@pytest.mark.parametrize(
    ("options", "file", "command", "waiting"),
    [
        (MountOptions(asynchronous=True), "stuck", MAP, 2),  # the reader's end sends FLUSH as well
        (MountOptions(), "unread", READ, 1),  # never read by the server: only FLUSH is left waiting
    ],
    ids=["mapped", "queued"],
)
def test_other_waits_are_stuck_too(
    private_mounts: PrivateMounts, options: MountOptions, file: str, command: tuple[str, ...], waiting: int
) -> None:
    with StuckConnection(private_mounts, options, file=file, command=command) as stuck:
        wait_until(lambda: stuck.waiting() == waiting, "the requests of a dying reader wait")

        assert stuck.reader_state() == "D"


def test_a_busy_mount_goes_on_beside_a_stuck_one(private_mounts: PrivateMounts) -> None:
    with StuckConnection(private_mounts) as stuck, BusyMount(private_mounts) as busy:
        before = busy.bytes_read()

        stuck.abort()
        wait_until(lambda: busy.bytes_read() > before, "the busy reader reads on")

        assert (busy.runs(busy.reader_pid), busy.exists(), busy.connection != stuck.connection) == (True, True, True)


def test_a_hung_server_is_alive_while_its_killed_reader_stays(private_mounts: PrivateMounts) -> None:
    with StuckConnection(private_mounts, kill_server=False) as hung:
        assert (hung.runs(hung.server_pid), hung.reader_state(), hung.waiting()) == (True, "D", 1)


def test_the_guardian_undoes_what_a_killed_test_left() -> None:
    need_fuse()
    test = subprocess.Popen([sys.executable, "-c", MAKES_AND_WAITS], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert test.stdout is not None
    with test.stdout:
        reader, helper, folder = test.stdout.readline().split()
    left = [Process.of(int(reader)), Process.of(int(helper))]
    record = leftovers.records_folder() / f"{Path(folder).name}.json"
    assert (record.exists(), [p.alive() for p in left]) == (True, [True, True])

    test.kill()
    test.wait()

    wait_until(lambda: not record.exists(), "the guardian undoes the record")
    assert ([p.alive() for p in left], Path(folder).exists()) == ([False, False], False)


def test_a_connection_that_only_has_our_number_is_left_alone(private_mounts: PrivateMounts) -> None:
    with StuckConnection(private_mounts) as theirs:
        ours = leftovers.Connection(number=theirs.connection, mountpoint="/gone", appeared=theirs.identity.appeared - 1)

        aborted = leftovers.abort(ours, anchors=private_mounts.anchors())

        assert (aborted, theirs.waiting(), theirs.reader_state()) == (False, 1, "D")
