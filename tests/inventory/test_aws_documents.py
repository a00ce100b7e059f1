"""The files for AWS under docs: rights, and the document that takes the place of AWS-RunShellScript."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from lab.ssm import Instance
from service.domain.node import Endpoint, ExecutorKind
from service.executors.ssm import wire
from tests.inventory.sources import instance
from tests.lab.ssm_support import running

ROOT = Path(__file__).parents[2]
IAM = ROOT / "docs" / "iam"
DOCUMENT = ROOT / "docs" / "ssm-documents" / "unstick-run.json"
SUMS = DOCUMENT.with_name("SHA256SUMS")
NODE = Endpoint("gpu-01", ExecutorKind.SSM, instance(1))
POLICIES = sorted(IAM.glob("*.json"))
#: The agent calls it, and the public model has it not (amazon-ssm-agent, agent/ssm/service.go).
AGENTS_OWN = {"UpdateInstanceInformation"}
#: Where each operation of AWS is called; CreateDocument and the like are a person's.
CALLED = re.compile(r"\.(?:act|look)\(\s*\"([a-z_]+)\"|get_paginator\(\"([a-z_]+)\"")


def statements(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((IAM / name).read_text())["Statement"]
    return found


def actions(statement: dict[str, Any]) -> set[str]:
    given = statement["Action"]
    return {given} if isinstance(given, str) else set(given)


def called() -> set[str]:
    """Return the operations of SSM that the service calls, as AWS names them."""
    files = [*(ROOT / "service" / "executors" / "ssm").glob("*.py"), ROOT / "service" / "inventory" / "ssm.py"]
    found = {name for file in files for match in CALLED.findall(file.read_text()) for name in match if name}
    return {f"ssm:{''.join(part.capitalize() for part in name.split('_'))}" for name in found}


def escaped(text: str) -> str:
    """Return a text as a regular expression of any dialect."""
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


def pattern() -> str:
    """Return what both forms of the executor's line match, and nothing else: only ids and the packed script vary."""
    one = escaped(wire.for_one(b"", attempt_id="ATTEMPT", endpoint=NODE))
    many = escaped(wire.for_many(b"", attempts={"INSTANCE": "ATTEMPT"}, endpoint=NODE))
    packed = re.compile("printf %s '[A-Za-z0-9\\\\+/=]+'")
    attempt = "[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
    forms = []
    for form in (one, many):
        fixed = packed.sub(lambda _found: "printf %s '[A-Za-z0-9+/]{1,60000}={0,2}'", form)
        fixed = fixed.replace(r"INSTANCE\) id=ATTEMPT;;", r"(m?i-[0-9a-z]{8,17}\) id=ATTEMPT;; ?){1,50}")
        forms.append(fixed.replace("ATTEMPT", attempt).replace("{1,50} ", "{1,50}"))
    return f"^({'|'.join(forms)})$"


@pytest.mark.parametrize("file", POLICIES, ids=lambda file: file.stem)
def test_a_policy_has_the_form_of_one_and_names_actions_that_exist(file: Path) -> None:
    policy = json.loads(file.read_text())
    known = set(botocore.session.get_session().get_service_model("ssm").operation_names)

    assert (set(policy), policy["Version"]) == ({"Version", "Statement"}, "2012-10-17")
    for statement in policy["Statement"]:
        target = "Principal" if "Principal" in statement else "Resource"
        assert set(statement) - {"Condition"} == {"Sid", "Effect", "Action", target}
        assert re.fullmatch("[A-Za-z0-9]+", statement["Sid"])
        assert statement["Effect"] in ("Allow", "Deny")
        for action in actions(statement):
            service, _, name = action.partition(":")
            assert service in ("ssm", "ssmmessages", "ec2messages", "sts")
            assert re.fullmatch("[A-Z][A-Za-z]+", name), "no pattern stands for several actions"
            assert service != "ssm" or name in known | AGENTS_OWN


