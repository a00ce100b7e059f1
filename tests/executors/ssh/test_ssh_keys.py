"""Each good key loads; each bad one has one plain cause that names the file and shows nothing of it."""

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)

from service.domain.node import Endpoint, ExecutorKind
from service.domain.public_key import PublicKey, parse_public_key
from service.domain.script import NotStarted
from service.executors.not_sent import NotSent
from service.executors.ssh.keys import KeyRing
from tests.executors.ssh.sshd import make_key, sign

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def endpoint(key_file: Path | None, certificate_file: Path | None = None) -> Endpoint:
    return Endpoint(
        "gpu-01",
        ExecutorKind.SSH,
        "192.0.2.1",
        key_file=str(key_file) if key_file else None,
        certificate_file=str(certificate_file) if certificate_file else None,
    )


def refusal(key_file: Path | None, certificate_file: Path | None = None, *, now: datetime = NOW) -> str:
    with pytest.raises(NotSent) as caught:
        KeyRing(lambda: now).key_of(endpoint(key_file, certificate_file))
    assert caught.value.cause is NotStarted.LOGIN
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ed25519", ()),
        ("ecdsa", ("-b", "256")),
        ("ecdsa", ("-b", "521")),
        ("rsa", ("-b", "2048")),
        ("rsa", ("-b", "2048", "-m", "PEM")),
        ("rsa", ("-b", "2048", "-m", "PKCS8")),
        ("ecdsa", ("-m", "PEM")),
        ("ecdsa", ("-m", "PKCS8")),
    ],
)
def test_a_good_key_loads_in_every_form_that_ssh_keygen_writes(
    tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    path = make_key(tmp_path / "id", kind, *options)

    key = KeyRing(lambda: NOW).key_of(endpoint(path))

    assert PublicKey(key.get_name(), key.asbytes()) == parse_public_key((tmp_path / "id.pub").read_text())
    assert key.can_sign()


def test_an_ed25519_key_loads_as_openssl_writes_it(tmp_path: Path) -> None:
    path = make_key(tmp_path / "id")
    loaded = load_ssh_private_key(path.read_bytes(), None)
    path.write_bytes(loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    key = KeyRing(lambda: NOW).key_of(endpoint(path))

    assert PublicKey(key.get_name(), key.asbytes()) == parse_public_key((tmp_path / "id.pub").read_text())


def encrypted(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "hunter2", "-f", str(path)], check=True, timeout=60)


def encrypted_pem(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "hunter2", "-m", "PEM", "-f", str(path)], check=True, timeout=60
    )


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (encrypted, "is encrypted with a passphrase"),
        (lambda path: path.write_bytes(path.with_suffix(".pub").read_bytes()), "holds a public key"),
        (lambda path: path.write_text(path.read_text(), newline="\r\n"), "has the line ends of Windows (CRLF)"),
        (lambda path: path.chmod(0o644), "can be read by others (mode 0644)"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(path.read_bytes()[:150]), "is damaged or of an unknown kind"),
        (lambda path: path.write_bytes(b"PuTTY-User-Key-File-3: ssh-ed25519\n"), "is in the form of PuTTY"),
        (lambda path: path.write_bytes(b"password: hunter2\n"), "holds no private key"),
        (lambda path: path.unlink(), "cannot be read (No such file or directory)"),
        (lambda path: (path.unlink(), path.mkdir(0o755)), "is a folder"),
    ],
)  # fmt: skip
def test_a_bad_key_has_one_plain_cause_with_the_name_of_the_file(
    tmp_path: Path, spoil: Callable[[Path], object], cause: str
) -> None:
    path = make_key(tmp_path / "id")
    secret = path.read_text().splitlines()[2]
    spoil(path)

    refused = refusal(path)

    assert f"The key file {path} {cause}" in refused
    assert secret[:20] not in refused
    assert "hunter2" not in refused


@pytest.mark.parametrize("kind", ["folder", "public key", "something else"])
def test_nobody_is_told_to_close_a_file_that_is_no_private_key(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "id"
    match kind:
        case "folder":
            path.mkdir(0o755)
        case "public key":
            path.write_bytes(make_key(tmp_path / "other").with_suffix(".pub").read_bytes())
        case _:
            path.write_text("words\n")
    path.chmod(0o755)

    assert "chmod" not in refusal(path)


def test_an_encrypted_pem_key_is_named_as_such(tmp_path: Path) -> None:
    path = make_key(tmp_path / "id", "rsa", "-b", "2048", "-m", "PEM")
    encrypted_pem(path)

    assert "is encrypted with a passphrase" in refusal(path)


def test_without_a_key_file_nothing_else_is_tried() -> None:
    assert "No key file is set for gpu-01. Set `key_file`" in refusal(None)


def test_a_key_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path = make_key(tmp_path / "id")
    ring = KeyRing(lambda: NOW)
    before = ring.key_of(endpoint(path)).asbytes()
    path.unlink()
    make_key(path)

    after = ring.key_of(endpoint(path)).asbytes()

    assert before != after
    assert after == parse_public_key((tmp_path / "id.pub").read_text()).blob


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    """A key and an authority."""
    return make_key(tmp_path / "id"), make_key(tmp_path / "ca")


def test_a_user_certificate_is_offered_with_its_key(signed: tuple[Path, Path], tmp_path: Path) -> None:
    path, authority = signed
    certificate = sign(authority, tmp_path / "id.pub", "-n", "root")

    key = KeyRing(lambda: NOW).key_of(endpoint(path, certificate))

    assert key.public_blob is not None
    assert key.public_blob.key_type == "ssh-ed25519-cert-v01@openssh.com"


def test_an_expired_user_certificate_is_named_before_anything_is_tried(
    signed: tuple[Path, Path], tmp_path: Path
) -> None:
    path, authority = signed
    certificate = sign(authority, tmp_path / "id.pub", "-n", "root", "-V", "20260101000000Z:20260201000000Z")

    refused = refusal(path, certificate)

    assert f"The certificate file {certificate} expired at 2026-02-01T00:00:00+00:00." in refused


def test_a_certificate_of_another_key_is_named(signed: tuple[Path, Path], tmp_path: Path) -> None:
    path, authority = signed
    make_key(tmp_path / "other")
    certificate = sign(authority, tmp_path / "other.pub", "-n", "root")

    assert f"belongs to another key than {path}" in refusal(path, certificate)


def test_a_host_certificate_or_none_at_all_is_named(signed: tuple[Path, Path], tmp_path: Path) -> None:
    path, authority = signed
    certificate = sign(authority, tmp_path / "id.pub", "-h", "-n", "gpu-01")

    assert "is made for machines and not for users" in refusal(path, certificate)
    assert "is no certificate" in refusal(path, tmp_path / "id.pub")
