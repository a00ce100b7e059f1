"""Agents take, queue, drop, cancel, die and come back as AWS's do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.process import wait_until
from lab.ssm import Instance, Moment
from tests.lab.ssm_support import FIRST, SECOND, Ssm, running, written

IDS = tuple(f"i-{number:017x}" for number in range(1, 5))


@pytest.fixture(scope="module")
def shared() -> Iterator[Ssm]:
    tags = {"unstick": "allowed"}
    more = [Instance(id=each, tags=tags) for each in IDS]
    windows = Instance(id="i-0aaaaaaaaaaaaaaaa", platform="Windows", tags={"system": "windows"})
    with running(Instance(id=FIRST), Instance(id=SECOND, tags={"system": "windows"}), windows, *more) as ssm:
        yield ssm


@pytest.fixture
def ssm(shared: Ssm) -> Iterator[Ssm]:
    yield shared
    shared.server.faults.clear()


def _holding(path: Path) -> str:
    """Give a script that says that it runs, and ends when its file is gone."""
    return f"echo ran >>{path}; while [ -e {path} ]; do sleep 0.05; done"


def test_five_run_five_wait_and_the_rest_stays_with_the_service(ssm: Ssm, tmp_path: Path) -> None:
    holders = [tmp_path / str(number) for number in range(5)]
    running_ones = [ssm.send(_holding(path)) for path in holders]
    for path in holders:
        written(path)
    queued = [ssm.send("echo later") for _ in range(6)]
    for command in queued[:5]:
        ssm.until(command, "InProgress")
    eleventh = ssm.until(queued[5], "Pending", "Delayed")
    code = ssm.see(queued[0])["ResponseCode"]

    holders[0].unlink()

    assert [ssm.until(each)["Status"] for each in queued] == ["Success"] * 6
    assert (eleventh["Status"], code) == ("Pending", -1)
    for path in holders[1:]:
        path.unlink()
    assert [ssm.until(each)["Status"] for each in running_ones] == ["Success"] * 5


def test_a_command_that_is_delivered_again_runs_once(ssm: Ssm, tmp_path: Path) -> None:
    ssm.server.faults.duplicates = 3
    command = ssm.send(f"echo ran >>{tmp_path}/ran")

    ssm.until(command)
    after = ssm.server.deliver_again(command, FIRST)

    assert ((tmp_path / "ran").read_text(), after) == ("ran\n", "dropped")


def test_what_the_agent_has_forgotten_after_half_an_hour_runs_again(ssm: Ssm, tmp_path: Path) -> None:
    command = ssm.send(f"echo ran >>{tmp_path}/ran")
    ssm.until(command)

    ssm.server.clock.advance(1801)
    after = ssm.server.deliver_again(command, FIRST)

    written(tmp_path / "ran", 2)
    assert (after, ssm.see(command)["Status"]) == ("taken", "Success")


def test_a_cancelled_command_that_was_not_delivered_never_runs(ssm: Ssm, tmp_path: Path) -> None:
    ssm.server.faults.deaf.add(FIRST)
    command = ssm.send(f"echo ran >{tmp_path}/ran")

    ssm.client.cancel_command(CommandId=command, InstanceIds=[FIRST])
    ssm.server.faults.clear()

    ended = ssm.until(command)
    assert (ended["StatusDetails"], ended["ResponseCode"]) == ("Cancelled", -1)
    assert ssm.until(ssm.send("true"))["Status"] == "Success"
    assert not (tmp_path / "ran").exists()


def test_a_cancelled_script_is_killed_with_its_children(ssm: Ssm, tmp_path: Path) -> None:
    command = ssm.send(f"echo begun; sleep 1000 & echo $! >{tmp_path}/pid; wait")
    written(tmp_path / "pid")

    ssm.client.cancel_command(CommandId=command)
    ended = ssm.until(command)

    assert (ended["Status"], ended["ResponseCode"], ended["StandardOutputContent"]) == ("Cancelled", 137, "begun\n")
    child = Path("/proc") / (tmp_path / "pid").read_text().strip()
    wait_until(lambda: not child.exists(), "the child is gone")
    assert ssm.command(command)["Status"] == "Cancelled"


def test_a_cancel_that_comes_too_late_or_gets_lost_changes_nothing(ssm: Ssm, tmp_path: Path) -> None:
    early = ssm.send("true")
    ssm.until(early)
    ssm.server.faults.cancel_lost.add(FIRST)
    lost = ssm.send(_holding(tmp_path / "held"))
    written(tmp_path / "held")

    ssm.client.cancel_command(CommandId=early)
    ssm.client.cancel_command(CommandId=lost)
    while_it_runs = ssm.see(lost)["Status"]
    (tmp_path / "held").unlink()

    statuses = (ssm.see(early)["Status"], while_it_runs, ssm.until(lost)["Status"])
    assert statuses == ("Success", "Cancelling", "Success")


def test_a_process_that_cannot_die_is_reported_as_cancelled_all_the_same(ssm: Ssm, tmp_path: Path) -> None:
    ssm.server.faults.kill_ignored.add(FIRST)
    command = ssm.send(f"echo $$ >{tmp_path}/held; while [ -e {tmp_path}/held ]; do sleep 0.05; done")
    written(tmp_path / "held")

    ssm.client.cancel_command(CommandId=command)
    ended = ssm.until(command)

    process = Path("/proc") / (tmp_path / "held").read_text().strip()
    assert (ended["Status"], ended["ResponseCode"], process.exists()) == ("Cancelled", 137, True)
    (tmp_path / "held").unlink()
    wait_until(lambda: not process.exists(), "it ends by itself")


def test_an_agent_that_dies_before_the_script_plays_it_when_it_is_back(ssm: Ssm, tmp_path: Path) -> None:
    ssm.server.faults.die(FIRST, Moment.BEFORE, back_after=20)
    command = ssm.send(f"echo ran >>{tmp_path}/ran")
    ssm.until(command, "InProgress")
    early = (tmp_path / "ran").exists()

    ssm.server.clock.advance(20)

    assert (ssm.until(command)["Status"], early, (tmp_path / "ran").read_text()) == ("Success", False, "ran\n")


def test_an_agent_that_dies_during_the_script_reports_a_failure_though_the_script_goes_on(
    ssm: Ssm, tmp_path: Path
) -> None:
    ssm.server.faults.die(FIRST, Moment.DURING, back_after=20)
    command = ssm.send(f"{_holding(tmp_path / 'held')}; echo done >{tmp_path}/done")
    written(tmp_path / "held")

    ssm.server.clock.advance(20)
    ended = ssm.until(command)
    (tmp_path / "held").unlink()

    written(tmp_path / "done")
    assert (ended["Status"], ended["ResponseCode"], ended["StandardOutputContent"]) == ("Failed", 1, "")
    assert ended["StandardErrorContent"].startswith("document process failed unexpectedly")


def test_an_agent_that_dies_after_the_script_reports_when_it_is_back(ssm: Ssm, tmp_path: Path) -> None:
    ssm.server.faults.die(FIRST, Moment.AFTER, back_after=20)
    command = ssm.send(f"echo ran >>{tmp_path}/ran; echo out")
    written(tmp_path / "ran")
    before = ssm.until(command, "InProgress")

    ssm.server.clock.advance(20)

    ended = ssm.until(command)
    assert (before["ResponseCode"], ended["Status"], ended["StandardOutputContent"]) == (-1, "Success", "out\n")
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_194_plays_the_script_again_from_the_top(ssm: Ssm, tmp_path: Path) -> None:
    command = ssm.send(f"echo ran >>{tmp_path}/ran", f"[ $(wc -l <{tmp_path}/ran) -ge 3 ] || exit 194", "echo out")

    ended = ssm.until(command)

    assert (ended["Status"], ended["StandardOutputContent"]) == ("Success", "out\n")
    assert (tmp_path / "ran").read_text() == "ran\n" * 3


def test_max_concurrency_lets_one_instance_go_after_the_other(ssm: Ssm, tmp_path: Path) -> None:
    script = (
        f'mkdir {tmp_path}/alone && sleep 0.1 && rmdir {tmp_path}/alone && echo "$AWS_SSM_INSTANCE_ID" >>{tmp_path}/ran'
    )
    command = ssm.send(script, Targets=[{"Key": "tag:unstick", "Values": ["allowed"]}], MaxConcurrency="25%")

    for instance in IDS:
        ssm.until(command, instance=instance)

    row = ssm.command(command)
    assert (row["Status"], row["TargetCount"], row["CompletedCount"], row["ErrorCount"]) == ("Success", 4, 4, 0)
    assert tuple((tmp_path / "ran").read_text().split()) == IDS


def test_the_error_after_the_allowed_ones_stops_the_command(ssm: Ssm, tmp_path: Path) -> None:
    script = f"echo ran >>{tmp_path}/ran; exit 1"
    command = ssm.send(script, to=IDS, MaxConcurrency="1", MaxErrors="1")

    details = [ssm.until(command, instance=each)["StatusDetails"] for each in IDS]

    row = ssm.command(command)
    assert (details, (tmp_path / "ran").read_text()) == (["Failed", "Failed", "Terminated", "Terminated"], "ran\n" * 2)
    assert (row["Status"], row["StatusDetails"], row["ErrorCount"]) == ("Failed", "Failed", 2)


def test_targets_that_match_nothing_succeed_with_nothing(ssm: Ssm) -> None:
    target = {"Key": "tag:unstick", "Values": ["forbidden"]}

    command = ssm.send("true", Targets=[target])

    wait_until(lambda: ssm.command(command)["StatusDetails"] == "NoInstancesInTag", "it settles")
    assert (ssm.command(command)["Status"], ssm.command(command)["TargetCount"]) == ("Success", 0)


def test_another_platform_is_refused_by_name_and_skipped_by_tag(ssm: Ssm) -> None:
    windows = "i-0aaaaaaaaaaaaaaaa"
    named = ssm.refused(
        "send_command", DocumentName="AWS-RunShellScript", InstanceIds=[windows], Parameters={"commands": ["true"]}
    )
    command = ssm.send("true", Targets=[{"Key": "tag:system", "Values": ["windows"]}])

    details = [ssm.until(command, instance=each)["StatusDetails"] for each in (windows, SECOND)]

    assert (named, details) == (("UnsupportedPlatformType", 400), ["InvalidPlatform", "Success"])
    assert ssm.command(command)["Status"] == "Success"


@pytest.mark.parametrize("details", ["Undeliverable", "AccessDenied"])
def test_an_instance_can_be_out_of_reach_for_good(ssm: Ssm, details: str) -> None:
    ssm.server.faults.refused[FIRST] = details

    ended = ssm.until(ssm.send("true"))

    assert (ended["Status"], ended["StatusDetails"], ended["ResponseCode"]) == ("Failed", details, -1)


def test_a_shebang_chooses_the_interpreter_and_without_one_it_is_sh(ssm: Ssm) -> None:
    plain = ssm.until(ssm.send("set -o pipefail", "echo ${BASH_VERSION:-none}"))
    bash = ssm.until(ssm.send("#!/bin/bash", "set -o pipefail", "false | true", "echo $? ${BASH_VERSION:+bash}"))

    assert (bash["Status"], bash["StandardOutputContent"]) == ("Success", "1 bash\n")
    assert plain["StandardOutputContent"] in ("", "none\n")  # dash has no pipefail before 0.5.13


def test_a_folder_that_is_not_there_fails_the_step_before_it_starts(ssm: Ssm) -> None:
    parameters = {"commands": ["echo ran"], "workingDirectory": ["/does/not/exist"]}

    ended = ssm.until(ssm.send(Parameters=parameters))

    assert (ended["Status"], ended["ResponseCode"], ended["StandardOutputContent"]) == ("Failed", 1, "")
    assert "chdir /does/not/exist" in ended["StandardErrorContent"]


def test_a_removed_instance_is_unknown_and_what_waits_for_it_is_undeliverable(ssm: Ssm) -> None:
    identity = "mi-0123456789abcdef7"
    ssm.server.add(Instance(id=identity, name="gpu-07"))
    ssm.server.faults.deaf.add(identity)
    command = ssm.send("true", to=(identity,))
    ssm.until(command, "Delayed", instance=identity)

    ssm.server.remove(identity)
    ssm.server.clock.advance(15)

    assert ssm.until(command, instance=identity)["StatusDetails"] == "Undeliverable"
    request = {"DocumentName": "AWS-RunShellScript", "InstanceIds": [identity], "Parameters": {"commands": ["true"]}}
    assert ssm.refused("send_command", **request) == ("InvalidInstanceId", 400)
