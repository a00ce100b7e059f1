"""How commands under way are followed, against an AWS that a test writes down."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.process import wait_until
from service.domain.script import NotStarted
from service.executors.ssm.command import Accepted, Command, Flight, Landing
from service.executors.ssm.faults import read_fault
from service.executors.ssm.gateway import Gateway, Patience, Place
from service.executors.ssm.poller import Poller
from service.executors.ssm.statuses import Standing
from service.executors.ssm.tempo import Tempo
from tests.executors.ssm.support import endpoint, instance_id

T0 = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
QUICK = Tempo(pace=0.01, fetch=0.0)
Row = Mapping[str, Any]


class Written(Gateway):
    """An AWS whose answers a test gives; what it was asked is kept."""

    def __init__(self, answer: Callable[[str, Mapping[str, Any]], Row]) -> None:
        super().__init__(Place(None, None), Patience())
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self._answer = answer

    def look(self, operation: str, **parameters: object) -> Row:
        self.asked.append((operation, parameters))
        return self._answer(operation, parameters)

    def operations(self) -> list[str]:
        return [operation for operation, _ in self.asked]


def refused(name: str) -> Exception:
    answer = {"Error": {"Code": name}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return read_fault(ClientError(answer, "x"))


def flight(number: int = 1, *, delivery: int = 30, execution: int = 6000, enough: bool = False) -> Flight:
    command = Command((endpoint(number),), "", f"a{number}", delivery, execution)
    accepted = Accepted(f"c{number}", T0 + timedelta(seconds=number))
    return Flight(command, accepted, endpoint(number), time.monotonic(), enough=lambda _: enough, pace=QUICK.pace)


def row(number: int, status: str, details: str = "", output: str = "") -> Row:
    plugins = [{"Name": "aws:runShellScript", "Output": output, "ResponseCode": -1}]
    return {
        "CommandId": f"c{number}",
        "InstanceId": instance_id(number),
        "Status": status,
        "StatusDetails": details or status,
        "CommandPlugins": plugins,
    }


def landed(poller: Poller, *flights: Flight) -> list[Landing]:
    for one in flights:
        poller.follow(one)
    try:
        return [one.landed.result(90) for one in flights]
    finally:
        poller.close()


def test_what_takes_long_is_waited_for_and_its_code_of_minus_one_is_none() -> None:
    looks = itertools.count()

    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        if operation == "get_command_invocation":
            return {"Status": "Success", "StatusDetails": "Success", "StandardOutputContent": "all of it"}
        return {"CommandInvocations": [row(1, "InProgress" if next(looks) < 20 else "Success")]}

    gateway = Written(answer)

    landing = landed(Poller(gateway, QUICK), flight())[0]

    assert (landing.meaning.standing, landing.output) == (Standing.OVER, "all of it")
    assert gateway.operations() == ["list_command_invocations"] * 21 + ["get_command_invocation"]


def test_what_a_listing_tells_whole_is_not_asked_for_again() -> None:
    gateway = Written(lambda *_: {"CommandInvocations": [row(1, "Success", output="short")]})

    landing = landed(Poller(gateway, QUICK), flight(enough=True))[0]

    assert (landing.output, gateway.operations()) == ("short", ["list_command_invocations"])


def test_a_few_commands_are_asked_for_by_name_and_many_by_time_and_page() -> None:
    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        if "CommandId" in parameters:
            return {"CommandInvocations": [row(int(parameters["CommandId"][1:]), "Success")]}
        if "NextToken" not in parameters:
            return {"CommandInvocations": [row(3, "Success"), row(88, "Success")], "NextToken": "more"}
        return {"CommandInvocations": [row(4, "Success"), row(5, "Success")]}

    few, many = Written(answer), Written(answer)

    landed(Poller(few, QUICK), flight(1, enough=True))
    landed(Poller(many, QUICK), *[flight(number, enough=True) for number in (3, 4, 5)])

    assert few.asked == [("list_command_invocations", {"MaxResults": 50, "Details": True, "CommandId": "c1"})]
    since = {"key": "InvokedAfter", "value": "2026-11-29T02:59:53Z"}
    filters = [since, {"key": "DocumentName", "value": "AWS-RunShellScript"}]
    same: dict[str, object] = {"Filters": filters, "MaxResults": 50, "Details": True}
    assert many.asked[-2:] == [
        ("list_command_invocations", same),
        ("list_command_invocations", {**same, "NextToken": "more"}),
    ]


def test_what_is_not_listed_yet_and_does_not_exist_yet_is_only_late() -> None:
    stages = iter(["empty", "unknown", "listed", "missing", "listed", "there"])

    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        match next(stages):
            case "empty":
                return {"CommandInvocations": []}
            case "unknown":
                raise refused("InvalidCommandId")
            case "missing":
                raise refused("InvocationDoesNotExist")
            case "listed":
                return {"CommandInvocations": [row(1, "Success")]}
            case _:
                return {"Status": "Success", "StatusDetails": "Success", "StandardOutputContent": "there"}

    landing = landed(Poller(Written(answer), QUICK), flight())[0]

    assert landing.output == "there"


@pytest.mark.parametrize(
    ("seen", "standing"),
    [
        (["Pending"] * 60, Standing.NEVER_ARRIVED),
        (["Pending", "Delayed"] * 30, Standing.NEVER_ARRIVED),
        (["Pending", "InProgress", *["Delayed"] * 60], Standing.OVER),
    ],
)
def test_a_delivery_that_timed_out_is_judged_by_what_was_seen_before(seen: list[str], standing: Standing) -> None:
    words: Iterator[str] = iter(seen)

    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        word = next(words, "")
        if operation == "get_command_invocation":
            return row(1, "TimedOut", "DeliveryTimedOut")
        if not word:
            return {"CommandInvocations": [row(1, "TimedOut", "Delivery Timed Out")]}
        return {"CommandInvocations": [row(1, word)]}

    landing = landed(Poller(Written(answer), QUICK), flight())[0]

    assert landing.meaning.standing is standing
    assert landing.meaning.cause is (NotStarted.UNREACHABLE if standing is Standing.NEVER_ARRIVED else None)


@pytest.mark.parametrize("word", ["InProgress", "Cancelling", "NewWord", None])
def test_a_command_of_which_no_end_is_told_is_given_up_as_unknown(word: str | None) -> None:
    rows = [row(1, word)] if word else []
    gateway = Written(lambda *_: {"CommandInvocations": rows})

    landing = landed(Poller(gateway, QUICK), flight(execution=5))[0]

    assert landing == Landing(landing.meaning)
    assert landing.meaning.standing is Standing.OVER
    assert "did not say in time" in landing.meaning.words


def test_why_aws_could_not_be_asked_is_told_in_the_end() -> None:
    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        raise refused("ExpiredTokenException")

    landing = landed(Poller(Written(answer), QUICK), flight(execution=5))[0]

    assert "the AWS credentials of unstick have expired" in landing.meaning.words


def test_while_aws_throttles_it_is_asked_less_and_less_often() -> None:
    slower: list[float] = []

    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        slower.append(poller._slower)
        if len(slower) < 9:
            raise refused("ThrottlingException")
        return {"CommandInvocations": [row(1, "Success")]}

    poller = Poller(Written(answer), QUICK)

    landing = landed(poller, flight(enough=True))[0]

    assert landing.meaning.standing is Standing.OVER
    assert slower == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0, 64.0]


def test_nothing_is_asked_when_nothing_is_under_way() -> None:
    gateway = Written(lambda *_: {"CommandInvocations": [row(1, "Success")]})
    poller = Poller(gateway, QUICK)
    one = flight(enough=True)
    poller.follow(one)
    one.landed.result(90)

    wait_until(lambda: poller._thread is None, "the thread has left")

    assert len(gateway.asked) == 1
    poller.close()


def test_whoever_comes_after_the_end_is_told_at_once() -> None:
    poller = Poller(Written(lambda *_: {}), QUICK)
    poller.close()

    landing = landed(poller, flight())[0]

    assert landing.meaning.words == "the service is stopping"


def test_an_instance_beyond_the_last_page_is_asked_for_by_its_command_however_short_the_pages_are() -> None:
    """A page may have few rows, or none, and a token; one row of a command does not tell of its others."""

    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        if "CommandId" in parameters:
            return {"CommandInvocations": [row(int(parameters["CommandId"][1:]), "Success")]}
        return {"CommandInvocations": [{**row(1, "Success"), "InstanceId": instance_id(9)}], "NextToken": "more"}

    gateway = Written(answer)

    landings = landed(Poller(gateway, QUICK), *[flight(number, enough=True) for number in (1, 2, 3)])

    assert {landing.meaning.words for landing in landings} == {"the agent says Success, but nothing of ours came back"}


@pytest.mark.parametrize("details", ["Undeliverable", "AccessDenied", "RateExceeded", "InvalidPlatform"])
def test_what_was_seen_to_have_begun_is_never_said_not_to_have_arrived(details: str) -> None:
    looks = itertools.count()

    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        if next(looks) == 0:
            return {"CommandInvocations": [row(1, "InProgress")]}
        ended = row(1, "Failed", details)
        return ended if operation == "get_command_invocation" else {"CommandInvocations": [ended]}

    landing = landed(Poller(Written(answer), QUICK), flight())[0]

    assert (landing.meaning.standing, landing.meaning.cause) == (Standing.OVER, None)


def test_a_command_was_seen_to_wait_when_it_was_asked_for_and_not_when_the_answer_was_read() -> None:
    asked = []

    def answer(operation: str, parameters: Mapping[str, Any]) -> Row:
        asked.append(time.monotonic())
        if len(asked) == 1:
            time.sleep(0.2)
            return {"CommandInvocations": [row(1, "Pending")]}
        return {"CommandInvocations": [row(1, "Success")]}

    one = flight(enough=True)

    landed(Poller(Written(answer), QUICK), one)

    assert one.seen_waiting is not None
    assert one.seen_waiting <= asked[0]
