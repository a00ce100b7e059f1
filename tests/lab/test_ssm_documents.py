"""Documents, parameters and output of the stand-in follow AWS's rules."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.ssm.documents import RUN_SHELL_SCRIPT, Documents, read
from lab.ssm.errors import Refusal
from lab.ssm.output import cut, short
from lab.ssm.parameters import NotStored, fill, given, resolve
from lab.ssm.player import timeout_seconds
from lab.ssm.shapes import check_answer, check_request
from tests.lab.ssm_support import FIRST, Ssm, running

TWO_STEPS = {
    "schemaVersion": "2.2",
    "parameters": {"word": {"type": "String", "allowedPattern": "[a-z]+", "maxChars": 8}},
    "mainSteps": [
        {"action": "aws:runShellScript", "name": "first", "inputs": {"runCommand": ["echo 1 {{ word }}; exit 3"]}},
        {
            "action": "aws:runShellScript",
            "name": "onlyWindows",
            "precondition": {"StringEquals": ["platformType", "Windows"]},
            "inputs": {"runCommand": ["echo never"]},
        },
        {"action": "aws:runShellScript", "name": "second", "inputs": {"runCommand": ["echo 2 {{word}}", "exit 168"]}},
        {"action": "aws:runShellScript", "name": "third", "inputs": {"runCommand": ["echo 3"]}},
    ],
}


@pytest.fixture(scope="module")
def ssm() -> Iterator[Ssm]:
    with running() as ssm:
        yield ssm


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"x" * 23_999, "x" * 23_999),
        (b"x" * 24_000, "x" * 23_980 + "--output truncated--"),
        ("é".encode() * 12_000, "é" * 11_990 + "--output truncated--"),
        (b"x" + "é".encode() * 12_000, "x" + "é" * 11_989 + "\ufffd--output truncated--"),
    ],
    ids=["under", "at", "characters", "half a character"],
)
def test_a_stream_is_cut_at_bytes_and_stays_text(data: bytes, kept: str) -> None:
    assert cut(data, 24_000) == kept


@pytest.mark.parametrize(
    ("stdout", "stderr", "kept"),
    [
        (b"out", b"", "out"),
        (b"out", b"err", "out\n----------ERROR-------\nerr"),
        (b"o" * 5_000, b"", "o" * 2_477 + "\n---Output truncated---"),
        (b"o" * 5_000, b"e", "o" * 2_452 + "\n---Output truncated---\n----------ERROR-------\ne"),
        (b"o", b"e" * 5_000, "o\n----------ERROR-------\n" + "e" * 2_452 + "\n---Error truncated----"),
    ],
    ids=["one", "both", "output", "output and a little error", "error"],
)
def test_a_list_shows_2500_bytes_of_both_streams(stdout: bytes, stderr: bytes, kept: str) -> None:
    assert short(stdout, stderr) == kept


def test_values_are_set_in_once_and_a_doubled_dollar_is_halved_only_inside_a_text() -> None:
    tree = {"alone": "{{ lines }}", "inside": ["a {{word}} b {{ word }} c {{ other }}"], "number": 3}

    filled = fill(tree, {"lines": ["$$", "{{ word }}"], "word": "$$x {{ lines }}"})

    assert filled == {
        "alone": ["$$", "{{ word }}"],
        "inside": ["a $x {{ lines }} b $x {{ lines }} c {{ other }}"],
        "number": 3,
    }


def test_stored_parameters_are_set_in_anywhere_and_a_missing_one_fails_the_whole() -> None:
    stored = {"/a/b.c": "1", "word": "2"}

    assert resolve(["{{ssm:/a/b.c}} {{ ssm:word }} {{ssm:word:7}} {{ ssm: word }}"], stored) == [
        "1 2 2 {{ ssm: word }}"
    ]
    with pytest.raises(NotStored, match=r"\[nope\]"):
        resolve({"x": ["{{ssm:word}} {{ssm:nope}}"]}, stored)


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"commands": ["true"], "other": ["x"]}, "Parameter other is not defined"),
        ({}, "Parameter commands is required"),
        ({"commands": []}, "commands has 0 items"),
        ({"commands": ["true"], "workingDirectory": ["a", "b"]}, "workingDirectory is a String and takes exactly one"),
        ({"commands": ["true"], "workingDirectory": ["x" * 4097]}, "workingDirectory has 4097 characters"),
        ({"commands": ["true"], "executionTimeout": ["172801"]}, "executionTimeout failed to satisfy the pattern"),
        ({"commands": ["true"], "executionTimeout": ["0"]}, "executionTimeout failed to satisfy the pattern"),
    ],
)
def test_parameters_that_the_document_does_not_allow_are_refused(sent: dict[str, list[str]], words: str) -> None:
    with pytest.raises(Refusal, match=f"InvalidParameters: .*{words}"):
        given(RUN_SHELL_SCRIPT["parameters"], sent, {})


@pytest.mark.parametrize(
    ("wanted", "seconds"),
    [
        ("60", 60),
        ("5", 5),
        ("4", 3600),
        ("172800", 172_800),
        ("172801", 3600),
        ("9.7", 9),
        ("soon", 3600),
        (None, 3600),
    ],
)
def test_a_timeout_out_of_bounds_becomes_an_hour(wanted: object, seconds: int) -> None:
    assert timeout_seconds(wanted) == seconds


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("no json", "InvalidDocumentContent"),
        ("[]", "InvalidDocumentContent"),
        (json.dumps({"schemaVersion": "0.3"}), "InvalidDocumentSchemaVersion"),
        (json.dumps({"schemaVersion": "2.2", "mainSteps": []}), "InvalidDocumentContent"),
        (json.dumps({"schemaVersion": "2.2", "mainSteps": [{"action": "aws:runX"}]}), "InvalidDocumentContent"),
        (json.dumps({**TWO_STEPS, "description": "x" * 65_536}), "MaxDocumentSizeExceeded"),
    ],
)
def test_a_document_that_is_not_one_is_refused(content: str, code: str) -> None:
    with pytest.raises(Refusal) as refusal:
        read(content, "JSON", number=1, now=0.0)

    assert refusal.value.code == code


def test_a_new_version_has_another_hash_and_the_old_pin_still_names_the_old_text() -> None:
    documents = Documents(0.0)
    document = documents.create("unstick-run", json.dumps(TWO_STEPS))
    changed = json.dumps({**TWO_STEPS, "description": "changed"})

    documents.update("unstick-run", changed)

    hashes = [document.version(wanted).hash() for wanted in ("1", "2", "$LATEST", None)]
    first, second = (hashlib.sha256(text.encode()).hexdigest() for text in (json.dumps(TWO_STEPS), changed))
    assert hashes == [first, second, second, second]
    with pytest.raises(Refusal, match="InvalidDocumentVersion"):
        document.version("3")


def test_a_document_of_our_own_is_played_step_by_step_and_read_by_step(ssm: Ssm) -> None:
    ssm.client.create_document(Name="unstick-two", Content=json.dumps(TWO_STEPS), DocumentType="Command")
    pin = ssm.client.describe_document(Name="unstick-two")["Document"]
    parameters = {"Parameters": {"word": ["abc"]}, "DocumentHash": pin["Hash"], "DocumentHashType": "Sha256"}

    command = ssm.send(document="unstick-two", **parameters)
    ssm.until(command, PluginName="third")
    seen = {step: ssm.see(command, PluginName=step) for step in ("first", "onlyWindows", "second", "third")}

    assert {name: (row["Status"], row["ResponseCode"], row["StandardOutputContent"]) for name, row in seen.items()} == {
        "first": ("Failed", 3, "1 abc\n"),
        "onlyWindows": ("Success", 0, ""),
        "second": ("Success", 168, "2 abc\n"),
        "third": ("Success", 0, ""),
    }
    assert ssm.refused("get_command_invocation", CommandId=command, InstanceId=FIRST) == ("InvalidPluginName", 400)
    assert ssm.command(command)["Status"] == "Failed"


def test_stored_parameters_really_change_a_script_that_is_sent_in_plain_text(ssm: Ssm) -> None:
    ssm.server.store({"word": "from the store; echo and more"})

    ended = ssm.until(ssm.send("echo {{ssm:word}}"))

    assert ended["StandardOutputContent"] == "from the store\nand more\n"


def test_an_unknown_stored_parameter_fails_the_document_on_the_agent(ssm: Ssm) -> None:
    command = ssm.send("echo {{ssm:nope}}")

    ended = ssm.until(command)

    row = ssm.client.list_command_invocations(CommandId=command)["CommandInvocations"]
    assert (ended["Status"], ended["ResponseCode"], ended["StandardOutputContent"]) == ("Failed", 1, "")
    assert [each["TraceOutput"] for each in row] in ([], ["Input contains invalid parameters [nope]"])


@pytest.mark.parametrize(
    ("operation", "request_", "place"),
    [
        ("SendCommand", {"DocumentName": "ab"}, "documentName"),
        ("SendCommand", {}, "documentName"),
        ("SendCommand", {"DocumentName": "abc", "TimeoutSeconds": 29}, "timeoutSeconds"),
        ("SendCommand", {"DocumentName": "abc", "MaxConcurrency": "0"}, "maxConcurrency"),
        ("SendCommand", {"DocumentName": "abc", "InstanceIds": ["i-1"]}, "instanceIds.1.member"),
        ("SendCommand", {"DocumentName": "abc", "Targets": [{"Key": "x"}] * 6}, "targets"),
        ("ListCommands", {"MaxResults": 51}, "maxResults"),
        ("ListCommands", {"Filters": [{"key": "Color", "value": "x"}]}, "filters.1.member.key"),
        ("DescribeInstanceInformation", {"MaxResults": 4}, "maxResults"),
        ("GetCommandInvocation", {"CommandId": "x", "InstanceId": FIRST}, "commandId"),
    ],
)
def test_a_request_against_the_model_is_refused_with_the_place(
    operation: str, request_: dict[str, Any], place: str
) -> None:
    with pytest.raises(Refusal, match=f"ValidationException: 1 validation error detected: .* at '{place}' failed"):
        check_request(operation, request_)


def test_a_value_of_another_type_is_no_request() -> None:
    with pytest.raises(Refusal, match="SerializationException"):
        check_request("SendCommand", {"DocumentName": "abc", "TimeoutSeconds": "30"})


def test_an_answer_against_the_model_never_leaves() -> None:
    with pytest.raises(ValueError, match=r"'command\.status'.*'command\.color'"):
        check_answer("SendCommand", {"Command": {"Status": "Delayed", "Color": "red"}})
