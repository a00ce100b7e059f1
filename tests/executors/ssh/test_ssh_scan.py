import subprocess

import pytest

from service.domain.public_key import parse_public_key
from service.domain.script import NotStarted
from service.executors.not_sent import NotSent
from service.executors.ssh.executor import SshExecutor
from tests.executors.ssh.sshd import Sshd


def test_a_scan_shows_every_host_key_with_the_fingerprint_that_ssh_keygen_prints(sshd: Sshd, ssh: SshExecutor) -> None:
    endpoint = sshd.endpoint(host_keys=(), key_file=None)

    keys = ssh.offered_host_keys(endpoint)

    names = ("host_ed25519", "host_ecdsa", "host_rsa")
    printed = [
        subprocess.run(["ssh-keygen", "-lf", f"{sshd.folder}/{name}.pub"], check=True, capture_output=True, text=True)
        for name in names
    ]
    assert keys == tuple(parse_public_key(sshd.public(name)) for name in names)
    assert [key.fingerprint for key in keys] == [line.stdout.split()[1] for line in printed]


def test_a_scan_logs_in_nowhere(own_sshd: Sshd, ssh: SshExecutor) -> None:
    keys = ssh.offered_host_keys(own_sshd.endpoint(host_keys=()))

    assert [key.line for key in keys] == [own_sshd.host_key]
    assert "Accepted" not in own_sshd.log
    assert ssh.connections() == 0


def test_a_scan_goes_through_the_jump_host(sshd: Sshd, own_sshd: Sshd, ssh: SshExecutor) -> None:
    keys = ssh.offered_host_keys(sshd.endpoint(host_keys=(), jump=own_sshd.endpoint(name="bastion")))

    assert keys[0].line == sshd.host_key


def test_a_machine_that_cannot_be_scanned_says_why(sshd: Sshd, ssh: SshExecutor) -> None:
    with pytest.raises(NotSent) as caught:
        ssh.offered_host_keys(sshd.endpoint(port=1))

    assert caught.value.cause is NotStarted.UNREACHABLE
