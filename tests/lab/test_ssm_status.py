"""A command's status follows from its invocations; counting is AWS's."""

import pytest

from lab.ssm.commands import Command, Invocation, Plugin, share, status_of
from lab.ssm.documents import RUN_SHELL_SCRIPT, Version

VERSION = Version(1, "{}", "JSON", 0.0, "1.2", "", RUN_SHELL_SCRIPT["parameters"], ())


def _command(*statuses: str, cancelled: bool = False, request: dict[str, str] | None = None) -> Command:
    invocations = []
    for number, each in enumerate(statuses):
        invocation = Invocation(f"i-{number:017x}", [Plugin("aws:runShellScript")])
        invocation.become(*each.split("/"))
        invocations.append(invocation)
    return Command("c", "d", VERSION, "1", 0.0, 30, [], 60, invocations, request or {}, cancelled=cancelled)


@pytest.mark.parametrize(
    ("statuses", "request_", "expected"),
    [
        ([], {}, "Success/NoInstancesInTag"),
        (["Pending", "Pending"], {}, "Pending/Pending"),
        (["Pending", "Delayed"], {}, "Pending/Delayed"),
        (["Pending", "InProgress"], {}, "InProgress/InProgress"),
        (["Pending", "Success"], {}, "InProgress/InProgress"),
        (["Cancelling", "Success"], {}, "Cancelling/Cancelling"),
        (["Success", "Success"], {}, "Success/Success"),
        (["Success", "Failed"], {}, "Failed/Failed"),
        (["Success", "Failed"], {"MaxErrors": "1"}, "Failed/Incomplete"),
        (["Success", "TimedOut/ExecutionTimedOut"], {}, "Failed/Failed"),
        (["Success", "TimedOut/DeliveryTimedOut"], {}, "TimedOut/DeliveryTimedOut"),
        (["Success", "TimedOut/DeliveryTimedOut"], {"MaxErrors": "100%"}, "Failed/Incomplete"),
        (["Failed/Undeliverable"] * 4 + ["Success"], {}, "Success/Success"),
        (["Failed/InvalidPlatform"] * 4 + ["Success"], {}, "Success/Success"),
        (["Failed/AccessDenied"] * 2, {}, "Failed/Failed"),
        (["Failed", "Cancelled/Terminated"], {}, "Failed/Failed"),
    ],
)
def test_a_commands_status_follows_from_its_invocations(
    statuses: list[str], request_: dict[str, str], expected: str
) -> None:
    assert "/".join(status_of(_command(*statuses, request=request_))) == expected


def test_a_cancelled_command_says_so_even_if_one_instance_was_faster() -> None:
    assert status_of(_command("Success", "Cancelled", cancelled=True)) == ("Cancelled", "Cancelled")


def test_only_failures_of_the_script_count_as_errors() -> None:
    command = _command(
        "Failed", "TimedOut/ExecutionTimedOut", "TimedOut/DeliveryTimedOut", "Failed/Undeliverable", "Cancelled"
    )

    assert (command.errors, command.count("DeliveryTimedOut")) == (2, 1)


@pytest.mark.parametrize(
    ("limit", "targets", "expected"), [("3", 50, 3), ("10%", 50, 5), ("10%", 9, 0), ("100%", 7, 7), ("0", 7, 0)]
)
def test_a_percentage_is_of_the_targets_and_rounded_down(limit: str, targets: int, expected: int) -> None:
    assert share(limit, targets) == expected
