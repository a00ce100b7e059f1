"""Orders that come late, twice, or to another boot, each given to the shell of a booted node: nothing runs twice."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from lab.nodes import Node
from lab.process import wait_until
from service.domain.script import NotStarted, Report, ReportState
from service.executors import envelope
from tests.crash.booted import BootedMachine
from tests.proof.counts import count
from tests.proof.courier import Courier, acting_order, ref

pytest_plugins = ["lab.fixtures"]
pytestmark = [pytest.mark.proof, pytest.mark.needs_root]

#: The script writes its attempt into a file on the node's disk, which outlives a boot.
COUNT = 'echo "$UNSTICK_ATTEMPT" >>/machine/executions'
OTHER_BOOT = (ReportState.NOT_STARTED, NotStarted.OTHER_BOOT)
VOID = (ReportState.NOT_STARTED, NotStarted.VOID)
TOO_LATE = (ReportState.NOT_STARTED, NotStarted.TOO_LATE)
REBOOTED = (ReportState.REBOOTED, None)
RAN = (ReportState.FINISHED, None)
Outcome = tuple[ReportState, NotStarted | None]


def outcome(report: Report) -> Outcome:
    return report.state, report.not_started


@pytest.fixture
def machine(fresh_node: Callable[[str], Node]) -> BootedMachine:
    """Give a booted node of the test's own."""
    return BootedMachine(fresh_node("gpu-01"))


@pytest.fixture
def courier(machine: BootedMachine) -> Iterator[Courier]:
    """Give one connection to the node."""
    with Courier(machine.node, machine.endpoint()) as made:
        yield made


def test_a_boot_between_send_and_delivery_lets_nothing_run_a_second_time(
    machine: BootedMachine, record_property: Callable[[str, object], None]
) -> None:
    boots = count("reboots", 200)
    record_property("proof", "real reboots of a node between send and delivery: no second execution")
    record_property("count", boots)
    expected: Counter[str] = Counter()
    wrong: list[str] = []

    for number in range(boots):
        given = acting_order(machine.endpoint(), COUNT, boot_id=machine.node.boot_id)
        data = envelope.for_start(given)
        # By turns: what is delivered after the boot is the only copy, the second copy, or one that is sent again.
        kind = number % 3
        if kind:
            with Courier(machine.node, machine.endpoint()) as before:
                assert outcome(before.deliver(data, given.attempt_id)) == RAN
            expected[given.attempt_id] += 1
        if kind == 2:
            data = envelope.for_start(replace(given, resend=True))
        if number % 2:
            machine.node.reboot()
        else:
            machine.node.crash()
        with Courier(machine.node, machine.endpoint()) as after:
            report = after.deliver(data, given.attempt_id)
        if outcome(report) != (REBOOTED if kind == 2 else OTHER_BOOT):
            wrong.append(f"{number}: {report}")

    assert wrong == []
    assert Counter(machine.executions()) == expected


def late(machine: BootedMachine, courier: Courier) -> Outcome:
    """Deliver after the order's time is over."""
    given = acting_order(machine.endpoint(), COUNT, boot_id=machine.node.boot_id, lives=timedelta(seconds=1))
    data = envelope.for_start(given)
    # The node counts whole seconds.
    time.sleep(max(0.0, given.not_after.timestamp() + 1 - time.time()))
    return outcome(courier.deliver(data, given.attempt_id))


def after_a_settle(machine: BootedMachine, courier: Courier) -> Outcome:
    """Deliver after a settle has closed the door."""
    given = acting_order(machine.endpoint(), COUNT, boot_id=machine.node.boot_id)
    data = envelope.for_start(given)
    assert outcome(courier.deliver(envelope.for_settle(ref(given)), given.attempt_id)) == VOID
    return outcome(courier.deliver(data, given.attempt_id))


def while_it_runs(machine: BootedMachine, courier: Courier) -> Outcome:
    """Deliver a second copy while the script of the first runs; it attaches, and hears the same end."""
    go = f"go-{len(machine.executions())}"
    text = f"{COUNT}; until [ -e /machine/{go} ]; do sleep 0.02; done"
    given = acting_order(machine.endpoint(), text, boot_id=machine.node.boot_id)
    data = envelope.for_start(given)
    folder = machine.node.root / "run/unstick" / given.attempt_id
    first = courier.send(data)
    wait_until(lambda: given.attempt_id in machine.executions(), "the script runs")
    second = courier.send(data)
    wait_until(lambda: any(folder.glob("bell.*")), "the second copy is attached")
    (machine.disk / go).touch()
    reports = [courier.answer(sent, given.attempt_id) for sent in (first, second)]
    assert outcome(reports[0]) == RAN
    return outcome(reports[1])


def after_the_end(machine: BootedMachine, courier: Courier) -> Outcome:
    """Deliver a second copy after the script of the first has ended."""
    given = acting_order(machine.endpoint(), COUNT, boot_id=machine.node.boot_id)
    data = envelope.for_start(given)
    assert outcome(courier.deliver(data, given.attempt_id)) == RAN
    return outcome(courier.deliver(data, given.attempt_id))


#: How an order is delivered, what the node answers to the late or second copy, and how often each script runs.
WAYS: tuple[tuple[Callable[[BootedMachine, Courier], Outcome], Outcome, int], ...] = (
    (late, TOO_LATE, 0),
    (after_a_settle, VOID, 0),
    (while_it_runs, RAN, 1),
    (after_the_end, RAN, 1),
)


def test_a_late_or_second_delivery_lets_nothing_run_a_second_time(
    machine: BootedMachine, courier: Courier, record_property: Callable[[str, object], None]
) -> None:
    deliveries = count("deliveries", 1000)
    record_property("proof", "late or doubled deliveries to the shell of a node: no second execution")
    record_property("count", deliveries)
    wrong: list[str] = []
    runs = 0

    for number in range(deliveries):
        way, expected, executions = WAYS[number % len(WAYS)]
        answered = way(machine, courier)
        runs += executions
        if answered != expected:
            wrong.append(f"{number} {way.__name__}: {answered}")

    assert wrong == []
    ran = Counter(machine.executions())
    assert (len(ran), set(ran.values())) == (runs, {1})
