"""The scripted executor plays a table."""

import pytest

from service.domain.errors import BrokenRule
from service.domain.script import NotStarted, OutputChunk, Report, ReportState, ScriptKind, Stream
from service.executors.scripted import FIRST_BOOT, Answer, ScriptedExecutor, exits
from tests.executors.envelope_place import Heard, order, ref

CHECK = ("gpu-01", "look", ScriptKind.CHECK)
RUNNING = Report(ReportState.RUNNING)
LOST = Report(ReportState.LOST)


def test_answers_come_in_order_and_the_last_one_stays() -> None:
    executor = ScriptedExecutor({CHECK: [exits(77), exits(0, targets=["t"], stdout="found\n")]})
    heard = Heard()

    reports = [executor.start(order("x"), heard) for _ in range(3)]

    assert [(report.exit_code, report.targets, report.boot_id) for report in reports] == [
        (77, (), FIRST_BOOT),
        (0, ("t",), FIRST_BOOT),
        (0, ("t",), FIRST_BOOT),
    ]
    assert [chunk.data for chunk in heard.chunks] == [b"found\n"] * 2
    assert [given.text for given in executor.orders] == ["x"] * 3


def test_a_second_start_of_an_attempt_attaches() -> None:
    executor = ScriptedExecutor({CHECK: [exits(1), exits(2)]})
    given = order("x")

    reports = [executor.start(given, Heard()), executor.start(given, Heard())]

    assert [report.exit_code for report in reports] == [1, 1]


def test_settles_tell_how_it_went_on() -> None:
    done = exits(0).report
    executor = ScriptedExecutor({CHECK: [Answer(LOST, stderr=b"e", settles=(RUNNING, done))]})
    given = order("x")
    heard = Heard()

    states = [executor.start(given, heard).state, *(executor.settle(ref(given), Heard()).state for _ in range(3))]

    assert states == [ReportState.LOST, ReportState.RUNNING, ReportState.FINISHED, ReportState.FINISHED]
    assert heard.chunks == [OutputChunk(given.attempt_id, Stream.STDERR, 0, b"e")]
    assert [asked.attempt_id for asked in executor.settled] == [given.attempt_id] * 3


def test_an_attempt_that_never_came_is_void_for_good() -> None:
    executor = ScriptedExecutor({CHECK: [exits(0)]})
    given = order("x")

    reports = [executor.settle(ref(given), Heard()), executor.start(given, Heard()), executor.stop(ref(given), Heard())]

    assert {report.not_started for report in reports} == {NotStarted.VOID}


def test_a_stop_has_an_answer_of_its_own() -> None:
    stopped = Report(ReportState.FINISHED, signal=15, ended_by_us=True, boot_id="b")
    executor = ScriptedExecutor({CHECK: [Answer(RUNNING, stop=stopped)]})
    given = order("x")
    executor.start(given, Heard())

    report = executor.stop(ref(given), Heard())
    executor.close()

    assert (report, executor.stopped, executor.settled, executor.closed) == (stopped, [ref(given)], [], True)


def test_an_order_that_the_table_does_not_know_is_a_defect() -> None:
    with pytest.raises(BrokenRule, match=r"no answer for look\.check on gpu-01"):
        ScriptedExecutor({}).start(order("x"), Heard())
