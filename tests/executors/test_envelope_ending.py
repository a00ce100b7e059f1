"""Deadlines, stops, and what cannot be killed."""

import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from lab.process import wait_until
from lab.stuck import FuseMount, MountOptions
from service.domain.script import NotStarted, Report, ReportState
from tests.executors.envelope_place import Heard, Place, acting, order, ref

pytestmark = pytest.mark.needs_root

SECOND = timedelta(seconds=1)
#: Where the script has to come to something first, which on a busy machine takes more than a second.
SOON = timedelta(seconds=3)


def processes_of(place: Place, words: str) -> list[int]:
    return [int(line) for line in place.mounts.run(["pgrep", "-f", words]).stdout.split()]


def test_a_script_is_ended_at_its_deadline_with_all_of_its_group(place: Place) -> None:
    report = place.start(order("sleep 7771 & sleep 7771", timeout=SECOND))

    assert (report.state, report.signal, report.exit_code, report.ended_by_us) == (ReportState.FINISHED, 15, None, True)
    assert "at its deadline" in report.reason
    assert processes_of(place, "^sleep 7771") == []


def test_a_script_may_clean_up_at_its_deadline(place: Place) -> None:
    heard = Heard()

    report = place.start(order("trap 'echo cleaned; exit 3' TERM; sleep 60 & wait", timeout=SOON), heard)

    assert (report.exit_code, report.signal, report.ended_by_us, heard.text()) == (3, None, True, b"cleaned\n")


def test_a_script_that_ignores_term_is_killed(place: Place) -> None:
    report = place.start(order("trap '' TERM; while :; do sleep 1; done", timeout=SOON))

    assert (report.state, report.signal, report.ended_by_us) == (ReportState.FINISHED, 9, True)


def test_a_child_that_ignores_term_is_killed_too(place: Place) -> None:
    report = place.start(order("(trap '' TERM; while :; do sleep 0.7773; done) & sleep 60", timeout=SOON))

    assert (report.state, report.signal, report.ended_by_us) == (ReportState.FINISHED, 15, True)
    assert processes_of(place, "^sleep 0.7773") == []


def test_a_stopped_process_is_ended_at_its_deadline(place: Place) -> None:
    report = place.start(order("kill -STOP $$", timeout=SECOND))

    assert (report.state, report.signal, report.ended_by_us) == (ReportState.FINISHED, 15, True)


def test_a_stop_ends_a_running_script_and_its_starter_is_told(place: Place) -> None:
    given = order("echo here; sleep 60")
    heard = Heard()
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(place.start(given, heard)))
    thread.start()
    heard.wait_for(b"here")

    stopped = place.stop(ref(given))

    thread.join()
    for report in (stopped, *reports):
        assert (report.state, report.signal, report.ended_by_us) == (ReportState.FINISHED, 15, True)
        assert "was stopped" in report.reason


def test_a_stop_after_the_end_changes_nothing(place: Place) -> None:
    given = order("exit 3")
    place.start(given)

    report = place.stop(ref(given))

    assert (report.state, report.exit_code, report.signal, report.ended_by_us) == (ReportState.FINISHED, 3, None, False)


def test_a_stop_never_ends_a_process_that_was_given_the_pid_again(place: Place) -> None:
    given = order("true")
    place.start(given)
    bystander = place.mounts.start("bystander", ["sleep", "60"])
    record = place.folder / given.attempt_id / "pid"
    record.write_text(f"{bystander} 1 1.0 {place.folder} reading\n")
    (place.folder / given.attempt_id / "exit").write_text(" " * 95 + "\n")

    report = place.stop(ref(given))

    assert report.state is ReportState.LOST
    os.kill(bystander, 0)
    place.mounts.kill(bystander)


def test_the_watchdog_outlives_the_transport(place: Place) -> None:
    given = order("echo >/run/watched; sleep 60", timeout=SOON)
    transport = place.begin(given)
    wait_until(place.file("watched").exists, "the script runs")
    place.cut(transport)

    report = place.settle(ref(given))

    assert (report.state, report.signal, report.ended_by_us) == (ReportState.FINISHED, 15, True)


