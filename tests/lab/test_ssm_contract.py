"""What anybody may rely on at SSM Run Command, said through boto3 alone: the stand-in always, AWS itself on demand.

`UNSTICK_AWS_INSTANCE=i-... pytest -m aws tests/lab/test_ssm_contract.py` runs the same against the account whose
credentials boto3 finds. It sends harmless scripts to that one Linux instance as root.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lab.ssm import Instance, SsmServer
from tests.lab.ssm_support import make_client

AWS_INSTANCE = os.environ.get("UNSTICK_AWS_INSTANCE", "")
NOT_THERE = "i-0fffffffffffffff0"
OVER = ("Success", "Failed", "TimedOut", "Cancelled")
DEADLINE_SECONDS = 120.0
ENDPOINTS: list[Any] = ["stand-in"]
if AWS_INSTANCE:
    ENDPOINTS.append(pytest.param("aws", marks=pytest.mark.aws))


@dataclass(frozen=True)
class Endpoint:
    """A client, an instance it may send to, and how long to wait between two looks."""

    client: Any
    instance: str
    pause: float

    def send(self, *lines: str, timeout: int = 3600, **more: Any) -> str:
        parameters = {"commands": list(lines), "executionTimeout": ["60"], **more.pop("parameters", {})}
        request = {"InstanceIds": [self.instance], "TimeoutSeconds": timeout, "Parameters": parameters, **more}
        answer = self.client.send_command(DocumentName="AWS-RunShellScript", **request)
        return str(answer["Command"]["CommandId"])

    def until(self, command: str, statuses: tuple[str, ...] = OVER) -> dict[str, Any]:
        """Wait for one of the statuses; a new command may not exist yet."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            try:
                found: dict[str, Any] = self.client.get_command_invocation(CommandId=command, InstanceId=self.instance)
            except self.client.exceptions.InvocationDoesNotExist:
                found = {"Status": "not yet"}
            if found["Status"] in statuses:
                return found
            time.sleep(self.pause)
        raise TimeoutError(f"{command} is still {found['Status']}")

    def listed(self, call: str, **request: Any) -> list[dict[str, Any]]:
        """List what a list call has, once it has something."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            answer = getattr(self.client, call)(**request)
            rows: list[dict[str, Any]] = answer["Commands" if call == "list_commands" else "CommandInvocations"]
            if rows:
                return rows
            time.sleep(self.pause)
        raise TimeoutError(f"{call} lists nothing")

    def refused(self, **request: Any) -> str:
        """Send what must be refused; give the error's code."""
        whole = {"DocumentName": "AWS-RunShellScript", "Parameters": {"commands": ["true"]}, **request}
        with pytest.raises(ClientError) as refusal:
            self.client.send_command(**whole)
        return str(refusal.value.response["Error"]["Code"])


