"""Nodes that AWS reaches: by the id of one instance, never by a name."""

from pathlib import Path

import pytest

from service.domain.errors import ConfigInvalid
from service.domain.node import Endpoint, ExecutorKind, Node
from service.inventory.build import build_inventory
from service.inventory.edit import render_node

HYBRID = "mi-0123456789abcdef0"
DIGEST = "0123456789abcdef" * 4


def build(text: str) -> dict[str, Node]:
    return dict(build_inventory(text, "inventory.yaml", folder=Path("/etc/unstick")).nodes)


def reason(words: str) -> str:
    with pytest.raises(ConfigInvalid) as refused:
        build(f"nodes: {{gpu-01: {{executor: ssm, {words}}}}}")
    return str(refused.value)


def test_an_instance_is_named_by_its_id_in_either_word() -> None:
    nodes = build(f"""
nodes:
  gpu-01: {{executor: ssm, instance: i-0123456789abcdef0}}
  gpu-02: {{executor: ssm, address: i-01234567}}
  gpu-03: {{executor: ssm, instance: {HYBRID}, region: eu-central-1, profile: gpu, document: unstick-run,
            document_hash: {DIGEST}}}
  i-0123456789abcdef9: {{executor: ssm}}
""")

    assert {name: node.endpoint for name, node in nodes.items()} == {
        "gpu-01": Endpoint("gpu-01", ExecutorKind.SSM, "i-0123456789abcdef0"),
        "gpu-02": Endpoint("gpu-02", ExecutorKind.SSM, "i-01234567"),
        "gpu-03": Endpoint(
            "gpu-03",
            ExecutorKind.SSM,
            HYBRID,
            region="eu-central-1",
            profile="gpu",
            document="unstick-run",
            document_hash=DIGEST,
        ),
        "i-0123456789abcdef9": Endpoint("i-0123456789abcdef9", ExecutorKind.SSM, "i-0123456789abcdef9"),
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("instance: gpu-node-1", "`gpu-node-1` is no id of an instance, and a name may mean several. Write `instance:"),
        ("address: 192.0.2.1", "`192.0.2.1` is no id of an instance"),
        ("pools: [a]", "`gpu-01` is no id of an instance"),
        ("instance: i-01234567, address: i-01234567", "`instance` and `address` say the same; keep one."),
        ("instance: i-01234567, user: root", "`user` says nothing with `executor: ssm`; remove it."),
        ("instance: i-01234567, become: sudo", "`become` says nothing with `executor: ssm`; remove it."),
        ("instance: i-01234567, view: private", "`view: private` is for `executor: local` only."),
        ("instance: i-01234567, region: Frankfurt", "`Frankfurt` is no region; write it as in `us-east-1`."),
        ("instance: i-01234567, document: a b", "`a b` is no name of an SSM document."),
        ("instance: i-01234567, document_hash: abc", "it is the SHA-256 that `aws ssm describe-document` shows"),
    ],
)
def test_what_aws_would_refuse_is_refused_before_any_call(words: str, expected: str) -> None:
    assert expected in reason(words)


def test_words_of_aws_are_refused_where_ssh_reaches_the_node() -> None:
    with pytest.raises(ConfigInvalid, match="`region` says nothing with `executor: ssh`"):
        build("nodes: {gpu-01: {executor: ssh, region: eu-central-1}}")


def test_two_names_for_one_instance_are_one_machine() -> None:
    with pytest.raises(ConfigInvalid, match="`gpu-02` and `gpu-01` are one machine: both are ssm i-01234567"):
        build("nodes: {gpu-01: {executor: ssm, instance: i-01234567}, gpu-02: {executor: ssm, instance: i-01234567}}")


def test_a_block_that_is_written_for_a_node_is_read_as_the_same_node() -> None:
    endpoint = Endpoint("gpu-01", ExecutorKind.SSM, "i-01234567", region="eu-central-1", document="unstick-run")

    nodes = build(render_node(Node("gpu-01", endpoint)))

    assert nodes["gpu-01"].endpoint == endpoint
