"""Output: bounded, live, and never a reason to wait for ever."""

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from lab.process import wait_until
from service.domain.script import OutputChunk, ReportState, Stream
from tests.executors.envelope_place import Heard, Place, order, ref

pytestmark = pytest.mark.needs_root

#: Ten megabytes of numbered lines: what stands at an offset is known.
NUMBERS = b"".join(b"%09d\n" % number for number in range(1 << 20))
WRITE_BOTH = "seq -f %09.0f 0 1048575 & seq -f %09.0f 0 1048575 >&2; wait"


def kept_bytes(place: Place, attempt_id: str) -> int:
    return sum(path.stat().st_size for path in (place.folder / attempt_id).iterdir())


def test_ten_megabytes_on_both_streams_are_bounded_and_counted(place: Place) -> None:
    given = order(WRITE_BOTH, timeout=timedelta(seconds=100))
    heard = Heard()

    report = place.start(given, heard)

    assert (report.state, report.exit_code, report.truncated) == (ReportState.FINISHED, 0, True)
    assert (report.stdout_bytes, report.stderr_bytes) == (len(NUMBERS), len(NUMBERS))
    assert kept_bytes(place, given.attempt_id) <= 1 << 20
    for chunk in heard.chunks:
        assert chunk.data == NUMBERS[chunk.offset : chunk.offset + len(chunk.data)]


def test_of_much_output_the_head_and_the_end_are_kept(place: Place) -> None:
    given = order(WRITE_BOTH, timeout=timedelta(seconds=100))
    place.start(given)
    heard = Heard()

    place.settle(ref(given), heard)

    for stream in Stream:
        chunks = [chunk for chunk in heard.chunks if chunk.stream is stream]
        kept = sum(len(chunk.data) for chunk in chunks)
        assert chunks[0].offset == 0
        assert all(chunk.data == NUMBERS[chunk.offset : chunk.offset + len(chunk.data)] for chunk in chunks)
        assert chunks[-1].offset + len(chunks[-1].data) == len(NUMBERS)
        assert 300_000 < kept < 500_000


def test_output_that_never_ends_is_ended_by_the_deadline(place: Place) -> None:
    given = order("yes", timeout=timedelta(seconds=4))

    report = place.start(given)

    assert (report.state, report.ended_by_us, report.truncated) == (ReportState.FINISHED, True, True)
    assert report.stdout_bytes > 1 << 20
    assert kept_bytes(place, given.attempt_id) <= 1 << 20


def test_output_that_never_ends_is_seen_while_it_comes(place: Place) -> None:
    given = order("yes | nl")
    heard = Heard()
    thread = threading.Thread(target=lambda: place.start(given, heard))

    thread.start()
    heard.wait_for(b"\n 10000\ty\n")
    stopped = place.stop(ref(given))
    thread.join()

    assert stopped.ended_by_us


def test_a_child_that_keeps_the_streams_holds_nobody(place: Place) -> None:
    report = place.start(order("sleep 60 & echo $! >/run/keeps; exit 5"))

    os.kill(int(place.file("keeps").read_text()), signal.SIGKILL)
    assert (report.state, report.exit_code) == (ReportState.FINISHED, 5)
    assert "Stream still open: a process that the script left behind holds stdout and stderr." in report.reason


def test_a_child_that_lets_the_streams_go_lives_on(place: Place) -> None:
    heard = Heard()

    report = place.start(order("nohup sleep 60 >/dev/null 2>&1 </dev/null & echo $!"), heard)

    os.kill(int(heard.text()), signal.SIGKILL)
    assert (report.exit_code, report.reason) == (0, "")


def test_a_child_that_keeps_the_streams_may_still_write(place: Place) -> None:
    given = order("(sleep 1; echo later; exec sleep 60) & echo $!")
    place.start(given)
    heard = Heard()

    def later() -> bool:
        place.settle(ref(given, offsets=heard.offsets()), heard)
        return b"later" in heard.text()

    wait_until(later, "the later line arrives")
    child, later_line = heard.text().split()
    os.kill(int(child), signal.SIGKILL)
    assert later_line == b"later"


def test_while_more_still_comes_from_outside_of_the_group_it_is_waited_for(place: Place) -> None:
    heard = Heard()

    place.start(order("setsid bash -c 'for i in 1 2 3 4; do sleep 2; echo $i; done' & echo now"), heard)

    # Longer in all than a stream is waited for at which nothing comes, and each line in much less.
    assert heard.text() == b"now\n1\n2\n3\n4\n"


def test_a_line_is_seen_by_a_second_client_while_the_script_runs(place: Place) -> None:
    given = order("echo first; until [ -e /run/go ]; do sleep 0.05; done; echo last")
    starter, second = Heard(), Heard()
    threads = [
        threading.Thread(target=lambda: place.start(given, starter)),
        threading.Thread(target=lambda: place.settle(ref(given), second)),
    ]

    threads[0].start()
    starter.wait_for(b"first")
    threads[1].start()
    second.wait_for(b"first")
    seen = (starter.text(), second.text())
    place.file("go").touch()
    for thread in threads:
        thread.join()

    assert seen == (b"first\n", b"first\n")
    assert (starter.text(), second.text()) == (b"first\nlast\n",) * 2


