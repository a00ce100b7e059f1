"""nodes check and nodes add work on the files of this host."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.sshd import SshdFarm
from service.domain.node import Endpoint, ExecutorKind
from service.domain.public_key import parse_public_key
from service.inventory.file import load_inventory
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

    done = place("nodes", "add", "gpu-01", "--address", "192.0.2.1", "--key-file", "id", "--attribute", "rack=r7")

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


@pytest.mark.parametrize(("typed", "code"), [("y\nyes\n", 0), ("y\ny\n", 2), ("no\n", 2)])
def test_only_the_whole_word_confirms_a_fingerprint_and_it_is_asked_for_once_more(
    place: Installation, sshd_farm: Callable[..., SshdFarm], typed: str, code: int
) -> None:
    farm = sshd_farm(1)
    server = farm.servers[0]
    reach = ("--address", server.address, "--port", str(server.port), "--key-file", str(farm.private_key))

    someone = Someone(place, "http://127.0.0.1:9", "")
    done, screen = someone.on_terminal("nodes", "add", "gpu-01", *reach, "--scan", answer=typed)

    assert done == code, screen
    assert ("Type the whole word yes if it is, or no: " in screen) == typed.startswith("y")


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
CA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAabAeDOvM2SGPZmqnMcLi3bdLqiXmbUHiZDYqNk1ExP"


def test_add_takes_a_jump_host_a_certificate_and_a_host_authority(place: Installation) -> None:
    file = place.folder / "config" / "inventory.yaml"
    file.write_text(f"nodes:\n  bastion: {{executor: ssh, address: 192.0.2.254, host_key: {KEY}}}\n")
    words = ("--jump", "bastion", "--key-file", "id", "--certificate-file", "id-cert.pub", "--host-ca", f"{CA} ours")

    done = place("nodes", "add", "gpu-01", *words, "--write")

    assert (done.returncode, done.stderr) == (
        0,
        "Written to config/inventory.yaml. Next: unstick nodes check gpu-01\n",
    )
    assert done.stdout == (
        "nodes:\n"
        "  gpu-01:\n"
        "    executor: ssh\n"
        f"    key_file: {place.folder}/id\n"
        f"    certificate_file: {place.folder}/id-cert.pub\n"
        f"    host_ca: {CA}\n"
        "    jump: bastion\n"
    )
    nodes = load_inventory(file).nodes
    assert nodes["gpu-01"].endpoint.jump == nodes["bastion"].endpoint
    assert nodes["gpu-01"].endpoint.host_authorities == (CA,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--jump", "bastion"),
            "The jump host bastion is no node that is reached by SSH.\n`unstick nodes add` adds one.\n",
        ),
        (("--jump", "n00"), "The jump host n00 is no node that is reached by SSH.\n`unstick nodes add` adds one.\n"),
        (
            (),
            (
                "gpu-01 is reached by SSH, and no key to log in with is named.\n"
                "Add --key-file FILE, the private key of root there; neither an agent nor ~/.ssh is used.\n"
            ),
        ),
        (("--certificate-file", "c"), "A certificate is of a key, and none is named.\nAdd --key-file.\n"),
        (
            ("--host-ca", "ours"),
            "A public key is a type and base64, such as `ssh-ed25519 AAAA...`.\n",
        ),
    ],
)
def test_add_refuses_a_way_that_leads_nowhere(place: Installation, words: tuple[str, ...], said: str) -> None:
    done = place("nodes", "add", "gpu-01", *words)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_node_behind_a_jump_host_is_scanned_through_it(
    place: Installation, sshd_farm: Callable[..., SshdFarm]
) -> None:
    farm = sshd_farm(2)
    bastion, node = farm.servers
    reach = ("--port", str(farm.port), "--key-file", str(farm.private_key))
    place("nodes", "add", "bastion", "--address", bastion.address, *reach, "--host-key", bastion.host_key, "--write")

    done = place(
        "nodes", "add", "gpu-01", "--address", node.address, *reach, "--jump", "bastion", "--scan", "--yes", "--write"
    )
    checked = place("nodes", "check", "gpu-01", "--json")

    assert done.returncode == 0, done.stderr
    assert "    jump: bastion\n" in done.stdout
    assert node.host_key in done.stdout
    assert {"reached", "host key", "login"} <= set(json.loads(checked.stdout)[0]["passed"])


def test_an_address_where_nobody_answers_is_told(place: Installation) -> None:
    done = place(
        "nodes", "add", "gpu-01", "--address", "127.0.0.1", "--port", "9", "--key-file", "id", "--scan", "--yes"
    )

    assert done.returncode == 2
    assert "gpu-01" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ("root", "alice is not root, and --login root lets nobody else in, so no script is sent there: "),
        ("lingering", "alice is believed to linger on gpu-01 (`login: lingering`), which is seen only once alice is "),
    ],
)
def test_add_says_of_a_user_what_must_be_known_before_the_first_login(
    place: Installation, login: str, said: str
) -> None:
    words = ("--user", "alice", "--login", login, "--key-file", "id", "--host-key", KEY)

    done = place("nodes", "add", "gpu-01", *words)

    assert (done.returncode, done.stderr.startswith(said)) == (0, True), done.stderr


def test_check_says_whom_it_believes_before_it_logs_in(place: Installation) -> None:
    node = "{executor: ssh, address: 127.0.0.1, port: 9, user: alice, login: system, key_file: id}"
    (place.folder / "config" / "inventory.yaml").write_text(f"nodes: {{gpu-01: {node}}}\n")

    done = place("nodes", "check", "gpu-01")
    doctor = place("doctor")

    assert done.stderr.startswith("alice is believed to be a system user on gpu-01 (`login: system`)")
    assert "gpu-01  NOT READY" in done.stdout
    assert "alice is believed to be a system user on gpu-01 (`login: system`)" in doctor.stdout


INSTANCE, HASH = "i-0123456789abcdef0", "0123456789abcdef" * 4


def test_add_takes_a_node_that_aws_reaches_and_asks_for_no_host_key(place: Installation) -> None:
    file = place.folder / "config" / "inventory.yaml"
    own = ("--document", "unstick-run", "--document-hash", HASH)
    words = ("--executor", "ssm", "--instance", INSTANCE, "--region", "eu-central-1", "--profile", "gpu", *own)

    done = place("nodes", "add", "gpu-01", *words, "--write")

    assert (done.returncode, done.stderr) == (
        0,
        "Written to config/inventory.yaml. Next: unstick nodes check gpu-01\n",
    )
    assert done.stdout == (
        "nodes:\n"
        "  gpu-01:\n"
        "    executor: ssm\n"
        f"    instance: {INSTANCE}\n"
        "    region: eu-central-1\n"
        "    profile: gpu\n"
        "    document: unstick-run\n"
        f"    document_hash: {HASH}\n"
    )
    assert load_inventory(file).nodes["gpu-01"].endpoint == Endpoint(
        "gpu-01",
        ExecutorKind.SSM,
        INSTANCE,
        region="eu-central-1",
        profile="gpu",
        document="unstick-run",
        document_hash=HASH,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--executor", "ssm"),
            "gpu-01 is reached by SSM, and no instance is named.\nAdd --instance i-..., or mi-... of a hybrid node.\n",
        ),
        (
            ("--instance", INSTANCE),
            "--instance is for a node that AWS reaches, not by ssh.\nAdd --executor ssm.\n",
        ),
        (
            ("--executor", "ssm", "--instance", INSTANCE, "--address", "192.0.2.1"),
            "--instance and --address say the same.\nKeep --instance.\n",
        ),
        (
            ("--executor", "ssm", "--instance", "gpu-01"),
            (
                "the block of gpu-01:2: `gpu-01` is no id of an instance, and a name may mean several. "
                "Write `instance: i-...`, or `instance: mi-...` of a hybrid node.\n"
            ),
        ),
        (
            ("--executor", "ssm", "--instance", INSTANCE, "--key-file", "id"),
            "the block of gpu-01:2: `gpu-01`: `key_file` says nothing with `executor: ssm`; remove it.\n",
        ),
        (
            ("--key-file", "id", "--region", "eu-central-1"),
            "the block of gpu-01:2: `gpu-01`: `region` says nothing with `executor: ssh`; remove it.\n",
        ),
        (
            ("--executor", "ssm", "--instance", INSTANCE, "--scan"),
            "--scan asks an sshd, and gpu-01 is reached by ssm.\nLeave it out.\n",
        ),
    ],
)
def test_add_refuses_words_that_do_not_go_with_the_executor(
    place: Installation, words: tuple[str, ...], said: str
) -> None:
    done = place("nodes", "add", "gpu-01", *words)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
