"""What goes to SendCommand: nothing that Run Command would replace, nothing beyond its limits."""

import random
import subprocess
from datetime import UTC, datetime, timedelta

import botocore.session
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.errors import BrokenRule
from service.domain.node import Confine
from service.executors import envelope
from service.executors.envelope import OneAnswer
from service.executors.ssm import wire
from service.executors.ssm.command import Accepted, Command, Flight
from service.executors.ssm.gather import look_command, start_command
from tests.executors.ssm.support import acting, endpoint, instance_id, order

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
WITHIN = OneAnswer(45, wire.ANSWER_LIMIT)


def unpacked(line: str) -> bytes:
    """Return what the shell of a node gets out of a line."""
    pipe = line[line.index("printf %s '") : line.index(" | (exec sh")].replace("; }", "")
    return subprocess.run(["sh", "-c", pipe], capture_output=True, check=True).stdout


@settings(max_examples=20)
@given(st.text(alphabet="{}:ssm'\"\\$`\n é", max_size=60))
def test_no_double_brace_of_a_script_is_on_the_wire_and_the_bytes_are_those_of_every_transport(text: str) -> None:
    given_order = order(f"echo {{{{ssm:secret}}}} {text}", sent_at=NOW)

    line = start_command(given_order, WITHIN, now=NOW).line

    assert ("{{" in line, "\n" in line) == (False, False)
    assert unpacked(line) == envelope.for_start(given_order, WITHIN)


def test_a_line_that_would_be_replaced_is_never_sent() -> None:
    with pytest.raises(BrokenRule, match="Double braces"):
        wire.for_one(b"", attempt_id="{{ssm:x}}", endpoint=endpoint())


def test_the_words_of_a_script_that_acts() -> None:
    command = start_command(acting("reboot", attempt_id="a" * 100), WITHIN, now=NOW)

    parameters = command.parameters()

    assert parameters == {
        "InstanceIds": [instance_id(1)],
        "DocumentName": "AWS-RunShellScript",
        "Parameters": {"commands": [command.line], "executionTimeout": ["85"]},
        "TimeoutSeconds": 30,
        "Comment": "a" * 100,
    }


def test_the_words_of_a_look_at_many_nodes() -> None:
    orders = [order("true", number, attempt_id=f"look-{number}-" + "x" * 91) for number in range(1, 51)]

    parameters = look_command(orders, WITHIN, now=NOW).parameters()

    assert {name: value for name, value in parameters.items() if name not in ("InstanceIds", "Parameters")} == {
        "DocumentName": "AWS-RunShellScript",
        "TimeoutSeconds": 60,
        "Comment": ("look-1-" + "x" * 91)[:96] + " +49",
        "MaxConcurrency": "100%",
        "MaxErrors": "100%",
    }
    assert parameters["InstanceIds"] == [instance_id(number) for number in range(1, 51)]


def test_a_pinned_document_is_sent_with_its_hash() -> None:
    pinned = endpoint(document="unstick-run", document_hash="ab" * 32)

    parameters = start_command(order("true", endpoint=pinned), WITHIN, now=NOW).parameters()

    assert [parameters[name] for name in ("DocumentName", "DocumentHash", "DocumentHashType")] == [
        "unstick-run",
        "ab" * 32,
        "Sha256",
    ]


@pytest.mark.parametrize("number", [1, 50])
def test_what_is_sent_is_within_the_published_limits(number: int) -> None:
    shape = botocore.session.get_session().get_service_model("ssm").operation_model("SendCommand").input_shape
    orders = [order("true", one, timeout=timedelta(seconds=10)) for one in range(1, number + 1)]

    parameters = look_command(orders, WITHIN, now=NOW).parameters()

    limits = {name: member.metadata for name, member in shape.members.items()}
    timeout, comment = parameters["TimeoutSeconds"], parameters["Comment"]
    assert isinstance(timeout, int)
    assert limits["TimeoutSeconds"]["min"] <= timeout <= limits["TimeoutSeconds"]["max"]
    assert isinstance(comment, str)
    assert len(comment) <= limits["Comment"]["max"]
    assert len(list(parameters["InstanceIds"])) <= limits["InstanceIds"]["max"]  # type: ignore[call-overload]


def test_what_fifty_nodes_have_in_common_is_on_the_wire_once() -> None:
    script = "\n".join(f"echo line {number} of a script" for number in range(400))
    orders = [order(f"export NODE_NAME=gpu-{number:02}\n{script}", number) for number in range(1, 51)]

    one = look_command(orders[:1], WITHIN, now=NOW)
    all_of_them = look_command(orders, WITHIN, now=NOW)

    assert len(all_of_them.line) < 3 * len(one.line)
    assert len(all_of_them.line) < wire.MOST_CHARACTERS


def test_the_longest_script_that_lint_lets_pass_fits() -> None:
    letters = random.Random(7)
    text = "".join(letters.choice("abcdefghijklmnopqrstuvwxyz0123456789 -/$\n") for _ in range(32 * 1024))

    confined = order(text, endpoint=endpoint(confine=Confine.REQUIRED))

    assert len(start_command(confined, WITHIN, now=NOW).line) < wire.MOST_CHARACTERS


def test_an_order_is_dated_when_it_is_sent_and_not_when_it_began_to_wait() -> None:
    old = order("true", sent_at=NOW - timedelta(minutes=4))

    line = start_command(old, WITHIN, now=NOW).line

    assert b"setting sent_at '%d'" % NOW.timestamp() in unpacked(line)


FLIGHT = Flight(
    Command((endpoint(),), "", "a1", delivery=30, execution=85),
    Accepted("c1", NOW),
    endpoint(),
    sent_at=1000.0,
    enough=lambda _: False,
)


@pytest.mark.parametrize(
    ("begun", "seen_waiting", "now", "proven"),
    [
        # It waited after the time within which it had to start.
        (False, 1036.0, 1116.0, True),
        # It may have started at second 30 and used up its 85, and nobody looked meanwhile.
        (False, 1034.0, 1116.0, False),
        (False, None, 1116.0, False),
        # What had started could not be over by now.
        (False, 1002.0, 1090.0, True),
        (False, None, 1090.0, True),
        # It was seen to have begun, or SSM was trying.
        (True, 1036.0, 1116.0, False),
        (True, None, 1040.0, False),
    ],
)
def test_what_proves_that_a_command_was_never_begun(
    begun: bool, seen_waiting: float | None, now: float, proven: bool
) -> None:
    flight = Flight(FLIGHT.command, FLIGHT.accepted, FLIGHT.endpoint, FLIGHT.sent_at, FLIGHT.enough)
    flight.begun, flight.seen_waiting = begun, seen_waiting

    assert flight.never_begun(now, margin=5.0) is proven


@pytest.mark.parametrize(("now", "proven"), [(1099.0, True), (1101.0, False)])
def test_a_command_whose_acceptance_was_told_late_may_have_begun_as_soon_as_it_was_asked_for(
    now: float, proven: bool
) -> None:
    """SSM may have had it since second 990: what it started then has used up its time at 1105."""
    accepted = Accepted("c1", NOW, asked_at=990.0)
    flight = Flight(
        FLIGHT.command, accepted, FLIGHT.endpoint, sent_at=1010.0, enough=FLIGHT.enough, seen_waiting=1044.0
    )

    assert flight.never_begun(now, margin=5.0) is proven
