"""Situations that others have met with Run Command, played through the whole service or the part that decides."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.process import wait_until
from service.domain.node import Inventory, Node
from service.domain.run import Attempt, AttemptState, NodeRunState, Run, StepOutcome
from service.domain.script import NotStarted, ReportState, ScriptOrder, Stream
from service.executors.envelope import OneAnswer
from service.executors.local import LocalExecutor
from service.executors.not_sent import NotSent
from service.executors.ssm import wire
from service.executors.ssm.command import Accepted, Command
from service.executors.ssm.faults import read_fault
from service.executors.ssm.gateway import Gateway, Patience, Place
from service.executors.ssm.gather import Gatherer, Sent
from service.executors.ssm.sender import Sender
from service.executors.ssm.tempo import Tempo
from tests.executors.envelope_place import HERE, Heard
from tests.executors.envelope_place import order as order_here
from tests.executors.shells import BODIES, rendered
from tests.executors.ssm.support import Region, acting, endpoint, instance_id, order
from tests.support.world import RealClock, World

pytestmark = pytest.mark.needs_root
NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
WITHIN = OneAnswer(45, wire.ANSWER_LIMIT)


@pytest.fixture
def world(region: Region, tmp_path: Path) -> Iterator[World]:
    """Give a service that follows a command for a second, and asks once for what an answer had no room for."""
    executor = region.again(longest_wait=1, questions=1)
    inventory = Inventory({"gpu-01": Node("gpu-01", endpoint())}, {})
    runbooks = Path(__file__).parent / "runbooks"
    url = f"sqlite:///{tmp_path}/unstick.db"
    world = World.build(url, executor, inventory=inventory, runbooks=runbooks, clock=RealClock())
    yield world
    world.close()


def attempt_of(world: World, run: Run, step: str) -> Attempt:
    """Return the last attempt of a step that was made."""
    (node_run,) = world.node_runs(run)
    return [one for one in world.history(node_run).attempts if one.step == step][-1]


def test_a_script_that_outlasts_its_command_is_running_until_its_end_and_the_exit_code_is_its_own(
    world: World, region: Region
) -> None:
    region.place.file("let-go").unlink(missing_ok=True)
    run = world.request("long-and-loud", "gpu-01")
    player = threading.Thread(target=lambda: world.play_to_end(run))
    asked = len(region.sends())
    seen: list[tuple[NodeRunState, AttemptState, int | None]] = []

    def see(commands: int) -> bool:
        (node_run,) = world.node_runs(run)
        attempts = [one for one in world.history(node_run).attempts if one.acting and one.asked_at is not None]
        seen.extend((node_run.state, one.state, one.exit_code) for one in attempts)
        return bool(attempts) and len(region.sends(asked)) >= commands

    player.start()
    wait_until(lambda: see(4), "it has been asked about", seconds=60)
    # More than the waiter of AWS's own library would wait (20 times 5 s).
    region.server.clock.advance(150)
    wait_until(lambda: see(6), "it has been asked about again", seconds=60)
    region.place.file("let-go").touch()
    player.join()

    attempts = world.history(world.node_runs(run)[0]).attempts
    (ended,) = [one for one in attempts if one.acting]
    assert set(seen) == {(NodeRunState.RUNNING, AttemptState.RUNNING, None)}
    assert (ended.state, ended.exit_code) == (AttemptState.FINISHED, 0)


def test_a_verdict_is_the_exit_code_and_never_the_last_line_that_arrived(world: World, region: Region) -> None:
    region.place.file("let-go").touch()
    run = world.request("long-and-loud", "gpu-01")

    node_run = world.play_to_end(run)

    verify = attempt_of(world, run, "loud")
    kept = world.service.store.read(lambda reader: reader.output(verify.id, Stream.STDOUT))
    assert (node_run.results[-1].outcome, verify.exit_code, verify.truncated) == (StepOutcome.FAILED, 77, True)
    assert "not all of it was fetched" in verify.reason
    assert 20_000 < len(kept) < verify.stdout_bytes
    # No character was cut in two on the way: base64 in lines of 75, each with its sign of three bytes.
    whole = kept.decode("utf-8", "replace").splitlines()[:-1]
    assert {(len(line), line[-1]) for line in whole} == {(76, "€")}


@pytest.mark.parametrize(("body", "code", "printed"), BODIES)
def test_a_failure_in_the_middle_is_the_end_and_the_shell_is_bash(
    region: Region, body: str, code: int, printed: bytes
) -> None:
    local = LocalExecutor(prefix=region.place.prefix)
    over_ssm, here = Heard(), Heard()

    reports = region.run(order(rendered(body)), over_ssm), local.start(order_here(rendered(body), endpoint=HERE), here)

    local.close()
    assert [(report.state, report.exit_code) for report in reports] == [(ReportState.FINISHED, code)] * 2
    assert (over_ssm.text(), here.text()) == (printed, printed)


class Refusing(Gateway):
    """An AWS that knows an instance and cannot send to it."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__(Place(None, None), Patience())
        self.asked: list[str] = []
        self._row = row

    def act(self, operation: str, **parameters: object) -> Mapping[str, Any]:
        self.asked.append(operation)
        answer = {"Error": {"Code": "InvalidInstanceId"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise read_fault(ClientError(answer, operation))

    def look(self, operation: str, **parameters: object) -> Mapping[str, Any]:
        self.asked.append(operation)
        return {"InstanceInformationList": [self._row]}


@pytest.mark.parametrize("status", ["ConnectionLost", "Inactive"])
def test_an_instance_that_ssm_cannot_reach_is_told_with_its_ping_and_asked_for_once(status: str) -> None:
    gateway = Refusing({"PingStatus": status, "LastPingDateTime": NOW - timedelta(hours=2)})
    hybrid = endpoint(address="mi-0123456789abcdef0")
    sender = Sender(gateway, Tempo(), closing=threading.Event())

    with pytest.raises(NotSent) as refused:
        sender.send(Command((hybrid,), "true", "a1", delivery=30, execution=60))

    assert refused.value.cause is NotStarted.UNREACHABLE
    assert refused.value.reason.startswith("Nothing was started on gpu-01: SSM does not know the instance as one that")
    assert f"SSM lists it as {status}, last heard of 2026-11-29 01:00:00 UTC" in refused.value.reason
    assert gateway.asked == ["send_command", "describe_instance_information"]


def test_a_hundred_and_twenty_nodes_go_in_commands_of_fifty_at_most_and_each_has_its_own_record() -> None:
    sent: list[Command] = []
    lock = threading.Lock()

    def send(command: Command) -> Accepted:
        with lock:
            sent.append(command)
            return Accepted(f"c{len(sent)}", NOW)

    gatherer = Gatherer(send, now=lambda: NOW, seconds=1.0, closing=threading.Event())
    orders = [order("true", number) for number in range(1, 121)]

    def start(one: ScriptOrder) -> Sent:
        return gatherer.start(one, WITHIN)

    with ThreadPoolExecutor(len(orders)) as threads:
        found = list(threads.map(start, orders))

    named = [one.address for command in sent for one in command.endpoints]
    assert sorted(named) == [instance_id(number) for number in range(1, 121)]
    assert max(len(command.endpoints) for command in sent) <= 50
    assert all(one.endpoint in its.command.endpoints for one, its in zip(orders, found, strict=True))


def test_a_short_script_has_its_own_time_though_a_delivery_has_thirty_seconds_at_least(region: Region) -> None:
    since = len(region.sends())

    report = region.run(acting("sleep 300", timeout=timedelta(seconds=1)))

    (call,) = region.sends(since)
    assert (report.state, report.ended_by_us, call.parameters["TimeoutSeconds"]) == (ReportState.FINISHED, True, 30)


def test_a_comment_that_is_too_long_is_cut() -> None:
    command = Command((endpoint(),), "true", "a" * 300, delivery=30, execution=60)

    assert command.parameters()["Comment"] == "a" * 100
