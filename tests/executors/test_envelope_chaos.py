"""Whoever is killed, and whenever: a script runs at most once, and one that ran is never told as void."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from lab.process import wait_until
from service.domain.script import NotStarted, Report, ReportState
from tests.executors.envelope_place import Heard, Place, acting, ref

pytestmark = pytest.mark.needs_root

#: Longer than a start takes on a busy machine, so that every moment of it is met.
SECONDS = 0.4


def kill_envelope(place: Place, chance: random.Random) -> None:
    """Kill some or all processes of the envelope, but not the script."""
    inside = Path(f"/proc/{place.mounts.holder.pid}/ns/mnt").stat()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            ours = (entry / "ns/mnt").stat() == inside
        except OSError:
            continue
        if ours and b"-p" in words and any(b"$envelope" in word for word in words) and chance.random() < 0.7:
            os.kill(int(entry.name), signal.SIGKILL)


def play(place: Place, number: int, *, seed: int, all_of_it: bool) -> Report:
    chance = random.Random(seed)
    given = acting(f"echo ran >>/run/chaos-{number}; sleep 0.2")
    trace = place.file(f"chaos-{number}")
    transport = place.begin(given)
    time.sleep(chance.random() * SECONDS)

    place.cut(transport)
    if all_of_it:
        kill_envelope(place, chance)
    report = place.settle(ref(given))
    late = place.start(given)
    again = place.settle(ref(given))

    if report.not_started is NotStarted.VOID:
        assert (late.not_started, again.not_started, trace.exists()) == (NotStarted.VOID, NotStarted.VOID, False)
    else:
        assert report.state in {ReportState.FINISHED, ReportState.LOST}, report
        assert again.state is report.state
        assert not trace.exists() or trace.read_text() == "ran\n"
    return report


@pytest.mark.parametrize("seed", range(6))
def test_a_transport_may_die_at_any_moment(place: Place, seed: int) -> None:
    report = play(place, seed, seed=seed, all_of_it=False)

    assert report.state is not ReportState.LOST


@pytest.mark.parametrize("seed", range(6))
def test_the_envelope_itself_may_die_at_any_moment(place: Place, seed: int) -> None:
    play(place, 100 + seed, seed=seed, all_of_it=True)


@pytest.mark.proof
def test_two_hundred_deaths_leave_nothing_undecided(place: Place) -> None:
    outcomes = [play(place, 1000 + seed, seed=seed, all_of_it=bool(seed % 2)).state for seed in range(200)]

    assert set(outcomes) >= {ReportState.NOT_STARTED, ReportState.FINISHED}


def test_an_order_may_come_twice_at_any_distance(place: Place) -> None:
    for number in range(6):
        given = acting(f"echo ran >>/run/twice-{number}; sleep 0.1")
        reports: list[Report] = []
        first = threading.Thread(target=lambda to=reports, of=given: to.append(place.start(of)))
        first.start()
        time.sleep(number * 0.02)

        second = place.start(given, Heard())

        first.join()
        assert [(report.state, report.exit_code) for report in (*reports, second)] == [(ReportState.FINISHED, 0)] * 2
        assert place.file(f"twice-{number}").read_text() == "ran\n"


def test_a_bell_is_left_by_nobody(place: Place) -> None:
    given = acting("true")
    place.start(given)
    place.settle(ref(given))

    folder = place.folder / given.attempt_id
    wait_until(lambda: not list(folder.glob("bell.*")), "the bells are taken down")
