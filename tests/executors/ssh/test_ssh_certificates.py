import base64
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.domain.public_key import PublicKey, parse_public_key
from service.executors.ssh.certificates import Disbelieved, judge_host_certificate
from tests.executors.ssh.sshd import make_key, sign

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(
    folder: Path, *options: str, host: str = "ed25519", authority: str = "ed25519"
) -> tuple[bytes, PublicKey]:
    make_key(folder / "host", host)
    make_key(folder / "ca", authority)
    path = sign(folder / "ca", folder / "host.pub", "-h", "-n", "gpu-01", *options)
    words = path.read_text().split()
    return base64.b64decode(words[1]), parse_public_key((folder / "ca.pub").read_text())


@pytest.mark.parametrize("host", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("authority", ["ed25519", "ecdsa", "rsa"])
def test_every_type_of_key_may_sign_every_other(tmp_path: Path, host: str, authority: str) -> None:
    blob, signer = certificate(tmp_path, host=host, authority=authority)

    judge_host_certificate(blob, ["gpu-01"], authorities=[signer], now=NOW)


def test_a_signature_with_sha1_is_refused(tmp_path: Path) -> None:
    blob, signer = certificate(tmp_path, "-t", "ssh-rsa", authority="rsa")

    with pytest.raises(Disbelieved, match="is signed with SHA-1"):
        judge_host_certificate(blob, ["gpu-01"], authorities=[signer], now=NOW)


def test_no_byte_of_a_certificate_can_be_changed(tmp_path: Path) -> None:
    blob, signer = certificate(tmp_path)

    for position in range(len(blob)):
        changed = bytearray(blob)
        changed[position] ^= 1
        with pytest.raises(Disbelieved):
            judge_host_certificate(bytes(changed), ["gpu-01"], authorities=[signer], now=NOW)


@pytest.mark.parametrize("blob", [b"", b"\0\0\0\x0bssh-ed25519", b"\xff" * 40])
def test_bytes_that_are_no_certificate_are_refused(blob: bytes) -> None:
    with pytest.raises(Disbelieved):
        judge_host_certificate(blob, ["gpu-01"], authorities=[], now=NOW)
