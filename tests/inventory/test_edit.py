from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from service.domain.errors import ConfigInvalid, Conflict
from service.domain.node import Become, Endpoint, ExecutorKind, Login, Node
from service.inventory.edit import append_node, refuse_taken, render_node
from service.inventory.file import load_inventory

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAabAeDOvM2SGPZmqnMcLi3bdLqiXmbUHiZDYqNk1ExP"

NODE = Node("gpu-09", Endpoint("gpu-09", ExecutorKind.SSH, "192.0.2.9", host_keys=(KEY,)), pools=("h100",))

FILE = dedent("""\
    # Who is on call changes this file.
    nodes:
      gpu-01:   # the oldest one
        executor: ssh
        address: 192.0.2.1   # rack 7
        host_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
        pools:
          - h100
      "gpu[02-04]": {executor: ssh, pools: [h100, 'new']}
      # more come in March

    controllers:
      k8s-a: {executor: local, env: {KUBECONFIG: /etc/kube}}   # the cluster
    """)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "inventory.yaml"
    path.write_text(FILE)
    return path


def test_a_new_node_is_written_and_every_other_line_stays(path: Path) -> None:
    append_node(path, NODE)

    lines = path.read_text().splitlines()
    assert [line for line in FILE.splitlines() if line not in lines] == []
    assert load_inventory(path).nodes["gpu-09"] == NODE
    assert len(load_inventory(path).nodes) == 5


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    path = tmp_path / "config" / "inventory.yaml"

    append_node(path, NODE)

    assert load_inventory(path).nodes == {"gpu-09": NODE}


@pytest.mark.parametrize("name", ["gpu-01", "gpu03"])
def test_a_name_that_is_taken_is_refused_also_inside_a_set(path: Path, name: str) -> None:
    before = path.read_text()
    taken = Node(name, Endpoint(name, ExecutorKind.SSH, "192.0.2.77"))

    with pytest.raises(Conflict, match=f"`{name}` is in .* already"):
        append_node(path, taken)
    with pytest.raises(Conflict, match=f"`{name}` is in .* already"):
        refuse_taken(path, name)

    assert path.read_text() == before


def test_a_name_that_is_one_of_a_set_is_refused_with_the_set(path: Path) -> None:
    with pytest.raises(Conflict) as refused:
        append_node(path, Node("gpu03", Endpoint("gpu03", ExecutorKind.SSH, "192.0.2.77")))

    assert refused.value.reason == f"`gpu03` is in {path} already, as one of `gpu[02-04]`."
    assert refused.value.way_out.startswith("Edit all of them there, or take gpu03 out of the set first")


def test_a_machine_that_has_a_name_already_is_refused(path: Path) -> None:
    same = Node("gpu-99", Endpoint("gpu-99", ExecutorKind.SSH, "192.0.2.1"))

    with pytest.raises(Conflict, match="`gpu-99` and `gpu-01` are one machine"):
        append_node(path, same)

    assert path.read_text() == FILE


def test_a_file_that_is_wrong_is_not_touched(path: Path) -> None:
    path.write_text("nodes: {a: {executor: shs}}")

    with pytest.raises(ConfigInvalid, match=r"inventory\.yaml:1: `executor`"):
        append_node(path, NODE)

    assert path.read_text() == "nodes: {a: {executor: shs}}"


def test_the_block_has_what_differs_from_the_defaults_and_reads_back(tmp_path: Path) -> None:
    jump = Endpoint("192.0.2.254", ExecutorKind.SSH, "192.0.2.254", user="hop", key_file="/k", host_keys=(KEY,))
    endpoint = Endpoint(
        "gpu-10",
        ExecutorKind.SSH,
        "192.0.2.10",
        port=2222,
        user="unstick",
        key_file="/keys/id",
        host_keys=(KEY, OTHER_KEY),
        jump=jump,
        become=Become.SUDO,
        login=Login.SYSTEM,
    )
    node = Node("gpu-10", endpoint, ("a",), None, {"k8s_name": "x"})

    block = render_node(node)

    (tmp_path / "inventory.yaml").write_text(block)
    assert load_inventory(tmp_path / "inventory.yaml").nodes == {"gpu-10": node}
    assert "view" not in block


@pytest.mark.parametrize(
    ("jump", "expected"),
    [("gpu-01", "    jump: gpu-01\n"), ("gpu02", "    jump:\n      address: gpu02\n")],
    ids=["as it stands there", "another than stands there"],
)
def test_a_jump_host_that_is_a_node_is_written_by_its_name(path: Path, jump: str, expected: str) -> None:
    there = load_inventory(path).nodes
    endpoint = there["gpu-01"].endpoint if jump == "gpu-01" else Endpoint(jump, ExecutorKind.SSH, jump, port=2222)
    node = Node("gpu-09", Endpoint("gpu-09", ExecutorKind.SSH, "192.0.2.9", jump=endpoint))

    append_node(path, node)

    assert expected in path.read_text()
    assert load_inventory(path).nodes["gpu-09"] == node


def test_writers_at_the_same_time_lose_no_node(path: Path) -> None:
    nodes = [
        Node(f"n{number}", Endpoint(f"n{number}", ExecutorKind.SSH, f"192.0.2.{number}")) for number in range(20, 28)
    ]

    with ThreadPoolExecutor(len(nodes)) as threads:
        list(threads.map(lambda node: append_node(path, node), nodes))

    assert set(load_inventory(path).nodes) == {"gpu-01", "gpu02", "gpu03", "gpu04", *(node.name for node in nodes)}


def test_the_rights_of_the_file_stay(path: Path) -> None:
    path.chmod(0o640)

    append_node(path, NODE)

    assert path.stat().st_mode & 0o7777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["inventory.yaml"]