def test_half_a_line_is_seen_at_once(place: Place) -> None:
    given = order("printf half; until [ -e /run/rest ]; do sleep 0.05; done; echo -line")
    heard = Heard()
    thread = threading.Thread(target=lambda: place.start(given, heard))

    thread.start()
    heard.wait_for(b"half")
    seen = heard.text()
    place.file("rest").touch()
    thread.join()

    assert (seen, heard.text()) == (b"half", b"half-line\n")


def test_a_settle_waits_no_longer_than_it_was_told(place: Place) -> None:
    given = order("echo on its way; sleep 30")
    heard = Heard()
    thread = threading.Thread(target=lambda: place.start(given, heard))
    thread.start()
    heard.wait_for(b"way")

    at_once = place.settle(ref(given, wait=0))
    in_a_second = place.settle(ref(given, wait=1))

    stopped = place.stop(ref(given))
    thread.join()
    assert [report.state for report in (at_once, in_a_second)] == [ReportState.RUNNING] * 2
    assert at_once.pid == in_a_second.pid == stopped.pid
    assert f"(pid {stopped.pid})" in at_once.reason


def test_what_was_held_is_not_sent_again(place: Place) -> None:
    given = order("echo 0123456789; echo error >&2")
    place.start(given)
    heard = Heard()

    place.settle(ref(given, offsets={Stream.STDOUT: 4, Stream.STDERR: 6}), heard)

    assert heard.chunks == [OutputChunk(given.attempt_id, Stream.STDOUT, 4, b"456789\n")]


@pytest.mark.parametrize("moment", ["started", "running", "ended"])
def test_a_transport_that_dies_is_made_good_by_a_settle(place: Place, moment: str) -> None:
    given = order(
        f"echo ran >>/run/{moment}; echo before; until [ -e /run/{moment}-go ]; do sleep 0.05; done; echo after"
    )
    transport = place.begin(given)
    trace = place.file(moment)
    if moment != "started":
        wait_until(trace.exists, "the script runs")
    if moment == "ended":
        place.file(f"{moment}-go").touch()
        wait_until((place.folder / given.attempt_id / "exit").exists, "the script ends")

    place.cut(transport)
    place.file(f"{moment}-go").touch()
    heard = Heard()
    report = place.settle(ref(given), heard)

    if report.state is ReportState.NOT_STARTED:
        assert (moment, trace.exists()) == ("started", False)
    else:
        assert (report.state, report.exit_code, heard.text()) == (ReportState.FINISHED, 0, b"before\nafter\n")
        assert trace.read_text() == "ran\n"


def test_a_client_that_does_not_read_does_not_hold_the_script(place: Place) -> None:
    given = order("for ((i = 0; i < 9; i++)); do seq 20000; sleep 0.02; done; touch /run/unread")
    transport = place.begin(given)

    wait_until(place.file("unread").exists, "the script goes on to its end", seconds=60)

    report = place.settle(ref(given))
    place.cut(transport)
    assert (report.state, report.exit_code) == (ReportState.FINISHED, 0)


def test_a_script_outlives_the_service(place: Place, tmp_path: Path) -> None:
    given = order("echo before; until [ -e /run/outlive ]; do sleep 0.05; done; echo after; exit 6")
    code = f"""
import sys
from datetime import *
from service.domain.node import *
from service.domain.script import *
from service.executors.local import LocalExecutor
LocalExecutor(prefix={place.prefix!r}).start({given!r}, lambda chunk: print(chunk.data, flush=True))
"""
    code = code.replace("datetime.datetime(", "datetime(").replace("datetime.timedelta(", "timedelta(")
    for name in ("ExecutorKind", "View", "Become", "Login", "Confine", "ScriptKind"):
        code = _enum_by_name(code, name)
    service = subprocess.Popen(
        [sys.executable, "-c", code.replace("datetime.timezone.utc", "UTC")], stdout=subprocess.PIPE
    )
    assert service.stdout is not None
    assert service.stdout.readline() == b"b'before\\n'\n"

    service.kill()
    service.wait()
    service.stdout.close()
    place.file("outlive").touch()
    heard = Heard()
    report = place.settle(ref(given), heard)

    assert (report.state, report.exit_code, heard.text()) == (ReportState.FINISHED, 6, b"before\nafter\n")


def _enum_by_name(code: str, name: str) -> str:
    head, *rest = code.split(f"<{name}.")
    return head + "".join(f"{name}.{part.split(':', 1)[0]}{part.split('>', 1)[1]}" for part in rest)


def test_many_lines_one_by_one_all_arrive(place: Place) -> None:
    heard = Heard()

    report = place.start(order("for ((i = 0; i < 3000; i++)); do echo $i; done"), heard)

    expected = "".join(f"{number}\n" for number in range(3000)).encode()
    assert (report.truncated, heard.text()) == (False, expected)


def test_a_megabyte_of_zero_bytes_is_no_trouble(place: Place) -> None:
    report = place.start(order("head -c 1048576 /dev/zero; exit 3"))

    assert (report.exit_code, report.stdout_bytes) == (3, 1 << 20)


def test_a_hundred_kilobytes_arrive_whole(place: Place) -> None:
    heard = Heard()

    report = place.start(order("seq -f %09.0f 0 14999; seq -f %09.0f 0 14999 >&2"), heard)

    assert (report.truncated, report.stdout_bytes, report.stderr_bytes) == (False, 150_000, 150_000)
    assert (heard.text(), heard.text(Stream.STDERR)) == (NUMBERS[:150_000],) * 2