def test_a_script_that_was_killed_from_outside_has_its_signal(place: Place) -> None:
    given = order("kill -KILL -- -$$")

    report = place.start(given)

    assert (report.state, report.signal, report.ended_by_us) == (ReportState.FINISHED, 9, False)


def test_an_end_that_nobody_saw_is_never_guessed(place: Place) -> None:
    given = order("echo $PPID; sleep 60")
    heard = Heard()
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(place.start(given, heard)))
    thread.start()
    heard.wait_for(b"\n")
    script = place.settle(ref(given, wait=0)).pid
    assert script is not None

    os.kill(int(heard.text()), signal.SIGKILL)
    os.killpg(script, signal.SIGKILL)
    report = place.settle(ref(given))

    thread.join()
    assert (report.state, report.exit_code, report.signal) == (ReportState.LOST, None, None)
    assert "cannot be known" in report.reason


@pytest.fixture
def stuck(place: Place) -> Iterator[FuseMount]:
    with FuseMount(place.mounts, MountOptions(direct=True)) as mount:
        yield mount


class TestStateD:
    """A reader of a FUSE connection that nobody answers survives SIGKILL."""

    @pytest.fixture
    def read(self, stuck: FuseMount) -> str:
        return f"exec dd if={stuck.mountpoint}/stuck of=/dev/null bs=4096 count=1"

    def test_an_unkillable_script_is_named_and_nobody_waits_for_it(
        self, place: Place, stuck: FuseMount, read: str
    ) -> None:
        given = acting(read, timeout=SOON)

        report = place.start(given)
        held = place.start(acting("true"))
        asked = place.settle(ref(given))
        stopped = place.stop(ref(given))
        stuck.abort()
        wait_until(lambda: place.settle(ref(given)).state is ReportState.FINISHED, "the freed script ends")
        freed = place.settle(ref(given))
        after = place.start(acting("true"))

        assert (report.state, report.wchan) == (ReportState.UNKILLABLE, "request_wait_answer")
        assert f"Process {report.pid}" in report.reason
        assert (held.not_started, held.pid, held.wchan) == (NotStarted.HELD, report.pid, report.wchan)
        assert [(other.state, other.pid) for other in (asked, stopped)] == [(ReportState.UNKILLABLE, report.pid)] * 2
        assert (freed.signal in {9, 15}, freed.ended_by_us, after.exit_code) == (True, True, 0)

    def test_a_stop_of_an_unkillable_script_says_so(self, place: Place, stuck: FuseMount, read: str) -> None:
        given = order(f"echo here; {read}")
        heard = Heard()
        thread = threading.Thread(target=lambda: place.start(given, heard))
        thread.start()
        heard.wait_for(b"here")
        # Before it is taken from the kernel, a signal ends the wait for it.
        wait_until(stuck.taken, "the server has the request and answers nothing")

        stopped = place.stop(ref(given))

        stuck.abort()
        thread.join()
        assert (stopped.state, stopped.wchan) == (ReportState.UNKILLABLE, "request_wait_answer")

    def test_a_child_that_is_stuck_does_not_hold_the_end_of_its_script(
        self, place: Place, stuck: FuseMount, read: str
    ) -> None:
        report = place.start(order(f"({read}) & sleep 0.3; exit 5"))

        stuck.abort()
        assert (report.state, report.exit_code) == (ReportState.FINISHED, 5)

    def test_a_stuck_child_makes_the_deadline_unkillable(self, place: Place, stuck: FuseMount, read: str) -> None:
        given = order(f"({read}) & sleep 60", timeout=SOON)

        report = place.start(given)

        stuck.abort()
        wait_until(lambda: place.settle(ref(given)).state is ReportState.FINISHED, "the freed child ends")
        assert (report.state, report.wchan) == (ReportState.UNKILLABLE, "request_wait_answer")