@pytest.fixture(scope="module", params=ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    if request.param == "aws":
        yield Endpoint(
            boto3.session.Session().client("ssm", config=Config(retries={"mode": "adaptive"})), AWS_INSTANCE, 1.0
        )
        return
    with SsmServer(pace=20) as server:
        instance = server.add(Instance(id="i-0123456789abcdef0", name="gpu-01", tags={"unstick": "allowed"}))
        client = make_client(server.environment())
        yield Endpoint(client, instance.id, 0.02)
        client.close()


def test_a_script_runs_as_the_agents_child_and_its_output_comes_back(endpoint: Endpoint) -> None:
    command = endpoint.send("echo out", "echo err >&2", 'echo "$AWS_SSM_INSTANCE_ID"')

    ended = endpoint.until(command)

    assert [ended[key] for key in ("Status", "StatusDetails", "ResponseCode")] == ["Success", "Success", 0]
    assert ended["StandardOutputContent"] == f"out\n{endpoint.instance}\n"
    assert (ended["StandardErrorContent"], ended["PluginName"]) == ("err\n", "aws:runShellScript")


def test_only_the_last_exit_code_counts(endpoint: Endpoint) -> None:
    well = endpoint.until(endpoint.send("false", "echo done"))
    badly = endpoint.until(endpoint.send("echo begun", "exit 7"))

    assert (well["Status"], well["ResponseCode"]) == ("Success", 0)
    assert (badly["Status"], badly["StatusDetails"], badly["ResponseCode"]) == ("Failed", "Failed", 7)
    assert badly["StandardErrorContent"].endswith("failed to run commands: exit status 7")


def test_137_is_taken_for_a_timeout(endpoint: Endpoint) -> None:
    ended = endpoint.until(endpoint.send("exit 137"))

    assert [ended[key] for key in ("Status", "StatusDetails", "ResponseCode")] == ["TimedOut", "ExecutionTimedOut", 137]


def test_while_it_runs_there_is_neither_output_nor_an_exit_code(endpoint: Endpoint) -> None:
    command = endpoint.send("echo early", "sleep 60")

    running = endpoint.until(command, ("InProgress",))
    endpoint.client.cancel_command(CommandId=command)
    ended = endpoint.until(command)

    assert (running["StandardOutputContent"], running["ResponseCode"]) == ("", -1)
    assert (ended["Status"], ended["StatusDetails"]) == ("Cancelled", "Cancelled")


def test_output_keeps_its_first_24000_bytes_and_a_suffix(endpoint: Endpoint) -> None:
    command = endpoint.send("echo first", "head -c 30000 /dev/zero | tr '\\0' x", "echo last")

    ended = endpoint.until(command)
    row = endpoint.listed("list_command_invocations", CommandId=command, Details=True)[0]

    output = ended["StandardOutputContent"]
    assert (len(output), output[:7], output[-20:]) == (24_000, "first\nx", "--output truncated--")
    assert "last" not in output
    assert len(row["CommandPlugins"][0]["Output"]) <= 2_500


def test_a_stored_parameters_place_in_a_script_is_never_left_as_it_was(endpoint: Endpoint) -> None:
    ended = endpoint.until(endpoint.send("echo '{{ssm:unstick-does-not-exist}}'"))

    assert (ended["Status"], "{{" in ended["StandardOutputContent"]) == ("Failed", False)


def test_lists_show_the_command_by_its_comment_and_page_with_tokens(endpoint: Endpoint) -> None:
    since = (datetime.now(UTC) - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    comment = f"unstick contract {time.time_ns()}"
    commands = {endpoint.send("true", Comment=comment) for _ in range(2)}
    for command in commands:
        endpoint.until(command)
        endpoint.listed("list_commands", CommandId=command)
    filters = [{"key": "InvokedAfter", "value": since}]

    pages = endpoint.client.get_paginator("list_command_invocations").paginate(
        InstanceId=endpoint.instance, Filters=filters, PaginationConfig={"PageSize": 1}
    )
    rows = [row for page in pages for row in page["CommandInvocations"]]

    assert {row["CommandId"] for row in rows if row["Comment"] == comment} == commands


def test_a_command_tells_how_long_the_service_will_wait(endpoint: Endpoint) -> None:
    command = endpoint.send("true", timeout=40, parameters={"executionTimeout": ["50"]})

    row = endpoint.listed("list_commands", CommandId=command)[0]

    assert (row["ExpiresAfter"] - row["RequestedDateTime"]).total_seconds() == pytest.approx(90)
    assert (row["TargetCount"], row["MaxConcurrency"], row["MaxErrors"]) == (1, "50", "0")


def test_a_token_of_another_list_is_refused(endpoint: Endpoint) -> None:
    for command in [endpoint.send("true") for _ in range(2)]:
        endpoint.until(command)
        endpoint.listed("list_commands", CommandId=command)
    token = endpoint.client.list_commands(MaxResults=1)["NextToken"]

    with pytest.raises(ClientError, match="InvalidNextToken"):
        endpoint.client.list_command_invocations(NextToken=f"{token[:-8]}AAAAAAAA")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"InstanceIds": [NOT_THERE]}, "InvalidInstanceId"),
        ({"InstanceIds": []}, "ValidationException"),
        ({"InstanceIds": ["gpu-node-1"]}, "ValidationException"),
        ({"InstanceIds": [f"i-{number:017x}" for number in range(51)]}, "ValidationException"),
        ({"InstanceIds": [NOT_THERE], "Comment": "x" * 101}, "ValidationException"),
        ({"InstanceIds": [NOT_THERE], "TimeoutSeconds": 2_592_001}, "ValidationException"),
        ({"InstanceIds": [NOT_THERE], "MaxErrors": "101%"}, "ValidationException"),
    ],
    ids=["unknown", "none", "pattern", "51", "comment", "timeout", "errors"],
)
def test_a_request_that_cannot_be_meant_is_refused(endpoint: Endpoint, request_: dict[str, Any], code: str) -> None:
    assert endpoint.refused(**request_) == code


def test_a_request_about_a_known_instance_is_refused_for_what_is_wrong_with_it(endpoint: Endpoint) -> None:
    ids = [endpoint.instance]
    codes = {
        "twice": endpoint.refused(InstanceIds=ids * 2),
        "document": endpoint.refused(InstanceIds=ids, DocumentName="unstick-does-not-exist"),
        "version": endpoint.refused(InstanceIds=ids, DocumentVersion="99"),
        "unknown parameter": endpoint.refused(InstanceIds=ids, Parameters={"commands": ["true"], "nope": ["x"]}),
        "missing parameter": endpoint.refused(InstanceIds=ids, Parameters={}),
        "pattern": endpoint.refused(InstanceIds=ids, Parameters={"commands": ["true"], "executionTimeout": ["soon"]}),
        "size": endpoint.refused(InstanceIds=ids, Parameters={"commands": ["x" * 100_000]}),
    }

    assert codes == {
        "twice": "DuplicateInstanceId",
        "document": "InvalidDocument",
        "version": "InvalidDocumentVersion",
        "unknown parameter": "InvalidParameters",
        "missing parameter": "InvalidParameters",
        "pattern": "InvalidParameters",
        "size": "MaxDocumentSizeExceeded",
    }


def test_the_hash_of_a_document_pins_its_text(endpoint: Endpoint) -> None:
    document = endpoint.client.describe_document(Name="AWS-RunShellScript")["Document"]
    pin = {"DocumentHash": document["Hash"], "DocumentHashType": document["HashType"]}

    ended = endpoint.until(endpoint.send("true", **pin))
    refused = endpoint.refused(InstanceIds=[endpoint.instance], **{**pin, "DocumentHash": "0" * 64})

    assert (ended["Status"], refused) == ("Success", "InvalidDocument")


def test_the_instance_is_listed_with_its_ping(endpoint: Endpoint) -> None:
    found = endpoint.client.describe_instance_information(
        Filters=[{"Key": "InstanceIds", "Values": [endpoint.instance]}]
    )["InstanceInformationList"]

    assert [(row["InstanceId"], row["PingStatus"], row["PlatformType"]) for row in found] == [
        (endpoint.instance, "Online", "Linux")
    ]


def test_what_was_never_sent_does_not_exist(endpoint: Endpoint) -> None:
    never = {"CommandId": "11111111-2222-3333-4444-555555555555"}

    with pytest.raises(ClientError, match="InvocationDoesNotExist"):
        endpoint.client.get_command_invocation(**never, InstanceId=endpoint.instance)
    with pytest.raises(ClientError, match="InvalidCommandId"):
        endpoint.client.cancel_command(**never)
