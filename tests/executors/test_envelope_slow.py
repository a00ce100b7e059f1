"""On a busy node whoever keeps a stream may not have its turn for seconds; no output is lost by that."""

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.process import stat_fields, wait_until
from service.domain.script import Report, ReportState, Stream
from tests.executors.envelope_place import Heard, Place, order

pytestmark = pytest.mark.needs_root
#: Requests of ptrace(2), and the flag of waitpid(2) for a process that is not our child.
DETACH, SEIZE, INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000
#: Longer than an answer waits for a stream that a child of the script keeps open.
TURN_SECONDS = 1.5


def keepers(place: Place) -> dict[int, int]:
    """Return the processes that keep streams, each with its parent."""
    inside = Path(f"/proc/{place.mounts.holder.pid}/ns/mnt").stat()
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = (entry / "ns/mnt").stat() == inside and b"$envelope" in (entry / "cmdline").read_bytes()
            streams = [str((entry / "fd" / number).readlink()) for number in "01"] if ours else ["", ""]
            if streams[0].startswith("pipe:") and streams[1] == "/dev/null":
                fields = stat_fields(int(entry.name))
                found[int(entry.name)] = int(fields[1]) if fields else 0
        except OSError:
            continue
    return found


@contextmanager
def without_a_turn(place: Place) -> Iterator[None]:
    """Stop the process that keeps the standard error while the block runs; its parent keeps the other stream.

    A debugger's stop: when its parent ends, the kernel would end a process that SIGSTOP has stopped (setpgid(2)).
    """
    both = keepers(place)
    children = [pid for pid, parent in both.items() if parent in both]
    assert len(children) == 1, both
    trace(SEIZE, children[0])
    trace(INTERRUPT, children[0])
    os.waitpid(children[0], WALL)
    try:
        yield
    finally:
        trace(DETACH, children[0])


def trace(request: int, pid: int) -> None:
    """Do what a debugger does."""
    assert ctypes.CDLL(None, use_errno=True).ptrace(request, pid, None, None) == 0, os.strerror(ctypes.get_errno())


def test_what_a_script_wrote_last_arrives_though_its_keeper_is_slow(place: Place) -> None:
    heard, reports = Heard(), list[Report]()
    given = order("echo one >&2; until [ -e /run/slow-go ]; do sleep 0.02; done; echo two >&2; exit 3")
    thread = threading.Thread(target=lambda: reports.append(place.start(given, heard)))
    thread.start()
    wait_until(lambda: b"one" in heard.text(Stream.STDERR), "the first line arrives")

    with without_a_turn(place):
        place.file("slow-go").touch()
        ended = place.folder / given.attempt_id / "exit"
        wait_until(lambda: "end" in ended.read_text(), "the script has ended")
        time.sleep(TURN_SECONDS)
    thread.join()

    report = reports[0]
    assert (report.state, report.exit_code, report.stderr_bytes) == (ReportState.FINISHED, 3, 8)
    assert heard.text(Stream.STDERR) == b"one\ntwo\n"
