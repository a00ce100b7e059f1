"""doctor says what a login would say, before anybody logs in."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.ssm import Instance, SsmServer
from tests.cli.installation import Installation
from tests.executors.ssh.sshd import make_key


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


@pytest.mark.parametrize("kind", ["none", "passphrase", "folder", "public key"])
def test_doctor_says_of_a_key_what_a_check_of_its_node_would(place: Installation, kind: str) -> None:
    place("migrate")
    key = make_key(place.folder / "config" / "id")
    node = "executor: ssh, address: 192.0.2.1"
    match kind:
        case "none":
            said = "No key file is set for gpu-01."
        case "passphrase":
            command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "hunter2", "-f", str(key)]
            subprocess.run(command, check=True, timeout=60)
            said = "is encrypted with a passphrase."
        case "folder":
            key = place.folder / "config"
            said = "is a folder."
        case _:
            key = key.with_suffix(".pub")
            said = "holds a public key."
    node += "" if kind == "none" else f", key_file: {key}"
    (place.folder / "config" / "inventory.yaml").write_text(f"nodes: {{gpu-01: {{{node}}}}}\n")

    done = place("doctor")

    assert (done.returncode, "chmod 600" in done.stdout) == (1, False)
    assert "BAD   Nobody can log in to gpu-01. " in done.stdout
    assert said in done.stdout


GPU_01, GPU_02 = "i-00000000000000001", "i-00000000000000002"


@pytest.fixture
def aws() -> Iterator[SsmServer]:
    with SsmServer(pace=0) as server:
        server.add(Instance(GPU_01))
        yield server


def on_aws(place: Installation, *, region: str = "") -> None:
    place("migrate")
    nodes = "".join(
        f"  {name}: {{executor: ssm, instance: {instance}{region}}}\n"
        for name, instance in (("gpu-01", GPU_01), ("gpu-02", GPU_02))
    )
    (place.folder / "config" / "inventory.yaml").write_text(f"nodes:\n{nodes}")


def test_doctor_says_what_aws_knows_of_the_instances_and_which_it_does_not_manage(
    place: Installation, aws: SsmServer
) -> None:
    on_aws(place)

    first = place("doctor", env=aws.environment())
    aws.add(Instance(GPU_02))
    second = place("doctor", env=aws.environment())

    region = aws.environment()["AWS_DEFAULT_REGION"]
    known = f"good  AWS in {region}: credentials (env) are found, SSM answers and manages {{}} of 2 machines"
    assert (first.returncode, second.returncode) == (1, 0), second.stdout
    assert known.format(1) in first.stdout
    assert f"BAD   SSM in {region} does not manage gpu-02 ({GPU_02})." in first.stdout
    assert known.format(2) in second.stdout
    assert {call.operation for call in aws.calls} == {"DescribeInstanceInformation"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"AWS_DEFAULT_REGION": ""}, "AWS was not asked for its instances. No region is set."),
        (
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": ""},
            "AWS was not asked for its instances. No credentials are found.",
        ),
        ({"AWS_SECRET_ACCESS_KEY": "another"}, "SSM did not answer: InvalidSignatureException: "),
        ({"AWS_ENDPOINT_URL_SSM": "http://127.0.0.1:9"}, "SSM did not answer: Could not connect to the endpoint URL"),
    ],
)
def test_where_doctor_cannot_look_at_aws_it_says_so_and_does_not_call_it_good(
    place: Installation, aws: SsmServer, change: dict[str, str], said: str
) -> None:
    on_aws(place)
    # Without a machine of AWS nobody answers where a role's credentials are asked for.
    env = {**aws.environment(), "AWS_EC2_METADATA_DISABLED": "true", **change}

    done = place("doctor", env={name: value for name, value in env.items() if value})

    assert done.returncode == 1
    assert f"BAD   AWS was not asked for its instances. {said.partition('instances. ')[2] or said}" in done.stdout
    assert "good  AWS" not in done.stdout


def test_doctor_asks_the_account_of_a_source_in_its_own_region(place: Installation, aws: SsmServer) -> None:
    place("migrate")
    source = "fleet: {kind: ssm, node: {executor: ssm, region: eu-central-1}}"
    (place.folder / "config" / "inventory.yaml").write_text(f"node_sources: {{{source}}}\n")

    done = place("doctor", env=aws.environment())

    assert (
        "good  AWS in eu-central-1: credentials (env) are found, SSM answers and manages 1 of 1 machines" in done.stdout
    )


def test_doctor_looks_at_the_policy_too_and_at_pools_that_no_node_is_in(place: Installation) -> None:
    place("migrate")
    config = place.folder / "config"
    (config / "inventory.yaml").write_text("nodes: {here: {executor: local, pools: [h100]}}\n")
    policy = "freezes: [{name: weekend, days: [fri], lasts: 60h, pools: [h10]}]\noccupants: {jobs: 1, only_for: [a]}\n"
    (config / "policy.yaml").write_text(policy)

    pools = place("doctor")
    (config / "policy.yaml").write_text(policy.replace("[fri]", "[friday]"))
    wrong = place("doctor")

    assert (pools.returncode, wrong.returncode) == (1, 1)
    assert "BAD   The freeze weekend of policy.yaml names the pool h10, and no node is in it." in pools.stdout
    assert "      Do you mean h100?" in pools.stdout
    assert "BAD   `occupants` of policy.yaml names the pool a, and no node is in it." in pools.stdout
    assert "      The pools are: h100." in pools.stdout
    assert "policy.yaml: at most 3 nodes at once, 10 % of a pool, 1 freezes" in pools.stdout
    assert "policy.yaml:1: `freezes.0.days.0` " in wrong.stdout
