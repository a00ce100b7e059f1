"""Calls go wrong as a test says, and the log tells what really reached the service."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from lab.process import wait_until
from lab.ssm import Instance, Outcome
from lab.ssm.remote import Remote
from tests.lab.ssm_support import FIRST, Ssm, make_client, running

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SEND = {"DocumentName": "AWS-RunShellScript", "InstanceIds": [FIRST], "Parameters": {"commands": ["true"]}}
OTHER_PROCESS = """
import os, sys
import boto3
from lab.ssm.remote import Remote
remote = Remote.of(os.environ)
remote.faults(next={"SendCommand": ["throttle"]})
client = boto3.client("ssm")
sent = client.send_command(
    DocumentName="AWS-RunShellScript", InstanceIds=[sys.argv[1]], Parameters={"commands": ["echo {{ssm:word}}"]}
)
print(sent["Command"]["CommandId"])
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Ssm]:
    with running() as ssm:
        yield ssm


@pytest.fixture
def ssm(shared: Ssm) -> Iterator[Ssm]:
    yield shared
    shared.server.faults.clear()


def _log(ssm: Ssm, since: int) -> list[str]:
    """Give the answers to SendCommand since then."""
    return [call.answered for call in ssm.server.calls_of("SendCommand")[since:]]


@pytest.mark.parametrize(
    ("outcome", "code", "status", "accepted"),
    [
        (Outcome.THROTTLE, "ThrottlingException", 400, False),
        (Outcome.TOO_MANY, "TooManyRequestsException", 429, False),
        (Outcome.INTERNAL, "InternalServerError", 500, False),
        (Outcome.INTERNAL_AFTER, "InternalServerError", 500, True),
        (Outcome.UNAVAILABLE, "ServiceUnavailable", 503, False),
        (Outcome.DENY, "AccessDeniedException", 400, False),
        (Outcome.EXPIRED, "ExpiredTokenException", 400, False),
    ],
)
def test_an_error_answer_says_nothing_of_whether_the_call_took_effect(
    ssm: Ssm, outcome: Outcome, code: str, status: int, accepted: bool
) -> None:
    since = len(ssm.server.calls_of("SendCommand"))
    ssm.server.faults.next("SendCommand", outcome)

    refused = ssm.refused("send_command", **SEND)

    call = ssm.server.calls_of("SendCommand")[since]
    assert (refused, call.answered, bool(call.command_id)) == ((code, status), code, accepted)
    if accepted:
        assert ssm.until(call.command_id)["Status"] == "Success"


@pytest.mark.parametrize(("outcome", "accepted"), [(Outcome.CUT, False), (Outcome.CUT_AFTER, True)])
def test_a_connection_ends_before_or_after_the_call_took_effect(ssm: Ssm, outcome: Outcome, accepted: bool) -> None:
    ssm.server.faults.next("SendCommand", outcome)

    with pytest.raises(ConnectionClosedError):
        ssm.client.send_command(**SEND)

    call = ssm.server.calls_of("SendCommand")[-1]
    assert (call.answered, bool(call.command_id)) == (outcome.value, accepted)


@pytest.mark.parametrize(("outcome", "accepted"), [(Outcome.HANG, False), (Outcome.HANG_AFTER, True)])
def test_a_call_hangs_until_the_client_gives_up(ssm: Ssm, outcome: Outcome, accepted: bool) -> None:
    client = make_client(ssm.server.environment(), read_timeout=0.2)
    ssm.server.faults.hang_seconds = 5
    since = len(_log(ssm, 0))
    ssm.server.faults.next("SendCommand", outcome)

    with pytest.raises(ReadTimeoutError):
        client.send_command(**SEND)

    client.close()
    # The client may have given up before the service has read the call.
    wait_until(lambda: len(_log(ssm, since)) > 0, "the call is in the log")
    assert bool(ssm.server.calls_of("SendCommand")[-1].command_id) is accepted


def test_boto3_by_itself_sends_an_ambiguous_command_again_and_the_log_shows_it(ssm: Ssm) -> None:
    since = len(ssm.server.calls_of("SendCommand"))
    client = make_client(ssm.server.environment(), retries={"mode": "standard"})
    ssm.server.faults.next("SendCommand", "cut_after", "internal_after", "ok")

    client.send_command(**SEND)

    client.close()
    calls = ssm.server.calls_of("SendCommand")[since:]
    assert [call.answered for call in calls] == ["cut_after", "InternalServerError", "ok"]
    assert (len({call.command_id for call in calls}), len({call.invocation_id for call in calls})) == (3, 1)


def test_chance_is_the_seeds_and_can_be_limited_to_operations() -> None:
    outcomes = []
    for seed in (7, 7, 8):
        with running(seed=seed) as ssm:
            ssm.server.faults.always("throttle", 0.5, operations=["ListCommands"])
            for _ in range(10):
                try:
                    ssm.client.list_commands()
                except ClientError:
                    continue
            outcomes.append([call.answered for call in ssm.server.calls])
            assert ssm.client.describe_instance_information()["InstanceInformationList"]

    assert (outcomes[0] == outcomes[1], outcomes[0] == outcomes[2]) == (True, False)
    assert {"ok", "ThrottlingException"} == set(outcomes[0])


