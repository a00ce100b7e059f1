"""The key that unstick logs in with: one explicit file, and one plain cause when it does not load.

Neither an agent nor ~/.ssh is ever asked: each key offered in vain counts against the server's MaxAuthTries.
A cause names the file and never shows what is in it.
"""

import io
import os
import stat
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_ssh_private_key,
)
from cryptography.hazmat.primitives.serialization.ssh import SSHCertificate

from service.domain.known_secrets import KNOWN
from service.domain.node import Endpoint
from service.domain.public_key import PublicKey
from service.domain.script import NotStarted
from service.executors.not_sent import NotSent
from service.executors.ssh.certificates import Disbelieved, judge_user_certificate, read_certificate, wire_key

#: Shorter lines of a key file are its words, such as PRIVATE.
_SHORTEST_LINE = 16
_Stamp = tuple[str, int, int, int]


class KeyRing:
    """Private keys, each read once until its file changes. Safe for many threads."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Take the clock by which a user certificate is judged."""
        self._now = now
        self._lock = threading.Lock()
        self._keys: dict[tuple[_Stamp, _Stamp | None], paramiko.PKey] = {}

    def key_of(self, endpoint: Endpoint) -> paramiko.PKey:
        """Return the key, with its certificate, for an endpoint; NotSent says why there is none."""
        if endpoint.key_file is None:
            raise _refusal(
                f"No key file is set for {endpoint.name}",
                "Set `key_file` in inventory.yaml; unstick uses neither an agent nor ~/.ssh.",
            )
        key_path = Path(endpoint.key_file).expanduser()
        certificate_path = Path(endpoint.certificate_file).expanduser() if endpoint.certificate_file else None
        stamps = (_stamp(key_path), _stamp(certificate_path) if certificate_path else None)
        with self._lock:
            key = self._keys.get(stamps)
            if key is None:
                key = load_key(key_path)
                if certificate_path:
                    add_certificate(key, certificate_path, key_path=key_path)
                self._keys[stamps] = key
        if certificate_path:
            _judge(key, certificate_path, self._now())
        return key


def load_key(path: Path) -> paramiko.PKey:
    """Read a private key in any form that ssh-keygen or OpenSSL writes, without a passphrase."""
    data = _read(path)
    _refuse_what_is_no_key(data, path)
    _refuse_what_others_read(path)
    _learn(data)
    load = load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        loaded = load(data, password=None)
    except TypeError as error:
        raise _refusal(
            f"The key file {path} is encrypted with a passphrase",
            "Give unstick a key of its own without one, readable by it alone.",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _refusal(
            f"The key file {path} is damaged or of an unknown kind", f"Try `ssh-keygen -y -f {path}`."
        ) from error
    match loaded:
        case rsa.RSAPrivateKey():
            return paramiko.RSAKey(key=loaded)
        case ec.EllipticCurvePrivateKey():
            return paramiko.ECDSAKey(vals=(loaded, loaded.public_key()))
        case ed25519.Ed25519PrivateKey():
            text = loaded.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
            return paramiko.Ed25519Key(file_obj=io.StringIO(text))
        case _:
            raise _refusal(f"The key file {path} holds a kind of key that SSH does not use", "Make an ed25519 key.")


def add_certificate(key: paramiko.PKey, path: Path, *, key_path: Path) -> None:
    """Let a key be offered with its user certificate."""
    try:
        certificate, blob = _user_certificate(_read(path))
    except Disbelieved as error:
        raise _refusal(f"The certificate file {path} {error}", "Name the file that `ssh-keygen -s` wrote.") from error
    if wire_key(certificate.public_key()) != PublicKey(key.get_name(), key.asbytes()):
        raise _refusal(
            f"The certificate file {path} belongs to another key than {key_path}",
            "Have this key signed, or name the key that was.",
        )
    key.load_certificate(paramiko.Message(blob))


def _user_certificate(data: bytes) -> tuple[SSHCertificate, bytes]:
    words = data.decode("utf-8", "replace").split()
    suffix = "-cert-v01@openssh.com"
    if len(words) < 2 or not words[0].endswith(suffix):
        raise Disbelieved("is no certificate")
    try:
        blob = paramiko.pkey.PublicBlob.from_string(" ".join(words[:2])).key_blob
    except (ValueError, paramiko.SSHException) as error:
        raise Disbelieved("cannot be read") from error
    return read_certificate(blob), blob


def _judge(key: paramiko.PKey, path: Path, now: datetime) -> None:
    blob = key.public_blob
    if blob is None:
        return
    try:
        judge_user_certificate(read_certificate(blob.key_blob), now=now)
    except Disbelieved as error:
        raise _refusal(f"The certificate file {path} {error}", "Have the key signed again.") from error


def _learn(data: bytes) -> None:
    """Let no text show a line of the key: outputs are masked by lines, and one may come without the first."""
    lines = data.decode("ascii", "replace").split()
    KNOWN.learn_key(*(line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith("-----")))


def _refuse_what_is_no_key(data: bytes, path: Path) -> None:
    first = data.lstrip()[:40]
    if not first:
        raise _refusal(f"The key file {path} is empty", "Name the file with the private key.")
    if b"\r\n" in data:
        raise _refusal(
            f"The key file {path} has the line ends of Windows (CRLF), which OpenSSH refuses",
            f"Mend it with `sed -i 's/\\r$//' {path}`.",
        )
    if first.startswith((b"ssh-", b"ecdsa-", b"sk-", b"---- BEGIN SSH2 PUBLIC", b"-----BEGIN PUBLIC")):
        raise _refusal(f"The key file {path} holds a public key", "Name the private one, mostly without `.pub`.")
    if first.startswith(b"PuTTY-User-Key-File"):
        raise _refusal(f"The key file {path} is in the form of PuTTY", "Turn it with `puttygen -O private-openssh`.")
    if not first.startswith(b"-----BEGIN "):
        raise _refusal(f"The key file {path} holds no private key", "Such a file begins with `-----BEGIN`.")


def _refuse_what_others_read(path: Path) -> None:
    status = path.stat()
    # The rule of ssh(1): others must not read a key of ours (authfile.c, sshkey_perm_ok).
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
        raise _refusal(
            f"The key file {path} can be read by others (mode {stat.S_IMODE(status.st_mode):04o})",
            f"Mend it with `chmod 600 {path}`.",
        )


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise _refusal(f"The key file {path} is a folder", "Name the file in it that holds the private key.")
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return str(path), status.st_mtime_ns, status.st_size, status.st_mode


def _unreadable(path: Path, error: OSError) -> NotSent:
    return _refusal(f"The key file {path} cannot be read ({error.strerror})", f"Look with `ls -l {path}`.")


def _refusal(reason: str, way_out: str) -> NotSent:
    return NotSent(NotStarted.LOGIN, f"{reason}.", way_out)
