"""Time at the stand-in is the test's: windows, deadlines and expiry pass when the clock is told to go on."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab.process import wait_until
from lab.ssm import Instance, Timing
from tests.lab.ssm_support import FIRST, SECOND, Ssm, running, written


class Machine:
    """A machine that a test switches on and off."""

    def __init__(self) -> None:
        self.on = True

    def prefix(self) -> Sequence[str]:
        if not self.on:
            raise ProcessLookupError("off")
        return ()


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def ssm(machine: Machine) -> Iterator[Ssm]:
    with running(Instance(id=FIRST, prefix=machine.prefix), Instance(id=SECOND), pace=0, script_pace=0) as ssm:
        yield ssm


def _becomes(ssm: Ssm, command: str, details: str) -> None:
    wait_until(lambda: ssm.details(command) == details, f"it becomes {details}")


def test_a_new_command_does_not_exist_for_a_while_and_is_listed_later(ssm: Ssm) -> None:
    command = ssm.send("true")
    looks = [(ssm.details(command), len(ssm.client.list_commands()["Commands"]))]
    for seconds in (0.29, 0.02, 0.2):
        ssm.server.clock.advance(seconds)
        looks.append((ssm.see(command)["Status"] != "not yet", len(ssm.client.list_commands()["Commands"])))

    assert looks == [("not yet/not yet", 0), (False, 0), (True, 0), (True, 1)]


def test_what_cannot_be_delivered_is_delayed_then_times_out_and_never_runs(
    ssm: Ssm, machine: Machine, tmp_path: Path
) -> None:
    machine.on = False
    command = ssm.send(f"echo ran >{tmp_path}/ran")
    ssm.server.clock.advance(1)
    _becomes(ssm, command, "Delayed/Delayed")

    ssm.server.clock.advance(28)
    still = ssm.details(command)
    machine.on = True
    ssm.server.clock.advance(2)  # too late to start, too early to give up
    waiting = ssm.command(command)
    ssm.server.clock.advance(59.5)
    _becomes(ssm, command, "TimedOut/DeliveryTimedOut")

    ended = ssm.see(command)
    assert (still, waiting["Status"], ended["ResponseCode"]) == ("Delayed/Delayed", "Pending", -1)
    row = ssm.command(command)
    assert (row["Status"], row["StatusDetails"], row["DeliveryTimedOutCount"]) == ("TimedOut", "DeliveryTimedOut", 1)
    assert not (tmp_path / "ran").exists()


def test_a_machine_that_is_back_in_time_gets_its_command(ssm: Ssm, machine: Machine) -> None:
    machine.on = False
    ssm.server.faults.undelivered = "InProgress"
    command = ssm.send("true")
    ssm.server.clock.advance(1)
    _becomes(ssm, command, "InProgress/InProgress")

    machine.on = True
    ssm.server.clock.advance(15)

    assert ssm.until(command)["Status"] == "Success"


def test_a_script_is_killed_when_its_own_time_is_up(ssm: Ssm, tmp_path: Path) -> None:
    command = ssm.send(f"echo early; echo $$ >{tmp_path}/pid; sleep 1000", seconds=5)
    ssm.server.clock.advance(0.5)
    written(tmp_path / "pid")

    ssm.server.clock.advance(6)
    ended = ssm.until(command)

    assert (ended["StatusDetails"], ended["ResponseCode"]) == ("ExecutionTimedOut", 137)
    assert ended["StandardOutputContent"] == "early\n"
    pid = (tmp_path / "pid").read_text().strip()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the script is gone")


def test_a_child_that_holds_the_output_keeps_the_command_in_progress(ssm: Ssm, tmp_path: Path) -> None:
    command = ssm.send(f"(sleep 1000; echo never) & echo $! >{tmp_path}/pid", seconds=5)
    ssm.server.clock.advance(0.5)
    written(tmp_path / "pid")
    before = ssm.details(command)

    ssm.server.clock.advance(6)

    assert (before, ssm.until(command)["StatusDetails"]) == ("InProgress/InProgress", "ExecutionTimedOut")


def test_a_report_that_comes_after_the_total_timeout_changes_nothing(ssm: Ssm, tmp_path: Path) -> None:
    ssm.server.faults.die(FIRST, "after", back_after=1000)
    command = ssm.send(f"echo ran >{tmp_path}/ran")
    ssm.server.clock.advance(0.5)
    written(tmp_path / "ran")

    ssm.server.clock.advance(91)
    _becomes(ssm, command, "TimedOut/DeliveryTimedOut")
    ssm.server.clock.advance(1000)
    wait_until(lambda: ssm.server.late_reports == 1, "the report comes")

    assert ssm.details(command) == "TimedOut/DeliveryTimedOut"


def test_a_token_expires_and_is_good_for_its_own_list_only(ssm: Ssm) -> None:
    for _ in range(2):
        ssm.send("true", to=(SECOND,))
    ssm.server.clock.advance(1)
    token = ssm.client.list_commands(MaxResults=1)["NextToken"]
    other = ssm.refused("list_commands", NextToken=token, InstanceId=SECOND)
    second = ssm.client.list_commands(MaxResults=1, NextToken=token)

    ssm.server.clock.advance(601)

    assert (other, len(second["Commands"]), "NextToken" in second) == (("InvalidNextToken", 400), 1, False)
    assert ssm.refused("list_commands", NextToken=token) == ("InvalidNextToken", 400)
    assert ssm.refused("list_commands", NextToken="nonsense") == ("InvalidNextToken", 400)


def test_an_agent_that_is_down_is_still_shown_online_until_its_ping_is_old(ssm: Ssm, machine: Machine) -> None:
    def ping() -> str:
        rows = ssm.client.describe_instance_information(Filters=[{"Key": "InstanceIds", "Values": [FIRST]}])
        return str(rows["InstanceInformationList"][0]["PingStatus"])

    seen = [ping()]
    machine.on = False
    for seconds in (350, 20):
        ssm.server.clock.advance(seconds)
        seen.append(ping())
    machine.on = True
    seen.append(ping())

    assert seen == ["Online", "Online", "ConnectionLost", "Online"]


def test_time_goes_at_the_pace_that_was_asked_for() -> None:
    with running(pace=1000, timing=Timing(delivery=400)) as ssm:
        command = ssm.send("true", TimeoutSeconds=200_000)

        assert ssm.until(command)["Status"] == "Success"
