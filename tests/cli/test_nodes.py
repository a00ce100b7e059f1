"""nodes check and nodes add work on the files of this host."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.sshd import SshdFarm
from service.domain.public_key import parse_public_key
from tests.cli.installation import Installation, Someone

pytest_plugins = ["lab.fixtures"]


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "place")


def test_nodes_lists_every_node_of_the_service(ann: Someone) -> None:
    done = ann("nodes", "--json")

    assert [node["name"] for node in json.loads(done.stdout)][:2] == ["n00", "n01"]


def test_check_exits_0_for_a_node_that_is_ready(place: Installation) -> None:
    done = place("nodes", "check", "n00")

    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("n00  ready: ")


def test_check_exits_1_and_says_at_what_a_node_fails(place: Installation) -> None:
    inventory = "nodes: {a: {executor: local, view: boot}, b: {executor: local, view: private}}\n"
    (place.folder / "config" / "inventory.yaml").write_text(inventory)

    done = place("nodes", "check", "--json")

    rows = {row["node"]: (row["ready"], row["failed"]) for row in json.loads(done.stdout)}
    assert (done.returncode, rows) == (1, {"a": (False, "namespaces"), "b": (True, None)})


def test_check_of_an_unknown_node_exits_2(place: Installation) -> None:
    done = place("nodes", "check", "n99")

    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no node n99" in done.stderr


def test_add_prints_the_block_and_writes_nothing(place: Installation) -> None:
    file = place.folder / "config" / "inventory.yaml"
    before = file.read_text()

    done = place("nodes", "add", "gpu-01", "--address", "192.0.2.1", "--pool", "h100", "--attribute", "rack=r7")

    assert done.returncode == 0, done.stderr
    assert "gpu-01:" in done.stdout
    assert "address: 192.0.2.1" in done.stdout
    assert "names no host key" in done.stderr
    assert file.read_text() == before


def test_add_writes_the_node_and_keeps_comments(place: Installation) -> None:
    file = place.folder / "config" / "inventory.yaml"
    file.write_text(f"# ours\n{file.read_text()}")

    done = place("nodes", "add", "here", "--executor", "local", "--write")
    again = place("nodes", "add", "here", "--executor", "local", "--write")

    assert (done.returncode, again.returncode) == (0, 2)
    assert file.read_text().startswith("# ours\n")
    assert "here:" in file.read_text()
    assert "unstick nodes check here" in done.stderr


def test_scan_shows_the_fingerprint_and_writes_only_what_was_confirmed(
    place: Installation, sshd_farm: Callable[..., SshdFarm]
) -> None:
    farm = sshd_farm(1)
    server = farm.servers[0]
    reach = ("--address", server.address, "--port", str(server.port), "--key-file", str(farm.private_key))
    words = ("nodes", "add", "gpu-01", *reach, "--scan", "--write")

    unasked = place(*words)
    confirmed = place(*words, "--yes")
    checked = place("nodes", "check", "gpu-01", "--json")

    row = json.loads(checked.stdout)[0]
    assert (unasked.returncode, confirmed.returncode) == (2, 0), confirmed.stderr
    assert parse_public_key(server.host_key).fingerprint in unasked.stderr
    assert server.host_key in confirmed.stdout
    assert {"reached", "host key", "login"} <= set(row["passed"])


def test_an_address_where_nobody_answers_is_told(place: Installation) -> None:
    done = place("nodes", "add", "gpu-01", "--address", "127.0.0.1", "--port", "9", "--scan", "--yes")

    assert done.returncode == 2
    assert "gpu-01" in done.stderr
    assert "Traceback" not in done.stderr