@pytest.mark.parametrize("name", ["service.json", "service-run-shell-script.json"])
def test_the_service_may_do_what_it_calls_and_nothing_else(name: str) -> None:
    allowed = set().union(*(actions(one) for one in statements(name) if one["Effect"] == "Allow"))

    assert allowed == called()


@pytest.mark.parametrize("name", ["service.json", "service-run-shell-script.json"])
def test_commands_go_to_marked_instances_only(name: str) -> None:
    sending = [one for one in statements(name) if "ssm:SendCommand" in actions(one) and one["Effect"] == "Allow"]

    for statement in sending:
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        to_instances = all("instance/" in resource for resource in resources)
        assert to_instances or all(":document/" in resource for resource in resources)
        assert to_instances == (statement.get("Condition") == {"StringEquals": {"ssm:resourceTag/unstick": "allowed"}})


def test_with_own_documents_those_of_aws_are_denied() -> None:
    (deny,) = [one for one in statements("service.json") if one["Effect"] == "Deny"]

    assert (deny["Action"], deny["Resource"]) == ("ssm:SendCommand", "arn:aws:ssm:*:*:document/AWS-*")


def test_a_node_reads_no_parameters_and_no_buckets() -> None:
    allowed = set().union(*(actions(one) for one in statements("node.json")))

    assert not {one for one in allowed if "Parameter" in one or one.startswith("s3:")}


def test_the_sums_are_those_of_the_documents() -> None:
    lines = [line.split("  ") for line in SUMS.read_text().splitlines()]
    sums = {name: digest for digest, name in lines}

    assert sums == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in DOCUMENT.parent.glob("*.json")}


def test_the_document_takes_the_executors_lines_and_no_others() -> None:
    parameters = json.loads(DOCUMENT.read_text())["parameters"]

    assert parameters["commands"]["allowedPattern"] == pattern()


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with running(Instance(instance(1)), pace=0) as ssm:
        ssm.server.documents.create("unstick-run", DOCUMENT.read_text())
        yield ssm


def request(line: str, seconds: str = "85", digest: str | None = None) -> dict[str, Any]:
    return {
        "DocumentName": "unstick-run",
        "DocumentHash": digest or SUMS.read_text().split()[0],
        "DocumentHashType": "Sha256",
        "InstanceIds": [instance(1)],
        "Parameters": {"commands": [line], "executionTimeout": [seconds]},
    }


def lines() -> list[str]:
    attempts = {instance(number): f"0198c3a2-7d4e-7c11-9a65-{number:012}" for number in range(1, 51)}
    one = wire.for_one(bytes(range(256)) * 100, attempt_id="0198c3a2-7d4e-7c11-9a65-3f1f6f0b2c10", endpoint=NODE)
    return [one, wire.for_many(b"# packed", attempts=attempts, endpoint=NODE)]


def test_the_stand_in_accepts_what_the_executor_sends(server: Any) -> None:
    statuses = [server.client.send_command(**request(line))["Command"]["Status"] for line in lines()]

    assert statuses == ["Pending", "Pending"]


@pytest.mark.parametrize(
    "change",
    [
        lambda line: "id",
        lambda line: f"{line}; id",
        lambda line: f"id; {line}",
        lambda line: line.replace("exit 0", "id", 1),
        lambda line: line.replace("| base64 -d", "'$(id)' | base64 -d", 1),
        lambda line: f"{line}\nid",
    ],
)
def test_any_other_line_is_refused(server: Any, change: Any) -> None:
    for line in lines():
        assert server.refused("send_command", **request(change(line)))[0] == "InvalidParameters"


def test_a_longer_time_or_another_version_is_refused(server: Any) -> None:
    line = lines()[0]

    assert server.refused("send_command", **request(line, seconds="3600"))[0] == "InvalidParameters"
    assert server.refused("send_command", **request(line, digest="0" * 64))[0] == "InvalidDocument"
