"""doctor says what a login would say, before anybody logs in."""

import subprocess
from pathlib import Path

import pytest

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