def test_a_clock_that_is_wrong_shows_in_moments_and_refuses_signatures_when_it_is_far_off(ssm: Ssm) -> None:
    command = ssm.send("true")
    before = ssm.command(command)["RequestedDateTime"]

    ssm.server.faults.clock_skew = 120
    ahead = ssm.command(command)["RequestedDateTime"]
    ssm.server.faults.clock_skew = 400

    assert (ahead - before).total_seconds() == pytest.approx(120)
    assert ssm.refused("list_commands") == ("InvalidSignatureException", 400)


def test_a_ping_can_lie(ssm: Ssm) -> None:
    instance = ssm.server.add(Instance(id="i-0bbbbbbbbbbbbbbbb", shown_ping="ConnectionLost"))

    rows = ssm.client.describe_instance_information(Filters=[{"Key": "PingStatus", "Values": ["ConnectionLost"]}])
    ended = ssm.until(ssm.send("true", to=(instance.id,)), instance=instance.id)

    assert [row["InstanceId"] for row in rows["InstanceInformationList"]] == [instance.id]
    assert ended["Status"] == "Success"


def test_two_hybrid_instances_may_have_one_name_and_stopped_ones_are_left_out(ssm: Ssm) -> None:
    twins = [Instance(id=f"mi-{number:017x}", name="gpu-11", tags={"twin": "yes"}) for number in (1, 2)]
    twins.append(Instance(id="i-0cccccccccccccccc", state="Stopped", tags={"twin": "yes"}))
    for twin in twins:
        ssm.server.add(twin)
    twins[0].ping = "ConnectionLost"

    rows = ssm.client.describe_instance_information(Filters=[{"Key": "tag:twin", "Values": ["yes"]}])

    assert [(row["InstanceId"], row["Name"], row["PingStatus"]) for row in rows["InstanceInformationList"]] == [
        (twins[0].id, "gpu-11", "ConnectionLost"),
        (twins[1].id, "gpu-11", "Online"),
    ]
    both = [{"Key": "tag:twin", "Values": ["yes"]}, {"Key": "PingStatus", "Values": ["Online"]}]
    assert ssm.refused("describe_instance_information", Filters=both) == ("InvalidFilterKey", 400)


def test_pages_of_instances_cover_all_of_them_once() -> None:
    many = [Instance(id=f"i-{number:017x}") for number in range(12)]
    with running(*many) as ssm:
        pages = ssm.client.get_paginator("describe_instance_information").paginate(PaginationConfig={"PageSize": 5})
        rows = [[row["InstanceId"] for row in page["InstanceInformationList"]] for page in pages]

    assert ([len(page) for page in rows], [each for page in rows for each in page]) == ([5, 5, 2], [i.id for i in many])


def _post(ssm: Ssm, path: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"{ssm.server.url}{path}", data=b"{}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_only_a_signed_call_of_a_known_operation_is_answered(ssm: Ssm) -> None:
    unsigned = _post(ssm, "/", {"X-Amz-Target": "AmazonSSM.ListCommands"})
    half = _post(ssm, "/", {"Authorization": "AWS4-HMAC-SHA256 Credential=x"})
    elsewhere = _post(ssm, "/other", {})
    control = _post(ssm, "/_lab/faults", {"Authorization": "Bearer guess"})

    assert (unsigned[1]["__type"], half[1]["__type"]) == (
        "MissingAuthenticationTokenException",
        "IncompleteSignatureException",
    )
    assert (elsewhere[0], control[0]) == (404, 403)
    assert ssm.refused("list_documents") == ("UnknownOperationException", 400)


@pytest.mark.parametrize(
    ("header", "value"),
    [("Content-Type", "application/json"), ("X-Amz-Target", "SSM.ListCommands")],
)
def test_a_signed_call_of_another_protocol_is_refused(ssm: Ssm, header: str, value: str) -> None:
    def change(request: Any, **_: object) -> None:
        request.headers.replace_header(header, value)

    client = make_client(ssm.server.environment())
    client.meta.events.register("before-sign.ssm.ListCommands", change)

    with pytest.raises(ClientError, match="UnknownOperationException"):
        client.list_commands()
    client.close()


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "InvalidSignatureException"),
        ({"AWS_ACCESS_KEY_ID": "AKIAWRONG"}, "UnrecognizedClientException"),
        ({"AWS_DEFAULT_REGION": "us-east-1"}, "InvalidSignatureException"),
    ],
)
def test_wrong_credentials_are_refused(ssm: Ssm, changed: dict[str, str], code: str) -> None:
    client = make_client({**ssm.server.environment(), **changed})

    with pytest.raises(ClientError, match=code):
        client.list_commands()
    client.close()


def test_another_process_finds_the_server_by_its_environment_and_works_its_switches(ssm: Ssm) -> None:
    since = len(ssm.server.calls_of("SendCommand"))
    remote = Remote.of(ssm.server.environment())
    remote.store({"word": "stored"})
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), **ssm.server.environment()}

    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, FIRST], env=environment, capture_output=True, text=True, check=True
    )

    command = done.stdout.strip()
    assert ssm.until(command)["StandardOutputContent"] == "stored\n"
    assert _log(ssm, since) == ["ThrottlingException", "ok"]
    assert [call["answered"] for call in remote.calls("SendCommand")[since:]] == ["ThrottlingException", "ok"]
    remote.advance(1)
    wait_until(lambda: remote.state()["commands"][command] == {FIRST: "Success/Success"}, "the state is told")
    with pytest.raises(ValueError, match="wicked"):
        remote.faults(next={"SendCommand": ["wicked"]})
