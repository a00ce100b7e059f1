from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from service.app.check_nodes import NodeCheck, Part, check_nodes
from service.app.ports import Executor
from service.domain.node import Endpoint, ExecutorKind
from service.domain.script import (
    AttemptRef,
    Facts,
    NotStarted,
    OutputChunk,
    Report,
    ReportState,
    ScriptOrder,
    Stream,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
PARTS = tuple(Part)


@dataclass
class Clock:
    ids: int = 0

    def now(self) -> datetime:
        return NOW

    def new_id(self) -> str:
        self.ids += 1
        return f"id-{self.ids}"


@dataclass
class Answers:
    """One executor for all, which answers by the name of the node."""

    reports: dict[str, Report]
    output: bytes = b""
    orders: list[ScriptOrder] = field(default_factory=list)

    def of(self, endpoint: Endpoint) -> Executor:
        return self

    def start(self, order: ScriptOrder, on_output: Callable[[OutputChunk], None]) -> Report:
        self.orders.append(order)
        if self.output:
            on_output(OutputChunk(order.attempt_id, Stream.STDOUT, 0, self.output))
        return self.reports[order.endpoint.name]

    def settle(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        raise NotImplementedError

    def stop(self, attempt: AttemptRef, on_output: Callable[[OutputChunk], None]) -> Report:
        raise NotImplementedError

    def close(self) -> None:
        pass


def endpoint(name: str = "gpu-01") -> Endpoint:
    return Endpoint(name, ExecutorKind.SSH, name)


def facts(*, uid: int = 0, clock: datetime = NOW) -> Facts:
    return Facts("boot-1", uid, clock, 4026531836, True, "systemd")


def finished(**words: object) -> Report:
    return Report(ReportState.FINISHED, exit_code=0, boot_id="boot-1", facts=facts(**words))  # type: ignore[arg-type]


def check(report: Report, *, output: bytes = b"") -> NodeCheck:
    executors = Answers({"gpu-01": report}, output)
    [row] = check_nodes([endpoint()], executors, clock=Clock(), service_id="unstick-1")
    return row


def test_a_node_that_is_ready_has_passed_every_part() -> None:
    row = check(finished())

    assert row == NodeCheck("gpu-01", PARTS, None, "uid 0, PID 1 is systemd, view machine", "boot-1", timedelta(0))
    assert row.ready


@pytest.mark.parametrize(
    ("cause", "part"),
    [
        (NotStarted.UNREACHABLE, Part.REACHED),
        (NotStarted.REFUSED, Part.REACHED),
        (NotStarted.HOST_KEY, Part.HOST_KEY),
        (NotStarted.LOGIN, Part.LOGIN),
        (NotStarted.SUDO, Part.ROOT),
        (NotStarted.NO_BASH, Part.BASH),
        (NotStarted.WRONG_VIEW, Part.NAMESPACES),
        (NotStarted.NO_SPACE, Part.FOLDER),
        (NotStarted.FOLDER, Part.FOLDER),
        (NotStarted.CLOCK, Part.CLOCK),
        (NotStarted.TOO_LATE, Part.CLOCK),
        (NotStarted.UNCONFINED, Part.CONFINED),
    ],
)
def test_what_kept_the_script_from_starting_names_the_part_that_failed(cause: NotStarted, part: Part) -> None:
    row = check(Report(ReportState.NOT_STARTED, not_started=cause, reason="This, mend it so."))

    assert row == NodeCheck("gpu-01", PARTS[: PARTS.index(part)], part, "This, mend it so.")


def test_a_node_that_cannot_confine_what_only_reads_is_ready_and_says_so() -> None:
    row = check(replace(finished(), reason="Unconfined: its system calls are not filtered."))

    assert (row.ready, row.unconfined) == (True, "its system calls are not filtered")
    assert row.passed == tuple(part for part in Part if part is not Part.CONFINED)
    assert row.why == ("uid 0, PID 1 is systemd, view machine. Unconfined: its system calls are not filtered.")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (
            "gpu-01 was not reached: refused. Look with `unstick nodes check gpu-01`.",
            "gpu-01 was not reached: refused. See whether it is on, and is what the inventory says.",
        ),
        (
            "It does not end. Look at amazon-ssm-agent there, and with `unstick nodes check gpu.example`.",
            "It does not end. Look at amazon-ssm-agent there.",
        ),
    ],
)
def test_a_check_does_not_send_its_reader_to_itself(told: str, shown: str) -> None:
    row = check(Report(ReportState.NOT_STARTED, not_started=NotStarted.UNREACHABLE, reason=told))

    assert row.why == shown


def test_a_node_that_gave_no_answer_is_not_reached() -> None:
    row = check(Report(ReportState.LOST, reason="No answer came."))

    assert (row.failed, row.why, row.ready) == (Part.REACHED, "No answer came.", False)


def test_a_script_that_does_not_run_as_root_is_told() -> None:
    row = check(finished(uid=900))

    assert row.failed is Part.ROOT
    assert "run as uid 900 and not as root" in row.why


@pytest.mark.parametrize(
    ("seconds", "failed", "words"),
    [(0, None, "uid 0"), (9, None, "uid 0"), (-9, None, "uid 0"), (75, Part.CLOCK, "75 s ahead of ours"),
     (-3600, Part.CLOCK, "3600 s behind ours")],
)  # fmt: skip
def test_a_clock_that_is_off_is_told(seconds: int, failed: Part | None, words: str) -> None:
    row = check(finished(clock=NOW + timedelta(seconds=seconds)))

    assert (row.failed, row.skew) == (failed, timedelta(seconds=seconds))
    assert words in row.why


def test_programs_that_are_missing_are_named() -> None:
    row = check(finished(), output=b"awk\nstat\n")

    assert (row.failed, row.why) == (Part.PROGRAMS, "gpu-01 lacks awk, stat. Install them there.")


def test_rows_come_in_the_order_of_the_nodes_and_the_script_changes_nothing() -> None:
    names = [f"gpu-{number}" for number in range(40)]
    executors = Answers({name: finished() for name in names})

    rows = list(check_nodes(map(endpoint, names), executors, clock=Clock(), service_id="unstick-1"))

    assert [row.node for row in rows] == names
    assert {(order.acting, order.dry_run, order.kind.value) for order in executors.orders} == {(False, True, "check")}
